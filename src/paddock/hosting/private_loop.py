"""PrivateLoop: runs coroutines for blocking code, always in the same event loop.

Not ``asyncio.run``, which makes a loop for each call: what an environment opens in one step belongs to its loop. Where
a loop runs already in this thread, the private one has a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakSet

T = TypeVar("T")


class PrivateLoop:
    """Call ``run`` from one thread at a time. The loop is made at the first call."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._root: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns, or raises."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            _open.add(self)
        if self._thread is None:
            if asyncio._get_running_loop() is None:
                return self._run_here(self._loop, coroutine)
            # From now on always in the thread: a loop can't change its thread in the middle of something.
            self._thread = threading.Thread(target=self._loop.run_forever, name="paddock-loop", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _run_here(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
        # anyio ends its threads with the task that run_until_complete was given. So that is always the same one, and
        # the loop is stopped when the coroutine is done.
        if self._root is None:
            self._root = loop.create_task(_wait_forever())
        task = loop.create_task(coroutine)
        task.add_done_callback(lambda _: loop.stop())
        try:
            loop.run_until_complete(self._root)
        except RuntimeError:  # stopped before that task was done
            if not task.done():
                raise
        return task.result()

    def close(self) -> None:
        """Cancel what still runs and close the loop. Safe to call twice."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = self._root = None
        if loop is None:
            return
        if thread is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(loop.stop)
            thread.join()
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        if pending:
            loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        loop.close()


async def _wait_forever() -> None:
    await asyncio.get_running_loop().create_future()


def _close_all() -> None:
    for one in list(_open):
        one.close()


_open: WeakSet[PrivateLoop] = WeakSet()
# Before the interpreter waits for threads: those of anyio end with their loop. An atexit function would come too late.
threading._register_atexit(_close_all)  # type: ignore[attr-defined]
