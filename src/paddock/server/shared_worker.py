"""SharedWorker: one process behind a wall for the sessions of many peers, which all use its one socket.

For paddock's own environments, which nobody has to be protected from. What several sessions ask within one turn of the
event loop goes to the process in one write, and its replies come back the same way. A reader would get wrong: the
sessions share the policy's memory and CPU time, and a request that takes too long in one of them costs all of them
their environments.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable
from typing import Any

from paddock.hosting.limits import Limits
from paddock.hosting.messages import Close
from paddock.hosting.numbering import HANDSHAKE, number_of
from paddock.hosting.resuming import frame_of
from paddock.making.inside_shared import ID_BYTES
from paddock.server.crew import Crew
from paddock.server.link import WorkerLink, nobody

_OVERDUE_S = 1.0  # for the goodbye of a session whose own request is past its deadline: more than it had
_GOODBYE = frame_of(Close(), HANDSHAKE)  # a number that no request has: replies to those may still be under way


class SharedWorker:
    """Sessions in the worker that ``launch`` starts. One that has ended is replaced when the next session begins.

    ``request_s``: how long one request may take. A worker that answers nobody for so long is stuck.
    """

    def __init__(self, launch: Callable[[], tuple[socket.socket, Any]], limits: Limits, *, request_s: float) -> None:
        self._launch, self._limits, self._request_s = launch, limits, request_s
        self._starting = asyncio.Lock()
        self._now: _Process | None = None

    async def link(
        self,
        crew: Crew,
        wanted: Callable[[], bool],
        *,
        on_frame: Callable[[bytes], None],
        on_lost: Callable[[str], Any],
    ) -> SharedLink:
        """A session's part of the process, which is started if there is none. As WorkerLink and ``Crew.start``."""
        async with self._starting:
            if self._now is None or self._now.over:
                near, child = await crew.start(self._launch, wanted)
                self._now = _Process(near, child, self._limits, crew, self._request_s)
            return self._now.admit(on_frame, on_lost)

    async def close(self) -> None:
        """End the process and all sessions in it."""
        if self._now is not None:
            await self._now.end()


class _Process:
    """The process and the sessions in it."""

    def __init__(self, near: socket.socket, child: Any, limits: Limits, crew: Crew, request_s: float) -> None:
        self._link = WorkerLink(
            near, child, limits=limits, crew=crew, on_frame=self._replied, on_lost=self._lost, lead=ID_BYTES
        )
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._held: dict[bytes, SharedLink] = {}
        self._unsent: list[bytes] = []
        self.child, self.over, self.request_s = child, False, request_s
        self.replies = 0

    def admit(self, on_frame: Callable[[bytes], None], on_lost: Callable[[str], Any]) -> SharedLink:
        """Another session."""
        number = next(self._numbers).to_bytes(ID_BYTES, "little")
        self._held[number] = link = SharedLink(self, number, on_frame, on_lost)
        return link

    def send(self, number: bytes, frame: bytes) -> None:
        """Pass a frame on, together with what else comes in this turn of the loop. Hot."""
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent += (number, frame)

    def _flush(self) -> None:
        data = b"".join(self._unsent)
        self._unsent.clear()
        self._link.send(data)

    def _replied(self, data: bytes) -> None:
        self.replies += 1
        link = self._held.get(data[:ID_BYTES])
        if link is not None:
            link.replied(data[ID_BYTES:])

    def let_go(self, number: bytes) -> None:
        """A session is over."""
        self._held.pop(number, None)

    def _lost(self, cause: str) -> None:
        self.over = True
        self._link.tell()
        for link in list(self._held.values()):
            link.lost(cause)
        self._held.clear()

    async def end(self) -> None:
        """End it with all its sessions; they hear of it."""
        if not self.over:
            self.over = True
            await self._link.end()
            self._lost("ended")


class SharedLink:
    """A session's part of the process: what WorkerLink is for a process of its own."""

    def __init__(
        self, process: _Process, number: bytes, on_frame: Callable[[bytes], None], on_lost: Callable[[str], Any]
    ) -> None:
        self._process, self._number, self._on_lost = process, number, on_lost
        self.replied = on_frame
        self.child = _Part(process.child.pid)
        self.cause: str | None = None  # why it is lost, once that was told
        self.overdue = False  # whether it is ended because its request is past its deadline
        self._gone: asyncio.Future[None] | None = None

    def send(self, frame: bytes) -> None:
        """Pass a frame on."""
        self._process.send(self._number, frame)

    def when_lost(self, tell: Callable[[str], Any]) -> None:
        """From now on this one hears of its loss."""
        self._on_lost = tell

    def take_printed(self) -> str:
        """Nothing: what the process prints is not this session's alone."""
        return ""

    def lost(self, cause: str) -> None:
        """The process is gone."""
        self.cause = cause
        self._on_lost(cause)
        self._has_gone()

    def end(self) -> asyncio.Future[Any]:
        """End the session there, nobody hears of it again. A process that answers nobody is ended as a whole."""
        self._on_lost = nobody
        return asyncio.ensure_future(self._end())

    async def _end(self) -> None:
        if self.cause is not None or self._process.over:
            return
        self._gone = asyncio.get_running_loop().create_future()
        self.replied = self._replied_at_the_end
        self.send(_GOODBYE)
        # It is answered after what the others asked before, and each of those may take its time.
        heard, wait_s = -1, _OVERDUE_S if self.overdue else self._process.request_s
        while not self._gone.done() and heard != self._process.replies:
            heard = self._process.replies
            await asyncio.wait([self._gone], timeout=wait_s)
        if not self._gone.done():
            await self._process.end()
        self._process.let_go(self._number)

    def _replied_at_the_end(self, frame: bytes) -> None:
        if number_of(frame) == HANDSHAKE:
            self._has_gone()

    def _has_gone(self) -> None:
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)


class _Part:
    """Of the process, what a session may know."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
