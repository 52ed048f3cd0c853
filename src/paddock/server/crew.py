"""Crew: the threads that start and end workers, so that a burst of either never stalls the event loop.

A reader would get wrong: a start can't be called off half way. Whoever stops waiting for one leaves it to the crew,
which ends the worker once it is there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from paddock.errors import SessionGone

_ENDING = 8  # at a time: an end is mostly waiting for the kernel
Started = tuple[Any, Any]  # the near socket and the child


class Crew:
    """``starting``: how many workers are started at a time; the others wait for their turn."""

    def __init__(self, starting: int | None = None) -> None:
        self._starting = ThreadPoolExecutor(starting or 2 * (os.cpu_count() or 1), "paddock-start")
        self._ending = ThreadPoolExecutor(_ENDING, "paddock-end")
        self._closed = False
        self.busy: set[object] = set()  # the links on which a reply is due

    async def start(self, start: Callable[[], Started], wanted: Callable[[], bool]) -> Started:
        """What ``start`` returns. SessionGone if nobody wants it any more when its turn comes: nothing was started."""
        begun = self._starting.submit(self._start_if_wanted, start, wanted)
        try:
            return await asyncio.shield(asyncio.wrap_future(begun))
        except asyncio.CancelledError:
            begun.cancel()
            begun.add_done_callback(self._end_unwanted)
            raise

    def _start_if_wanted(self, start: Callable[[], Started], wanted: Callable[[], bool]) -> Started:
        if self._closed or not wanted():
            raise SessionGone("Nobody waits for it.")
        return start()

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
