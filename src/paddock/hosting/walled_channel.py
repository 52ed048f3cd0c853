"""WalledChannel: to a worker behind a wall. Every wait has an end, and what the worker prints never blocks either side.

Beyond a Child of ``launch``, the process may have ``output_fd`` (None once nothing comes), ``drain()`` and ``output``:
what it prints, kept within bounds by whoever started it.
"""

from __future__ import annotations

import select
import socket
import time
from contextlib import suppress
from typing import Any

from paddock.errors import DeadlineExceeded, NoAsyncCallError
from paddock.hosting.frames import milliseconds, wait_for
from paddock.hosting.messages import Attach, Make, Reply, Request
from paddock.hosting.process_channel import ProcessChannel
from paddock.hosting.wall_rules import WallRules
from paddock.sandbox.plain_text import plain

CLOSE_S = 1.0  # how long an untrusted environment may take to close
FLOOD_S = 0.002  # between two looks at what is printed: a flood slows down the one who makes it
_TAIL_CHARACTERS = 2_000
# A reply that begins late, because this end was slow to read, has this long to be complete.
_REST_S = 0.4


class WalledChannel(ProcessChannel):
    """Requests over ``near`` to the process ``child``; nothing but data goes down, and only frames within bounds up.

    ``recv`` ends the process tree when a reply takes longer than ``rules.call_s`` (``start_s`` for the one to Make).
    """

    def __init__(self, near: socket.socket, child: Any = None, rules: WallRules | None = None) -> None:
        self.rules = rules = rules or WallRules()
        super().__init__(near, child, patience_s=rules.call_s, limits=rules.frames)
        self._drip_s = max(0.0, rules.call_s - _REST_S)
        self._makes: set[int] = set()  # numbers of requests that have the time of a start
        self._drained_s = 0.0
        self._polled: tuple[int, int, int | None] | None = None
        self._hung_up = getattr(child, "output_fd", None) is None

    @property
    def output_fd(self) -> int | None:
        return None if self._hung_up or self._lost is not None else self.child.output_fd  # type: ignore[union-attr]

    def send(self, request: Request | Attach) -> None:
        super().send(request)
        if type(request) is Make:
            self._makes = {number for number in self._makes if number >= self._unanswered[0]} | {self._last_number}

    def recv(self, timeout: float | None = None) -> Reply:
        if not self.busy:
            raise NoAsyncCallError("recv() has no request to wait for. Call send(request) first.", "recv")
        began_s = since_s = time.monotonic()
        owed = self._unanswered[0]
        if timeout is None and self._lost is None and self._reader.is_empty:
            self._wait_quickly(began_s, self._limit_s(owed))
        while True:
            reply = self.arrived()
            if reply is not None:
                return reply
            now_s = time.monotonic()
            if self._unanswered[0] != owed:  # a reply that nobody wanted has come, and the next one is being made
                owed, since_s = self._unanswered[0], now_s
            limit_s = self._limit_s(owed)
            left_s = since_s + limit_s - now_s
            if left_s <= 0:
                raise self._end_overdue(limit_s)
            if timeout is not None and timeout < left_s + now_s - began_s:
                left_s = began_s + timeout - now_s
                if left_s <= 0:
                    self.forget()
                    raise DeadlineExceeded(f"No answer within {timeout} s.")
            try:
                self._wait_for(self._near.fileno(), select.POLLIN, left_s)
            except ConnectionError:
                raise self.lose() from None

    def _wait_quickly(self, now_s: float, limit_s: float) -> None:
        """The common case of a wait, in which nothing but the reply comes. For whatever else, ``recv`` goes on."""
        if now_s >= self._drained_s + FLOOD_S:
            self._poll_of(self._near.fileno(), select.POLLIN, self.output_fd).poll(milliseconds(limit_s))

    def _limit_s(self, number: int) -> float:
        return self.rules.start_s if number in self._makes else self.rules.call_s

    def _end_overdue(self, limit_s: float) -> DeadlineExceeded:
        who = "the worker" if self.child is None else f"the worker process {self.child.pid}"
        stood = self.where()
        self.lose(f"was ended: no answer within {limit_s:g} s", cause="timeout")
        place = "" if stood is None else f" It stood at {stood} in {stood.name}."
        error = DeadlineExceeded(f"No answer within {limit_s:g} s: {who} was ended.{place}{self.last_output()}")
        error.__cause__ = None if stood is None else stood.trace()
        return error

    def _wait_for(self, fd: int, event: int, timeout: float | None) -> bool:
        """As ``wait_for``; meanwhile it takes in what is printed. ConnectionError when the process has ended.

        One that has ended may have left children that hold its socket open, and nobody will answer.
        """
        ends_s = None if timeout is None else time.monotonic() + timeout
        while True:
            now_s = time.monotonic()
            left_s = None if ends_s is None else ends_s - now_s
            rest_s = self._drained_s + FLOOD_S - now_s
            output_fd = self.output_fd
            if output_fd is not None and rest_s > 0:
                output_fd, left_s = None, rest_s if left_s is None else min(left_s, rest_s)
            found = dict(self._poll_of(fd, event, output_fd).poll(milliseconds(left_s)))
            if fd in found:
                return True
            if output_fd in found:
                self.drain(found[output_fd])
            elif found and not wait_for(fd, event, 0.0):
                raise ConnectionError
            if ends_s is not None and time.monotonic() >= ends_s:
                return False

    def _poll_of(self, fd: int, event: int, output_fd: int | None) -> select.poll:
        """For these and the process; kept from one call to the next, which asks for the same most of the time."""
        asked = fd, event, output_fd
        if asked != self._polled:
            self._poll = select.poll()
            self._poll.register(fd, event)
            for other in (output_fd, None if self.child is None else self.child.fd):
                if other is not None:
                    self._poll.register(other, select.POLLIN)
            self._polled = asked
        return self._poll

    def drain(self, events: int = select.POLLIN) -> None:
        self._drained_s = time.monotonic()
        self._hung_up = not events & select.POLLIN
        with suppress(OSError, ValueError):
            self.child.drain()  # type: ignore[union-attr]

    def printed(self) -> str:
        """What the worker has printed so far, as far as it is kept."""
        if self.child is None or not hasattr(self.child, "output"):
            return ""
        if self._lost is None:
            self.drain()
        return plain(self.child.output)

    def last_output(self) -> str:
        lines = self.printed().strip()[-_TAIL_CHARACTERS:]
        return f" It last printed:\n{lines}" if lines else ""

    def close(self, grace_s: float = CLOSE_S) -> None:
        super().close(min(grace_s, CLOSE_S))
