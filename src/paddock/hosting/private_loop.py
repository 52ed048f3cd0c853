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
        self._task: asyncio.Task[Any] | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns, or raises."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
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
            self._root._log_destroy_pending = False  # type: ignore[attr-defined]  # no complaint if nobody calls close
            _roots.add(self._root)
        self._task = task = loop.create_task(coroutine)
        # One that Ctrl-C interrupted goes on during the next call, and must not stop that.
        task.add_done_callback(lambda done: loop.stop() if done is self._task else None)
        try:
            loop.run_until_complete(self._root)
        except RuntimeError:  # stopped before the root task was done
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


def _end_roots() -> None:
    for root in list(_roots):
        loop = root.get_loop()
        if not loop.is_closed() and not loop.is_running():  # a daemon thread may be in it: the interpreter won't wait
            root.cancel()
            loop.run_until_complete(asyncio.wait([root]))


_roots: WeakSet[asyncio.Task[None]] = WeakSet()  # anyio's threads hold theirs, even if its PrivateLoop was forgotten
# Before the interpreter waits for threads: those of anyio end with their root. An atexit function would come too late.
threading._register_atexit(_end_roots)  # type: ignore[attr-defined]
