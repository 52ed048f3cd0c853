"""ProcessChannel: to a Host in another process, over one socket, with optional shared memory for steps.

WalledChannel is the same to an untrusted worker: every wait ends, and what the worker prints never blocks either side.
"""

from __future__ import annotations

import os
import select
import socket
import time
import weakref
from collections import deque
from contextlib import suppress
from typing import Any

from paddock.errors import BadFrame, ClosedEnvironmentError, DeadlineExceeded, NoAsyncCallError, WorkerLost
from paddock.hosting.codec import encode
from paddock.hosting.failures import Frame, frames_in, own_frame
from paddock.hosting.frames import FrameReader, milliseconds, wait_for, write_frame
from paddock.hosting.judge import WallRules
from paddock.hosting.launch import Child
from paddock.hosting.layout import Block, StepLayout
from paddock.hosting.messages import LIMITS, Attach, Close, Done, Failed, Limits, Make, Request, Rows, StepReply
from paddock.hosting.values import Pickler
from paddock.sandbox.plain_text import strip_escapes

CLOSE_GRACE_S = 5.0  # how long environments may take to close before their process is killed
CLOSE_S = 1.0  # the same for an untrusted environment
FLOOD_S = 0.002  # between two reads of what is printed: a worker that floods slows itself down
_PATIENCE_S = 60.0  # a peer that has not taken a request in this time is lost
_TAIL_CHARACTERS = 2_000
# A reply that begins late, because this end was slow to read, has this long to be complete.
_REST_S = 0.4


class ProcessChannel:
    """Requests over ``near`` to the process ``child``. With ``pickler`` the worker may be sent code, never the reverse.

    A peer that breaks the protocol is treated as one that died: its process is killed, and WorkerLost raised.
    """

    # How much of the time since the last reply counts even though the next one is on its way: none.
    _drip_s = 0.0

    def __init__(
        self,
        near: socket.socket,
        child: Child | None = None,
        *,
        pickler: Pickler | None = None,
        patience_s: float | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        near.setblocking(False)
        self._near, self.child, self._pickler = near, child, pickler
        self._patience_s = min(_PATIENCE_S, patience_s or _PATIENCE_S)
        self._reader = FrameReader(near, limits=limits)
        self._readable = select.poll()
        self._readable.register(near, select.POLLIN)
        self._last_number = 0  # has 32 bits on the wire: it only has to differ from those that are still unanswered
        self._unanswered: deque[int] = deque()
        self._abandoned_through = 0  # replies up to this number are thrown away: their caller stopped waiting
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
            if fd is not None:  # comes with the first byte; what the system call leaves over follows
                sent = socket.send_fds(self._near, [pieces[0]], [fd])
                pieces[0] = memoryview(pieces[0])[sent:]
            self._closed = type(request) is Close and request.env is None
            write_frame(self._near, pieces, 0.0 if self._closed else self._patience_s, self._wait_for)
        except TimeoutError:
            raise self._kill_unresponsive() from None
        except OSError:
            raise self.kill() from None
        except BaseException:  # Ctrl-C: after half a request the peer would misread whatever follows
            self.kill("was ended: interrupted while a request was sent to it")
            raise

    def _wait_for(self, fd: int, event: int, timeout: float | None) -> bool:
        return wait_for(fd, event, timeout)

    def _kill_unresponsive(self) -> WorkerLost:
        return self.kill(f"was ended: it has not taken a request within {self._patience_s} s", cause="timeout")

    def share(self, layout: StepLayout, *, awake_s: float = 0.0) -> Block:
        """Share memory for the steps of environments 0 to n - 1. The reply will be Done(None)."""
        block, fd = Block.create(layout)
        try:
            self.send(Attach(block.rows, layout.observations.form, layout.actions.form, awake_s), fd=fd)
        finally:
            os.close(fd)
        return block

    def recv(self, timeout: float | None = None) -> StepReply:
        if not self._unanswered:
            raise NoAsyncCallError("recv() has no request to wait for. Call send(request) first.", "recv")
        ends = None if timeout is None else time.monotonic() + timeout
        if ends is None and self._reader.is_empty and self._lost is None:
            self._readable.poll()  # the common wait: nothing of the reply is here
        while True:
            if (reply := self.poll()) is not None:
                return reply
            left = None if ends is None else ends - time.monotonic()
            if not self._wait_for(self._near.fileno(), select.POLLIN, left):
                self.abandon()
                raise DeadlineExceeded(f"No answer within {timeout} s.")

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
                if answered > self._abandoned_through:
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

    @property
    def output_fd(self) -> int | None:
        """Readable when the worker has printed something for ``drain`` to read; None where it is not kept."""
        return None

    def drain(self, events: int = select.POLLIN) -> None:
        """Read what was printed; ``events`` are what poll said about ``output_fd``."""

    def last_output(self) -> str:
        """The end of what the worker printed, where that is kept; with a line break before it."""
        return ""

    def where(self) -> Frame | None:
        """Where in the environment's own code the far end is now, if it answers. Any thread may call this."""
        return None if self.child is None else own_frame(reversed(frames_in(self.child.stack())))

    def close(self, grace_s: float = CLOSE_GRACE_S) -> None:
        """Let the environments close, within ``grace_s`` seconds; then kill the process.

        Send Close first to several channels whose environments are to close at the same time. In a forked child this
        closes only the child's copy.
        """
        by_s = time.monotonic() + grace_s
        if os.getpid() != self._owner:
            self._closed = True
            self._near.close()
        with suppress(WorkerLost, ConnectionError):
            if not self._closed:
                self.abandon()
                self.send(Close())
            while self.pending and self._near.fileno() != -1 and self.poll() is None:
                if not self._wait_for(self._near.fileno(), select.POLLIN, by_s - time.monotonic()):
                    break
        self._near.close()
        if self.child is not None:
            self.child.wait(max(0.0, by_s - time.monotonic()))
            self.child.kill()
        self._finalizer.detach()


def _abandon(near: socket.socket, child: Child | None, owner: int) -> None:
    near.close()
    if child is not None and os.getpid() == owner:  # a forked child has only a copy of this channel
        child.kill()


class WalledChannel(ProcessChannel):
    """Requests to an untrusted worker: it is sent only data, and only frames within bounds are read from it.

    ``recv`` kills the process tree when a reply takes longer than ``rules.call_s`` (``start_s`` for the reply to Make).
    Beyond a Child of ``launch``, the process may have ``output_fd`` (None once nothing comes), ``drain()`` and
    ``output``: what it prints, kept within bounds by the code that started it.
    """

    def __init__(self, near: socket.socket, child: Any = None, rules: WallRules | None = None) -> None:
        self.rules = rules = rules or WallRules()
        super().__init__(near, child, patience_s=rules.call_s, limits=rules.frames)
        self._drip_s = max(0.0, rules.call_s - _REST_S)
        self._call_ms = milliseconds(rules.call_s)
        self._drained_s = 0.0
        self._hung_up = getattr(child, "output_fd", None) is None
        for watched in (self.output_fd, None if child is None else child.fd):
            if watched is not None:
                self._readable.register(watched, select.POLLIN)

    @property
    def output_fd(self) -> int | None:
        return None if self._hung_up or self._lost is not None else self.child.output_fd  # type: ignore[union-attr]

    def recv(self, timeout: float | None = None) -> StepReply:
        if not self._unanswered:
            raise NoAsyncCallError("recv() has no request to wait for. Call send(request) first.", "recv")
        began_s = since_s = time.monotonic()
        owed = self._unanswered[0]
        quiet = self._reader.is_empty and began_s >= self._drained_s + FLOOD_S
        if timeout is None and self._lost is None and quiet and owed not in self._makes:
            self._readable.poll(self._call_ms)  # the common wait, in which nothing but the reply comes
        while True:
            reply = self.poll()
            if reply is not None:
                return reply
            now_s = time.monotonic()
            if self._unanswered[0] != owed:  # an abandoned reply has come, and the next one is being made
                owed, since_s = self._unanswered[0], now_s
            limit_s = self._limit_s(owed)
            left_s = since_s + limit_s - now_s
            if left_s <= 0:
                raise self._kill_overdue(limit_s)
            if timeout is not None and timeout < left_s + now_s - began_s:
                left_s = began_s + timeout - now_s
                if left_s <= 0:
                    self.abandon()
                    raise DeadlineExceeded(f"No answer within {timeout} s.")
            try:
                self._wait_for(self._near.fileno(), select.POLLIN, left_s)
            except ConnectionError:
                raise self.kill() from None

    def _limit_s(self, number: int) -> float:
        return self.rules.start_s if number in self._makes else self.rules.call_s

    def _kill_overdue(self, limit_s: float) -> DeadlineExceeded:
        who = "the worker" if self.child is None else f"the worker process {self.child.pid}"
        frame = self.where()
        self.kill(f"was ended: no answer within {limit_s:g} s", cause="timeout")
        place = "" if frame is None else f" It stood at {frame} in {frame.name}."
        error = DeadlineExceeded(f"No answer within {limit_s:g} s: {who} was ended.{place}{self.last_output()}")
        error.__cause__ = None if frame is None else frame.trace()
        return error

    def _wait_for(self, fd: int, event: int, timeout: float | None) -> bool:
        """As ``wait_for``, and read what is printed meanwhile. ConnectionError when the process has ended.

        A process that has ended may have left children that hold its socket open and will never answer.
        """
        ends_s = None if timeout is None else time.monotonic() + timeout
        while True:
            now_s = time.monotonic()
            left_s = None if ends_s is None else ends_s - now_s
            rest_s = self._drained_s + FLOOD_S - now_s
            output_fd = self.output_fd
            if output_fd is not None and rest_s > 0:
                output_fd, left_s = None, rest_s if left_s is None else min(left_s, rest_s)
            poller = select.poll()
            poller.register(fd, event)
            for other in (output_fd, None if self.child is None else self.child.fd):
                if other is not None:
                    poller.register(other, select.POLLIN)
            found = dict(poller.poll(milliseconds(left_s)))
            if fd in found:
                return True
            if output_fd in found:
                self.drain(found[output_fd])
            elif found and not wait_for(fd, event, 0.0):
                raise ConnectionError
            if ends_s is not None and time.monotonic() >= ends_s:
                return False

    def drain(self, events: int = select.POLLIN) -> None:
        self._drained_s, watched = time.monotonic(), self.output_fd
        with suppress(OSError, ValueError):
            self.child.drain()  # type: ignore[union-attr]
        self._hung_up |= not events & select.POLLIN
        if watched is not None and self.output_fd is None:
            self._readable.unregister(watched)

    def worker_output(self) -> str:
        """What the worker has printed so far, within the limit that is kept."""
        if self.child is None or not hasattr(self.child, "output"):
            return ""
        if self._lost is None:
            self.drain()
        return strip_escapes(self.child.output)

    def last_output(self) -> str:
        lines = self.worker_output().strip()[-_TAIL_CHARACTERS:]
        return f" It last printed:\n{lines}" if lines else ""

    def close(self, grace_s: float = CLOSE_S) -> None:
        super().close(min(grace_s, CLOSE_S))
