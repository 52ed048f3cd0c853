"""Worker processes, as the event loop sees them: the threads that start and end them, and the links to them.

A start can't be cancelled half way. If you stop waiting for one, ``WorkerThreads`` ends the
worker once it is there.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.errors import SessionGone
from paddock.hosting.failures import read_incident
from paddock.hosting.frames import FrameCutter, SpinWait
from paddock.hosting.messages import Limits
from paddock.server.auth import role_of

logger = logging.getLogger("paddock.server")

Started = tuple[Any, Any]  # the near socket and the child
OnWait = Callable[[int, float | None], None]  # how many are ahead, and for how many seconds about

_ENDING = 8  # at a time: ending is mostly waiting for the kernel
_SPARE_DESCRIPTORS = 32  # for connections to accept and answer
_START_DESCRIPTORS = 12  # while a worker starts; a running one has five
# Every link reads into the same memory, and takes out what it needs before the next one reads. A `recv` of this size
# would get fresh pages from the kernel each time, which takes longer than everything else here.
_BUFFER = memoryview(bytearray(1 << 18))
_EXIT_S = 0.3  # from the closing of a worker's socket to its exit; after that it is killed
# A worker's reply to a cheap step comes sooner than the server could fall asleep and wake up.
_SPIN_S = 120e-6
# A client that asks for a step this soon after the last reply will do so again, and finds the server awake.
_AWAKE_S = 1e-3
_LOAD = Path("/proc/loadavg")
_LOOK_S = 0.5  # from one look whether a core is free for that to the next
_LOG_S = 0.2  # a worker's output of this time is one record; if it dies meanwhile, the record of its loss has it
_RECORD = 3_000  # characters of output in one record
_OUTPUT_MOST = 1 << 16  # characters of one worker's output that are logged


@dataclass(frozen=True)
class _Place:
    last: bool  # behind all operators
    round: int
    principal: str
    on_wait: OnWait | None


class WorkerThreads:
    """Start and end workers in threads, so that a burst of either never stalls the event loop.

    ``starting`` workers are started at a time; the others wait for their turn. Operators come first. Among them, and
    among the others, each principal has one turn per round. ``alone``: whether the server's other processes are idle.
    """

    def __init__(self, starting: int | None = None, *, alone: Callable[[], bool] = lambda: True) -> None:
        self._most = starting or 2 * (os.cpu_count() or 1)
        self._starting = ThreadPoolExecutor(self._most, "paddock-start")
        self.starting = self.started = 0  # how many are being started now, and how many were in all
        self._start_s: float | None = None  # how long a start takes
        self._queue: dict[asyncio.Future[None], _Place] = {}
        self._round: Counter[bool] = Counter()  # of the last turn: that of operators, that of the others
        self._ending = ThreadPoolExecutor(_ENDING, "paddock-end")
        self._closed = False
        self.busy: set[object] = set()  # the links that wait for a reply
        self.awake = AwakeLoop(alone)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    async def start(
        self,
        start: Callable[[], Started],
        wanted: Callable[[], bool],
        on_wait: OnWait | None = None,
        *,
        principal: str = "",
    ) -> Started:
        """Return what ``start`` returns. SessionGone, and nothing started, if it isn't ``wanted`` when its turn comes.

        ``on_wait`` is called at once with how many are ahead and about how long that takes, and again by each
        ``announce_places``. Cancelling while it waits leaves the queue.
        """
        if self.starting < self._most:
            self.starting += 1
        else:
            await self._wait_for_turn(principal, on_wait)
        if self._closed or not wanted():
            self._next()
            raise SessionGone("The client disconnected before the session was ready.")
        loop, began_s = asyncio.get_running_loop(), time.monotonic()

        def learn() -> None:
            took_s = time.monotonic() - began_s
            self._start_s = took_s if self._start_s is None else 0.8 * self._start_s + 0.2 * took_s
            self._next()

        try:
            starting = self._starting.submit(start)
        except RuntimeError as error:  # no thread could be started
            self._next()
            raise OSError(errno.EAGAIN, str(error)) from error
        self.started += 1
        starting.add_done_callback(lambda _: loop.call_soon_threadsafe(learn))
        try:
            return await asyncio.shield(asyncio.wrap_future(starting))
        except asyncio.CancelledError:
            starting.add_done_callback(_kill_worker)
            raise

    async def _wait_for_turn(self, principal: str, on_wait: OnWait | None) -> None:
        turn = asyncio.get_running_loop().create_future()
        last = role_of(principal) in ("agent", "observer")
        own = (place.round for place in self._queue.values() if place.principal == principal)
        self._queue[turn] = _Place(last, max(self._round[last], *own, 0) + 1, principal, on_wait)
        if on_wait is not None:
            ahead = self.starting + self._queue_in_order().index(turn)
            on_wait(ahead, self._wait_s(ahead))
        try:
            await turn
        except asyncio.CancelledError:
            self._queue.pop(turn, None)
            if not turn.cancelled():  # its turn came at that very moment
                self._next()
            raise

    def _next(self) -> None:
        """Give the first in the queue its turn: a start is done."""
        for turn in self._queue_in_order():
            place = self._queue.pop(turn)
            if not turn.done():
                self._round[place.last] = place.round
                turn.set_result(None)
                return
        self.starting -= 1

    def announce_places(self) -> None:
        """Tell everyone in the queue how many are ahead."""
        for ahead, turn in enumerate(self._queue_in_order(), self.starting):
            on_wait = self._queue[turn].on_wait
            if on_wait is not None:
                on_wait(ahead, self._wait_s(ahead))

    def _wait_s(self, ahead: int) -> float | None:
        return None if self._start_s is None else (ahead + 1) * self._start_s / self._most

    def _queue_in_order(self) -> list[asyncio.Future[None]]:
        """The queue in order, the next turn first; within a round in order of arrival."""
        return sorted(self._queue, key=lambda turn: (self._queue[turn].last, self._queue[turn].round))

    def run(self, work: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        """Run something that may block: ending a worker, writing to a disk."""
        if not self._closed:
            return asyncio.wrap_future(self._ending.submit(work, *arguments))
        done = asyncio.get_running_loop().create_future()
        done.set_result(work(*arguments))  # the server is about to exit, so blocking the loop does no harm
        return done

    def close(self) -> None:
        """Start nothing more and finish what was begun. Blocks."""
        self._closed = True
        self._starting.shutdown(wait=True)
        self._ending.shutdown(wait=True)


def _kill_worker(starting: Future[Started]) -> None:
    """End a worker that was started although nobody waits for it any more."""
    if not starting.cancelled() and starting.exception() is None:
        near, child = starting.result()
        near.close()
        child.kill()


class AwakeLoop:
    """Keeps the event loop from sleeping until the next request of a lone client, while those come at once.

    A loop that spins takes a core, so it sleeps while the server's other processes are at work (not ``alone()``) or any
    process waits for a core. Hot: ``note_request`` and ``note_reply`` run once per step.
    """

    def __init__(self, alone: Callable[[], bool]) -> None:
        self._alone = alone
        self._link: object = None  # that of the last reply
        self._replied_s = 0.0  # when that came
        self._at_once = False  # whether the request after it came at once, and has no reply yet
        self._look_s, self._may_spin = 0.0, False
        self._until_s, self._spins = 0.0, False

    def note_request(self, link: object) -> None:
        self._at_once = link is self._link and time.monotonic() - self._replied_s < _AWAKE_S

    def note_reply(self, link: object) -> None:
        """The worker has replied, and the reply was passed on."""
        self._link, self._replied_s = link, time.monotonic()
        if not self._at_once:
            return
        self._at_once = False  # once per request: what a worker sends unasked keeps nobody awake
        if self._replied_s >= self._look_s:
            self._look_s, self._may_spin = self._replied_s + _LOOK_S, self._alone() and _has_free_core()
        if self._may_spin:
            self._until_s = self._replied_s + _AWAKE_S
            if not self._spins:
                self._spin()

    def forget(self, link: object) -> None:
        """Hold on to this link no longer."""
        if self._link is link:
            self._link = None

    def _spin(self) -> None:
        self._spins = time.monotonic() < self._until_s
        if self._spins:
            os.sched_yield()
            asyncio.get_running_loop().call_soon(self._spin)


def _has_free_core() -> bool:
    """Whether no process waits for a core. While one does, a server that spins has less time for its own work."""
    try:
        running = int(_LOAD.read_text().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return False
    cores = len(os.sched_getaffinity(0))
    return cores > 1 and running <= cores


def has_descriptors(starting: int) -> bool:
    """Whether this process has descriptors for one more worker beside the ``starting`` ones.

    Checked before a session is opened: a server without any can't even answer that it is full.
    """
    import resource  # here: this module is imported on every system

    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return True
    try:
        lowest_free = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    os.close(lowest_free)
    return lowest_free + _START_DESCRIPTORS * (starting + 1) + _SPARE_DESCRIPTORS <= most


class WorkerLink:
    """The socket ``near`` of the process ``child`` in the event loop. Frames pass as bytes; none is decoded here.

    ``on_frame`` gets each reply, ``on_lost`` gets the cause once, at the end. What the worker prints is logged with
    ``labels``, up to a limit. An incident, the text of an error that no peer may see, gets a record of its own.
    While no other link waits for a reply, the server spins for this one's for a moment; and for the next request of a
    lone client, while those come at once.
    Hot: ``send`` and ``_readable`` run once per step.
    """

    def __init__(
        self,
        near: socket.socket,
        child: Any,
        *,
        limits: Limits,
        threads: WorkerThreads,
        on_frame: Callable[[bytes], None],
        on_lost: Callable[[str], Any],
        labels: Mapping[str, Any] = {},
    ) -> None:
        near.setblocking(False)
        self._near, self.child, self._threads = near, child, threads
        self._on_frame, self.on_lost, self._labels = on_frame, on_lost, dict(labels)
        self._output_fd, self._logged = child.output_fd, 0
        self._log_timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[memoryview] = deque()
        self._cutter = FrameCutter(limits)
        self._open = True
        self._reply = SpinWait(near, _SPIN_S)
        self.cause: str | None = None  # why it is lost, once ``on_lost`` was called
        self._killing: asyncio.Future[None] | None = None  # kept, or it might be garbage-collected
        self._loop.add_reader(near.fileno(), self._readable)
        if child.fd is not None:
            self._loop.add_reader(child.fd, self._on_exit)
        if child.output_fd is not None:
            self._loop.add_reader(child.output_fd, self._on_output)

    def send(self, frame: bytes | bytearray | memoryview) -> None:
        """Send a frame; what the worker does not take now waits."""
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
                self._threads.awake.note_request(self)
                busy = self._threads.busy
                busy.add(self)
                if len(busy) == 1:
                    self._reply.spin_until_readable()  # the loop reads it next
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
        """Read what is there; False if that was nothing."""
        try:
            count = self._near.recv_into(_BUFFER)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            count = 0
        if not count:
            self._lose(None)
            return False
        self._threads.busy.discard(self)
        for frame in self._cutter.cut(_BUFFER[:count]):
            self.child.answered = True
            if not self._open:  # the frame before this one ended the session
                return True
            self._on_frame(frame)
        if self._open:  # else the last frame ended the session
            self._threads.awake.note_reply(self)
        if self._cutter.bad:
            self._lose("protocol")
        return True

    def _on_exit(self) -> None:
        # What it wrote before it exited is still in the socket, and counts.
        while self._open and self._readable():
            pass
        self._lose(None)

    def _on_output(self) -> None:
        if not self.child.drain() and self._output_fd is not None:
            self._loop.remove_reader(self._output_fd)  # at once: the number may soon belong to another file
            self._output_fd = None
        if self._log_timer is None:
            self._log_timer = self._loop.call_later(_LOG_S, self.log_output)

    def log_output(self) -> None:
        """Log what the worker printed since the last time."""
        self._log_timer = None
        text = self.take_output()
        for at in range(0, len(text), _RECORD):
            logger.warning("the environment printed %r", text[at : at + _RECORD], extra=self._labels)

    def take_output(self) -> str:
        """Return what the worker printed since the last time; incidents among it are logged here and left out."""
        text = self.child.output[self._logged : _OUTPUT_MOST]
        if self._open:
            text = text[: text.rfind("\n") + 1]  # the rest of a line is still to come
        self._logged += len(text)
        rest = []
        for line in text.split("\n"):
            found = read_incident(line)
            if found is None:
                rest.append(line)
            else:
                logger.warning("%s", found, extra=self._labels)
        return "\n".join(rest).strip("\n")

    def _lose(self, cause: str | None) -> None:
        if not self._open:
            return
        self._let_go()

        def kill() -> None:
            if cause is None:  # it may be about to say why by its exit
                self.child.wait(_EXIT_S)
            self.child.kill()

        async def kill_and_report() -> None:
            await self._threads.run(kill)
            self.cause = cause or str(self.child.cause or "closed")
            self.on_lost(self.cause)

        self._killing = asyncio.ensure_future(kill_and_report())

    def end(self) -> asyncio.Future[Any]:
        """End the process and everything it started, without calling ``on_lost``. Done when it is gone."""
        if self._open:
            self._let_go()
            self.child.drain()
            self.log_output()
        self.on_lost = lambda _: None
        return self._threads.run(self.child.kill)

    def _let_go(self) -> None:
        if self._open:
            self._open = False
            self._threads.busy.discard(self)
            self._threads.awake.forget(self)
            if self._log_timer is not None:
                self._log_timer.cancel()
            for fd in (self._near.fileno(), self.child.fd, self._output_fd):
                if fd is not None and fd >= 0:
                    self._loop.remove_reader(fd)
            self._loop.remove_writer(self._near.fileno())
            self._near.close()
            self._unsent.clear()
