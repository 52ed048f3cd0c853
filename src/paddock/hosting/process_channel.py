"""ProcessChannel: to a Host in another process, over one socket, with optional shared memory for steps.

With rules the worker is not trusted: every wait ends, and what it prints never blocks either side.
"""

from __future__ import annotations

import os
import select
import socket
import time
import weakref
from collections import deque
from contextlib import suppress
from math import inf
from typing import Any

from paddock.errors import (
    BadFrame,
    ClosedEnvironmentError,
    DeadlineExceeded,
    NoAsyncCallError,
    WorkerLost,
)
from paddock.hosting.codec import encode
from paddock.hosting.failures import Frame, frames_in, own_frame
from paddock.hosting.frames import LONGEST_MS, FrameReader, write_frame
from paddock.hosting.judge import WallRules
from paddock.hosting.layout import Block, StepLayout
from paddock.hosting.messages import LIMITS, Attach, Close, Done, Failed, Make, Request, Rows, StepReply
from paddock.hosting.values import Pickler
from paddock.sandbox.plain_text import strip_escapes

CLOSE_GRACE_S = 5.0  # how long environments may take to close before their process is killed
CLOSE_S = 1.0  # the same for an untrusted environment
_FLOOD_S = 0.002  # between two reads of what is printed: a worker that floods slows itself down
_PATIENCE_S = 60.0  # a peer that has not taken a request in this time is lost
_TAIL_CHARACTERS = 2_000
# A reply that begins late, because this end was slow to read, has this long to be complete.
_REST_S = 0.4


class Arrivals:
    """Waits until workers have written, or have ended. By poll: select refuses descriptors from 1,024 on.

    Reads what they print on the way, at a limited rate: a worker that floods must wait, not this process.
    """

    def __init__(self) -> None:
        self.poll = select.poll()
        self._sockets: dict[int, int] = {}  # by descriptor, that of a socket or of the process behind it
        self._printing: dict[int, Any] = {}  # processes by the descriptor of what they print
        self.resting: dict[int, float] = {}  # of these the ones not watched until a time of time.monotonic

    def watch(self, fd: int, child: Any) -> None:
        """Watch a socket and the process ``child`` behind it, a Child or None."""
        output_fd = getattr(child, "output_fd", None)
        for watched in (fd, None if child is None else child.fd):
            if watched is not None:
                self._sockets[watched] = fd
                self.poll.register(watched, select.POLLIN)
        if output_fd is not None:
            self._printing[output_fd] = child
            self.poll.register(output_fd, select.POLLIN)

    def unwatch(self, fd: int, child: Any) -> None:
        """Stop watching: once a worker is gone, the system uses its descriptors' numbers again."""
        for watched in [one for one, own in self._sockets.items() if own == fd]:
            del self._sockets[watched]
            self.poll.unregister(watched)
        for watched in [one for one, own in self._printing.items() if own is child]:
            del self._printing[watched]
            self.resting.pop(watched, None)
            with suppress(KeyError):  # it rests
                self.poll.unregister(watched)

    def wait(self, timeout_s: float) -> dict[int, bool]:
        """The sockets that can be read, by descriptor, and whether the process behind each has ended. Hot.

        Empty after ``timeout_s`` seconds, and when something was only printed.
        """
        if self.resting:
            timeout_s = min(timeout_s, self._watch_rested())
        heard: dict[int, bool] = {}
        for fd, event in self.poll.poll(min(max(0.0, timeout_s * 1000), LONGEST_MS)):
            if (own := self._sockets.get(fd)) is not None:
                heard[own] = heard.get(own, False) or fd != own
            else:
                self._drain(fd, event)
        return heard

    def wait_to_write(self, fd: int, timeout_s: float | None) -> None:
        """Wait until this socket can be written. ConnectionError when the process behind it has ended.

        A process that has ended may have left children that hold its socket open and will never read.
        """
        self.poll.modify(fd, select.POLLOUT)
        try:
            if self.wait(inf if timeout_s is None else timeout_s).get(fd):
                raise ConnectionError
        finally:
            self.poll.modify(fd, select.POLLIN)

    def _drain(self, fd: int, event: int) -> None:
        child = self._printing[fd]
        self.resting[fd] = time.monotonic() + _FLOOD_S  # first: Ctrl-C must not leave it unwatched for ever
        self.poll.unregister(fd)
        with suppress(OSError, ValueError):
            child.drain()
        if child.output_fd != fd or not event & select.POLLIN:  # nothing more can come; the number may be used again
            del self.resting[fd], self._printing[fd]

    def _watch_rested(self) -> float:
        """Watch outputs again that have rested; returns in how many seconds the next one will have."""
        now = time.monotonic()
        for fd, until in list(self.resting.items()):
            if until <= now:
                del self.resting[fd]
                self.poll.register(fd, select.POLLIN)
        return min(self.resting.values(), default=inf) - now


class ProcessChannel:
    """Requests over ``near`` to the process ``child``. With ``pickler`` the worker may be sent code, never the reverse.

    A peer that breaks the protocol is treated as one that died: its process is killed, and WorkerLost raised. With
    ``rules`` it is also killed by ``recv`` when a reply takes longer than ``rules.call_s`` (``start_s`` for that to
    Make). ``patience_s``: how long it may take to read a request. The process may have ``output_fd`` (None once nothing
    comes), ``drain()`` and ``output``: what it prints, kept within bounds by the code that started it.
    """

    def __init__(
        self,
        near: socket.socket,
        child: Any = None,  # a Child of hosting.launch or of sandbox.child
        rules: WallRules | None = None,
        *,
        pickler: Pickler | None = None,
        patience_s: float | None = None,
    ) -> None:
        near.setblocking(False)
        self._near, self.child, self.rules, self._pickler = near, child, rules, pickler
        if rules is not None:
            patience_s = rules.call_s
        self._patience_s = min(_PATIENCE_S, patience_s or _PATIENCE_S)
        # How much of the time since the last reply counts even though the next one is on its way.
        self._drip_s = 0.0 if rules is None else max(0.0, rules.call_s - _REST_S)
        self._reader = FrameReader(near, limits=LIMITS if rules is None else rules.frames)
        self._arrivals = Arrivals()
        self._arrivals.watch(near.fileno(), child)
        self._call_ms = None if rules is None else min(rules.call_s * 1000, LONGEST_MS)
        self._last_number = 0  # has 32 bits on the wire: it only has to differ from those that are still unanswered
        self._unanswered: deque[int] = deque()
        self._abandoned_through = 0  # replies up to this number are thrown away: their caller stopped waiting
        self._attach_number = 0  # of the request that shares memory
        self._makes: set[int] = set()  # requests that may take the time of a start
        self._lost: WorkerLost | None = None
        self._closed = False
        self._owner = os.getpid()
        self.heard_s = time.monotonic()  # when a request was sent to an idle peer, or a reply came
        # For a channel that was never closed: when it is collected, or at the latest when Python exits.
        self._finalizer = weakref.finalize(self, _abandon, near, child, os.getpid())

    def fileno(self) -> int:
        """For select and poll; readable when ``poll`` may have a reply."""
        return self._near.fileno()

    @property
    def pending(self) -> bool:
        """Whether the far end still owes a reply, an abandoned one included."""
        return bool(self._unanswered)

    def send(self, request: Request | Attach, *, fd: int | None = None) -> None:
        """Send a request, with a descriptor if one is to go with it."""
        if self._lost is not None:
            raise self._lost
        if self._closed:
            raise ClosedEnvironmentError("This channel is closed. Make the environment again.")
        number = self._last_number + 1
        # Encoded before it is counted: one that can't cross was never sent.
        pieces = encode(request, number & 0xFFFFFFFF, pickler=self._pickler)
        try:
            if not self._unanswered:
                self.heard_s = time.monotonic()
            self._last_number = number
            self._unanswered.append(number)
            if type(request) is Make:
                self._makes.add(number)
            elif type(request) is Attach:
                self._attach_number = number
            if fd is not None:  # comes with the first byte; what the system call leaves over follows
                sent = socket.send_fds(self._near, [pieces[0]], [fd])
                pieces[0] = memoryview(pieces[0])[sent:]
            self._closed = type(request) is Close and request.env is None
            write_frame(self._near, pieces, 0.0 if self._closed else self._patience_s, self._arrivals.wait_to_write)
        except TimeoutError:
            reason = f"was ended: it has not taken a request within {self._patience_s} s"
            raise self.kill(reason, cause="timeout") from None
        except OSError:
            raise self.kill() from None
        except BaseException:  # Ctrl-C: after half a request the peer would misread whatever follows
            self.kill("was ended: interrupted while a request was sent to it")
            raise

    def share(self, layout: StepLayout, *, awake_s: float = 0.0) -> Block:
        """Share memory for the steps of environments 0 to n - 1. Its reply is not for ``recv`` and ``poll``."""
        block, fd = Block.create(layout)
        try:
            self.send(Attach(block.rows, layout.observations.form, layout.actions.form, awake_s), fd=fd)
        finally:
            os.close(fd)
        return block

    def recv(self, timeout: float | None = None) -> StepReply:
        if not self._unanswered:
            raise NoAsyncCallError("recv() has no request to wait for. Call send(request) first.", "recv")
        rules, owed, gone = self.rules, self._unanswered[0], False
        began_s = since_s = time.monotonic()
        try:
            if timeout is None and self._reader.is_empty and not (self._lost or self._makes or self._arrivals.resting):
                self._arrivals.poll.poll(self._call_ms)  # hot: the common wait, in which nothing but the reply comes
            while (reply := self.poll()) is None:
                if gone:  # what it wrote has been read; its socket may live on in a child of its own
                    raise self.kill()
                now_s = time.monotonic()
                if self._unanswered[0] != owed:  # an abandoned reply has come, and the next one is being made
                    owed, since_s = self._unanswered[0], now_s
                limit_s = inf if rules is None else rules.start_s if owed in self._makes else rules.call_s
                if now_s >= since_s + limit_s:
                    raise self._kill_overdue(limit_s)
                left_s = since_s + limit_s - now_s
                if timeout is not None:
                    left_s = min(left_s, began_s + timeout - now_s)
                    if left_s <= 0:
                        raise DeadlineExceeded(f"No answer within {timeout} s.")
                gone = self._arrivals.wait(left_s).get(self._near.fileno(), False)
            return reply
        except BaseException:  # Ctrl-C too: its reply must not be taken for the next one
            self.abandon()
            raise

    def _kill_overdue(self, limit_s: float) -> DeadlineExceeded:
        who = "the worker" if self.child is None else f"the worker process {self.child.pid}"
        frame = self.where()
        self.kill(f"was ended: no answer within {limit_s:g} s", cause="timeout")
        place = "" if frame is None else f" It stood at {frame} in {frame.name}."
        error = DeadlineExceeded(f"No answer within {limit_s:g} s: {who} was ended.{place}{self.last_output()}")
        error.__cause__ = None if frame is None else frame.trace()
        return error

    def poll(self) -> StepReply | None:
        """The next reply that was not abandoned, or None; never waits. WorkerLost if the far end is gone."""
        if self._lost is not None:
            raise self._lost
        try:
            while (frame := self._reader.next()) is not None:
                number, reply = frame
                if not self._unanswered or number != self._unanswered[0] & 0xFFFFFFFF:
                    raise BadFrame("a reply that no request is waiting for")
                if not isinstance(reply, (Rows, Done, Failed)):
                    raise reply if isinstance(reply, BadFrame) else BadFrame(f"a {type(reply).__name__} is not a reply")
                self.heard_s = time.monotonic()
                if self.child is not None:
                    self.child.answered = True
                answered = self._unanswered.popleft()
                self._makes.discard(answered)
                if answered == self._attach_number:
                    if type(reply) is Failed:  # without shared memory nothing can step
                        raise BadFrame(f"attach failed: {reply.message}")
                elif answered > self._abandoned_through:
                    return reply
        except BadFrame as error:
            raise self.kill(f"broke the protocol: {error}", cause="protocol") from None
        except (EOFError, OSError):
            raise self.kill() from None
        except BaseException:  # Ctrl-C: bytes that were received may not have been kept
            self.kill("was ended: interrupted while its reply was read")
            raise
        # A reply that is on its way counts as heard, once: this end may have been slow to read.
        self.heard_s = max(self.heard_s, self._reader.began_s - self._drip_s)
        return None

    def abandon(self) -> None:
        """Stop waiting for everything that was asked so far. The far end still works on it; see ``pending``."""
        self._abandoned_through = self._last_number

    def kill(self, reason: str | None = None, *, cause: str | None = None) -> WorkerLost:
        """Kill the process if it still runs; returns what later calls will raise. The first reason stays.

        Without ``reason`` the process gives it: by its exit code, or by having only closed its connection.
        """
        if self._lost is None:
            child = self.child
            who = "The worker" if child is None else f"The worker process {child.pid}"
            if reason is None:
                reason = "closed its connection" if child is None else child.last_words()
                ended_by = None if child is None else child.cause
                cause = "closed" if ended_by in (None, "ended") else ended_by  # "ended": killed only by last_words
            self._lost = WorkerLost(f"{who} {reason.rstrip('.')}.{self.last_output()}", cause=cause or "ended")
            if child is not None:
                child.kill()
            self._near.close()
        return self._lost

    def worker_output(self) -> str:
        """What the worker has printed so far, where that is kept, and within the limit that is kept."""
        if not hasattr(self.child, "output"):
            return ""
        if self._lost is None:
            with suppress(OSError, ValueError):
                self.child.drain()
        return strip_escapes(self.child.output)

    def last_output(self) -> str:
        """The end of what the worker printed, where that is kept; with a line break before it."""
        lines = self.worker_output().strip()[-_TAIL_CHARACTERS:]
        return f" It last printed:\n{lines}" if lines else ""

    def where(self) -> Frame | None:
        """Where in the environment's own code the far end is now, if it answers. Any thread may call this."""
        return None if self.child is None else own_frame(reversed(frames_in(self.child.stack())))

    def close(self, grace_s: float = CLOSE_GRACE_S) -> None:
        """Let the environments close, within ``grace_s`` seconds; then kill the process.

        Send Close first to several channels whose environments are to close at the same time. In a forked child this
        closes only the child's copy.
        """
        by_s = time.monotonic() + (grace_s if self.rules is None else min(grace_s, CLOSE_S))
        try:
            if os.getpid() == self._owner and self._near.fileno() != -1:
                # Not recv: its DeadlineExceeded must not hide one that a signal handler raises here.
                with suppress(WorkerLost):
                    if not self._closed:
                        self.abandon()
                        self.send(Close())
                    gone = False
                    while self.pending and self.poll() is None and not gone and time.monotonic() < by_s:
                        gone = self._arrivals.wait(by_s - time.monotonic()).get(self._near.fileno(), False)
            self._near.close()
            if self.child is not None:
                self.child.wait(max(0.0, by_s - time.monotonic()))
        finally:
            self._closed = True
            self._near.close()
            if self.child is not None:
                self.child.kill()
            self._finalizer.detach()


def _abandon(near: socket.socket, child: Any, owner: int) -> None:
    near.close()
    if child is not None and os.getpid() == owner:  # a forked child has only a copy of this channel
        child.kill()
