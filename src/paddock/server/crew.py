"""Crew: the threads that start and end workers, so that a burst of either never stalls the event loop.

A reader would get wrong: a start can't be called off half way. Whoever stops waiting for one leaves it to the crew,
which ends the worker once it is there.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from paddock.errors import SessionGone
from paddock.server.principals import role_of

_ENDING = 8  # at a time: an end is mostly waiting for the kernel
Started = tuple[Any, Any]  # the near socket and the child
OnWait = Callable[[int], None]


@dataclass(frozen=True)
class _Place:
    last: bool  # after all operators
    round: int
    principal: str
    on_wait: OnWait | None


class Crew:
    """``starting``: how many workers are started at a time; the others wait for their turn.

    Operators come first. Among them, and among the others, each principal has one turn in a round.
    """

    def __init__(self, starting: int | None = None) -> None:
        self._most = starting or 2 * (os.cpu_count() or 1)
        self._starting = ThreadPoolExecutor(self._most, "paddock-start")
        self.starting = self.started = 0  # how many are being started, and were begun in all
        self._queue: dict[asyncio.Future[None], _Place] = {}
        self._round: Counter[bool] = Counter()  # of operators and of the others: that of the last turn
        self._ending = ThreadPoolExecutor(_ENDING, "paddock-end")
        self._closed = False
        self.busy: set[object] = set()  # the links on which a reply is due

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return len(self._queue)

    async def start(
        self,
        start: Callable[[], Started],
        wanted: Callable[[], bool],
        on_wait: OnWait | None = None,
        *,
        principal: str = "",
    ) -> Started:
        """What ``start`` returns. SessionGone if nobody wants it any more when its turn comes: nothing was started.

        ``on_wait`` is told at once how many are before this one, and again with each ``announce_places``. Who is
        cancelled while it waits has left the queue.
        """
        if self.starting < self._most:
            self.starting += 1
        else:
            await self._turn(principal, on_wait)
        if self._closed or not wanted():
            self._next()
            raise SessionGone("The client disconnected before the session was ready.")
        self.started += 1
        loop, begun = asyncio.get_running_loop(), self._starting.submit(start)
        begun.add_done_callback(lambda _: loop.call_soon_threadsafe(self._next))
        try:
            return await asyncio.shield(asyncio.wrap_future(begun))
        except asyncio.CancelledError:
            begun.add_done_callback(self._end_unwanted)
            raise

    async def _turn(self, principal: str, on_wait: OnWait | None) -> None:
        turn = asyncio.get_running_loop().create_future()
        last = role_of(principal) in ("agent", "observer")
        own = (place.round for place in self._queue.values() if place.principal == principal)
        self._queue[turn] = _Place(last, max(self._round[last], *own, 0) + 1, principal, on_wait)
        if on_wait is not None:
            on_wait(self.starting + self._line().index(turn))
        try:
            await turn
        except asyncio.CancelledError:
            self._queue.pop(turn, None)
            if not turn.cancelled():  # its turn had come just then
                self._next()
            raise

    def _next(self) -> None:
        """One has been started: let the first in line have its turn."""
        for turn in self._line():
            place = self._queue.pop(turn)
            if not turn.done():
                self._round[place.last] = place.round
                turn.set_result(None)
                return
        self.starting -= 1

    def announce_places(self) -> None:
        """Tell those in line how many are before them now."""
        for ahead, turn in enumerate(self._line(), self.starting):
            on_wait = self._queue[turn].on_wait
            if on_wait is not None:
                on_wait(ahead)

    def _line(self) -> list[asyncio.Future[None]]:
        """Who waits, the first one first; in one round, in order of arrival."""
        return sorted(self._queue, key=lambda turn: (self._queue[turn].last, self._queue[turn].round))

    def _end_unwanted(self, begun: Future[Started]) -> None:
        if not begun.cancelled() and begun.exception() is None:
            near, child = begun.result()
            near.close()
            child.kill()

    def do(self, work: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        """Something that may block: ending a worker, writing to a disk."""
        if not self._closed:
            return asyncio.wrap_future(self._ending.submit(work, *arguments))
        done = asyncio.get_running_loop().create_future()
        done.set_result(work(*arguments))  # the server is about to end, and nobody is kept waiting
        return done

    def close(self) -> None:
        """Start nothing more, finish what was begun. Blocks."""
        self._closed = True
        self._starting.shutdown(wait=True)
        self._ending.shutdown(wait=True)
