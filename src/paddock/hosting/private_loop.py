"""PrivateLoop: runs coroutines to their end for code that waits, always in the same event loop.

Not ``asyncio.run``, which makes a loop for each call: what an environment opened in one step belongs to its loop. Where
a loop runs already in this thread, the private one has a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class PrivateLoop:
    """``run`` may be called from one thread at a time. Nothing is made before the first call."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns, or raises."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        if self._thread is None and not _inside_a_loop():
            return self._loop.run_until_complete(coroutine)
        if self._thread is None:  # from now on: a loop can't change its thread in the middle of something
            self._thread = threading.Thread(target=self._loop.run_forever, name="paddock-loop", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self) -> None:
        """End what still runs, and the loop. Safe to call twice."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
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


def _inside_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
