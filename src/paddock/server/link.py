"""WorkerLink: a worker's socket in the event loop. Whole frames go both ways as bytes; none is decoded here."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from paddock.hosting.discreet import read_incident
from paddock.hosting.frame_cutter import FrameCutter
from paddock.hosting.limits import Limits
from paddock.hosting.waiting import Waiting
from paddock.server.crew import Crew

logger = logging.getLogger("paddock.server")

# Every link reads into the same memory, and takes what it needs out before the next one does. A `recv` of this size
# would get fresh pages from the kernel each time, which takes longer than all else here.
_ROOM = memoryview(bytearray(1 << 18))
_LOOK_S = 0.3  # from the closing of a worker's socket to its end; what lives on after that is ended
# A worker's reply to a cheap step comes sooner than the server would be asleep and awake again.
_SOON_S = 120e-6
_TELL_S = 0.2  # what a worker prints in this time is one record; if it dies meanwhile, the record of its end has it
_RECORD = 3_000  # characters of that in one record
_TOLD_MOST = 1 << 16  # characters of what one worker prints


class WorkerLink:
    """To the process ``child`` over ``near``. ``on_frame`` gets each reply, ``on_lost`` a cause, once, at the end.

    What it prints goes to the log with ``named``, up to a bound. An incident, the text of an error that no peer is
    told, has a record of its own.
    ``lead``: so many bytes stand before each frame, see FrameCutter. ``alone``: the process is for one session; while
    no other owes a reply, the server waits for this one's awake for a moment.
    Hot: ``send`` and ``_readable`` run once a step.
    """

    def __init__(
        self,
        near: socket.socket,
        child: Any,
        *,
        limits: Limits,
        crew: Crew,
        on_frame: Callable[[bytes], None],
        on_lost: Callable[[str], Any],
        named: Mapping[str, Any] = {},
        lead: int = 0,
        alone: bool = False,
    ) -> None:
        near.setblocking(False)
        self._near, self.child, self._crew = near, child, crew
        self._on_frame, self._on_lost, self._named = on_frame, on_lost, dict(named)
        self._output_fd, self._told = child.output_fd, 0
        self._tells: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[memoryview] = deque()
        self._cutter = FrameCutter(limits, lead)
        self._open = True
        self._reply = Waiting(near, _SOON_S if alone else 0.0)
        self.cause: str | None = None  # why it is lost, once that was told
        self._telling: asyncio.Future[None] | None = None  # kept, or it might be collected
        self._loop.add_reader(near.fileno(), self._readable)
        if child.fd is not None:
            self._loop.add_reader(child.fd, self._ended)
        if child.output_fd is not None:
            self._loop.add_reader(child.output_fd, self._printed)

    def send(self, frame: bytes | bytearray | memoryview) -> None:
        """Pass a frame on; what the worker does not take now waits."""
        if not self._open:
            return
        sent = 0
        if not self._unsent:
            try:
                sent = self._near.send(frame)
            except BlockingIOError:
                pass
            except OSError:
                self._lose(None)
                return
            if sent == len(frame):
                busy = self._crew.busy
                busy.add(self)
                if len(busy) == 1:
                    self._reply.is_soon()  # the loop reads it next
                return
            self._loop.add_writer(self._near.fileno(), self._writable)
        self._unsent.append(memoryview(bytes(frame))[sent:])

    def _writable(self) -> None:
        try:
            while self._unsent:
                self._unsent[0] = self._unsent[0][self._near.send(self._unsent[0]) :]
                if not self._unsent[0]:
                    self._unsent.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._lose(None)
            return
        self._loop.remove_writer(self._near.fileno())

    def _readable(self) -> bool:
        """Take what is there; False if that was nothing."""
        try:
            count = self._near.recv_into(_ROOM)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            count = 0
        if not count:
            self._lose(None)
            return False
        self._crew.busy.discard(self)
        for frame in self._cutter.cut(_ROOM[:count]):
            self.child.answered = True
            if not self._open:  # the one before it was the last
                return True
            self._on_frame(frame)
        if self._cutter.bad:
            self._lose("protocol")
        return True

    def _ended(self) -> None:
        # What it wrote before is still in the socket, and counts.
        while self._open and self._readable():
            pass
        self._lose(None)

    def _printed(self) -> None:
        if not self.child.drain() and self._output_fd is not None:
            self._loop.remove_reader(self._output_fd)  # at once: its number may soon be another's
            self._output_fd = None
        if self._tells is None:
            self._tells = self._loop.call_later(_TELL_S, self.tell)

    def tell(self) -> None:
        """Log what it printed and nobody was told yet."""
        self._tells = None
        text = self.take_printed()
        for at in range(0, len(text), _RECORD):
            logger.warning("the environment printed %r", text[at : at + _RECORD], extra=self._named)

    def take_printed(self) -> str:
        """What it printed since the last time; the incidents among it are logged here, and left out."""
        text = self.child.output[self._told : _TOLD_MOST]
        if self._open:
            text = text[: text.rfind("\n") + 1]  # the rest of a line is still to come
        self._told += len(text)
        rest = []
        for line in text.split("\n"):
            found = read_incident(line)
            if found is None:
                rest.append(line)
            else:
                logger.warning("%s", found, extra=self._named)
        return "\n".join(rest).strip("\n")

    def _lose(self, cause: str | None) -> None:
        if not self._open:
            return
        self._let_go()
        self._telling = asyncio.ensure_future(self._kill_and_tell(cause))

    async def _kill_and_tell(self, cause: str | None) -> None:
        await self._crew.do(self._kill, cause is None)
        self.cause = cause or str(self.child.cause or "closed")
        self._on_lost(self.cause)

    def _kill(self, look_first: bool) -> None:
        if look_first:
            self.child.wait(_LOOK_S)
        self.child.kill()

    def when_lost(self, tell: Callable[[str], Any]) -> None:
        """From now on this one hears of its loss."""
        self._on_lost = tell

    def end(self) -> asyncio.Future[Any]:
        """End the process and all it started; nobody hears of it again. Done when it is gone."""
        if self._open:
            self._let_go()
            self.child.drain()
            self.tell()
        self._on_lost = nobody
        return self._crew.do(self.child.kill)

    def _let_go(self) -> None:
        if self._open:
            self._open = False
            self._crew.busy.discard(self)
            if self._tells is not None:
                self._tells.cancel()
            for fd in (self._near.fileno(), self.child.fd, self._output_fd):
                if fd is not None and fd >= 0:
                    self._loop.remove_reader(fd)
            self._loop.remove_writer(self._near.fileno())
            self._near.close()
            self._unsent.clear()


def nobody(cause: str) -> None:
    """For a loss that nobody wants to hear of."""


def incident() -> str:
    """A name for something that went wrong, for the log and for who is told of it."""
    return os.urandom(6).hex()
