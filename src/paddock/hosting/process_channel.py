"""ProcessChannel: to a Host in another process, over one socket, with shared memory for steps as an attachment."""

from __future__ import annotations

import os
import select
import socket
import time
import weakref
from collections import deque
from contextlib import suppress

from paddock.errors import BadFrame, ClosedEnvironmentError, DeadlineExceeded, NoAsyncCallError, WorkerLost
from paddock.hosting.block import Block
from paddock.hosting.codec import encode
from paddock.hosting.failure import Frame, frames_in, own_frame
from paddock.hosting.frames import FrameReader, SameFrame, wait_for, write_frame, write_same
from paddock.hosting.launch import Child
from paddock.hosting.limits import LIMITS, Limits
from paddock.hosting.messages import Attach, Close, Done, Failed, Reply, Request
from paddock.hosting.rows import Layout
from paddock.hosting.values import Pickler

CLOSE_GRACE_S = 5.0  # how long environments may take to close before their process is ended
_PATIENCE_S = 60.0  # a peer that has not taken a request in this time is lost


class ProcessChannel:
    """Requests over ``near`` to the process ``child``. With ``pickler`` code may go down; it never comes up.

    A peer that breaks the protocol is treated as one that died: its process is ended, and WorkerLost raised.
    """

    # How much of the time since the last reply counts although the next one is on its way: none.
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
        self._last_number = 0  # has 32 bits on the wire: it only has to differ from those that are still unanswered
        self._unanswered: deque[int] = deque()
        self._unwanted_through = 0  # replies up to this number are thrown away: whoever asked has gone
        self._lost: WorkerLost | None = None
        self._closed = False
        self._owner = os.getpid()
        self.heard_s = time.monotonic()  # when a request was sent to an idle peer, or a reply came
        # For a channel that nobody closed: when it is collected, and at the latest when Python exits.
        self._abandoned = weakref.finalize(self, _abandon, near, child, os.getpid())

    def fileno(self) -> int:
        """For select and poll; readable when ``arrived`` has something to say."""
        return self._near.fileno()

    @property
    def busy(self) -> bool:
        """Whether the far end still owes a reply, wanted or not."""
        return bool(self._unanswered)

    def send(self, request: Request | Attach) -> None:
        self._check_open()
        # Encoded before it is counted: one that can't cross was never sent.
        pieces = encode(request, (self._last_number + 1) & 0xFFFFFFFF, pickler=self._pickler)
        try:
            self._expect_reply()
            write_frame(self._near, pieces, self._patience_s, self._wait_for)
        except TimeoutError:
            raise self._not_taken() from None
        except OSError:
            raise self.lose() from None
        except BaseException:  # Ctrl-C: half a request is none, and what follows it would be misread
            self.lose("was ended: interrupted while a request was sent to it")
            raise

    def send_same(self, frame: SameFrame) -> None:
        """Send a request that was encoded once and for all."""
        self._check_open()
        try:
            number = self._expect_reply()
            write_same(self._near, frame, number & 0xFFFFFFFF, self._patience_s, self._wait_for)
        except TimeoutError:
            raise self._not_taken() from None
        except OSError:
            raise self.lose() from None
        except BaseException:
            self.lose("was ended: interrupted while a request was sent to it")
            raise

    def _wait_for(self, fd: int, event: int, timeout: float | None) -> bool:
        return wait_for(fd, event, timeout)

    def _not_taken(self) -> WorkerLost:
        return self.lose(f"was ended: it has not taken a request within {self._patience_s} s", cause="timeout")

    def _check_open(self) -> None:
        if self._lost is not None:
            raise self._lost
        if self._closed:
            raise ClosedEnvironmentError("This channel is closed. Make the environment anew.")

    def _expect_reply(self) -> int:
        number = self._last_number = self._last_number + 1
        if not self._unanswered:
            self.heard_s = time.monotonic()
        self._unanswered.append(number)
        return number

    def attach(self, rows: int, observations: Layout, actions: Layout, *, awake_s: float = 0.0) -> Block:
        """Share memory for the steps of environments 0 to rows - 1. Done(None) will come as the reply."""
        block, fd = Block.create(rows, observations, actions)
        try:
            self._check_open()
            pieces = encode(Attach(rows, observations, actions, awake_s), (self._last_number + 1) & 0xFFFFFFFF)
            self._expect_reply()
            # The descriptor comes with the frame's first byte; what the system call leaves over follows.
            sent = socket.send_fds(self._near, [pieces[0]], [fd])
            write_frame(self._near, [memoryview(pieces[0])[sent:], *pieces[1:]], self._patience_s, self._wait_for)
        except TimeoutError:
            raise self._not_taken() from None
        except OSError:
            raise self.lose() from None
        finally:
            os.close(fd)
        return block

    def recv(self, timeout: float | None = None) -> Reply:
        if not self.busy:
            raise NoAsyncCallError("recv() has no request to wait for. Call send(request) first.", "recv")
        ends = None if timeout is None else time.monotonic() + timeout
        while True:
            reply = self.arrived()
            if reply is not None:
                return reply
            left = None if ends is None else ends - time.monotonic()
            if not self._wait_for(self._near.fileno(), select.POLLIN, left):
                self.forget()
                raise DeadlineExceeded(f"No answer within {timeout} s.")

    def arrived(self) -> Reply | None:
        """The next wanted reply if it is here, else None; never waits. WorkerLost if the far end is gone."""
        if self._lost is not None:
            raise self._lost
        try:
            while (frame := self._reader.next()) is not None:
                number, reply = frame
                if not self._unanswered or number != self._unanswered[0] & 0xFFFFFFFF:
                    raise BadFrame("a reply to no request")
                if not isinstance(reply, (Done, Failed)):
                    raise reply if isinstance(reply, BadFrame) else BadFrame(f"no reply, a {type(reply).__name__}")
                self.heard_s = time.monotonic()
                if self.child is not None:
                    self.child.answered = True
                if self._unanswered.popleft() > self._unwanted_through:
                    return reply
        except BadFrame as error:
            raise self.lose(f"broke the protocol: {error}", cause="protocol") from None
        except (EOFError, OSError):
            raise self.lose() from None
        except BaseException:  # Ctrl-C: bytes that were received may not have been kept
            self.lose("was ended: interrupted while a reply of it was read")
            raise
        # A reply that is on its way counts as heard, once: this end may have been slow to read.
        self.heard_s = max(self.heard_s, self._reader.began_s - self._drip_s)
        return None

    def forget(self) -> None:
        """Nobody waits any more for what was asked so far. The far end still works on it; see ``busy``."""
        self._unwanted_through = self._last_number

    def lose(self, how: str | None = None, *, cause: str | None = None) -> WorkerLost:
        """End the process if it still runs, and say how it was lost; the first reason stays.

        Without ``how`` it is the process that tells: by its exit code, or that it only closed its connection.
        """
        if self._lost is None:
            child = self.child
            who = "The worker" if child is None else f"The worker process {child.pid}"
            if how is None:
                how = "closed its connection" if child is None else child.last_words()
                told = None if child is None else child.cause
                cause = "closed" if told in (None, "ended") else told  # ended only now, by its last words
            self._lost = WorkerLost(f"{who} {how.rstrip('.')}.{self.last_output()}", cause=cause or "ended")
            if child is not None:
                child.kill()
            self._near.close()
        return self._lost

    @property
    def output_fd(self) -> int | None:
        """Readable when the worker has printed something that ``drain`` takes in; None where nobody keeps it."""
        return None

    def drain(self, events: int = select.POLLIN) -> None:
        """Take in what was printed; ``events`` are what poll said of ``output_fd``."""

    def last_output(self) -> str:
        """The end of what the worker printed, where that is kept; with a line break before it."""
        return ""

    def where(self) -> Frame | None:
        """Where in the environment's own code the far end stands now, if it says so. Any thread may ask."""
        return None if self.child is None else own_frame(reversed(frames_in(self.child.stack())))

    def close(self, grace_s: float = CLOSE_GRACE_S) -> None:
        """Let the environments close, for at most ``grace_s`` seconds; then end the process."""
        self.begin_close()
        self.end_close(time.monotonic() + grace_s)

    def begin_close(self) -> None:
        """Ask the far end to close, without waiting for it. In a forked child, which has no say, only a copy closes."""
        if os.getpid() != self._owner:
            self._near.close()
        elif not self._closed and self._lost is None:
            self.forget()
            number = self._expect_reply()
            with suppress(OSError, TimeoutError):  # one that takes nothing more is ended by end_close
                write_frame(self._near, encode(Close(), number & 0xFFFFFFFF), 0.0)
        self._closed = True

    def end_close(self, by_s: float) -> None:
        """Wait for the far end until the time ``by_s`` of time.monotonic; what still runs then is ended."""
        if self._lost is None and self._near.fileno() != -1:
            self._drain(by_s)
            self._near.close()
        if self.child is not None:
            self.child.wait(max(0.0, by_s - time.monotonic()))
            self.child.kill()
        self._abandoned.detach()

    def _drain(self, by_s: float) -> None:
        with suppress(WorkerLost, ConnectionError):
            while self.busy and self.arrived() is None:
                if not self._wait_for(self._near.fileno(), select.POLLIN, by_s - time.monotonic()):
                    return


def _abandon(near: socket.socket, child: Child | None, owner: int) -> None:
    near.close()
    if child is not None and os.getpid() == owner:  # a forked child has a copy of this channel, and no say
        child.kill()
