"""Ask a policy, plain or async. All that is async runs in one loop, so that all turns share a client's connections."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

Policy = Callable[[Any], Any]
_FAREWELL_S = 5.0


class OutOfTime(Exception):
    """A rollout took longer than it may."""


class Asking:
    """``ask`` may be called from any thread. The loop begins with the first answer that must be awaited."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._begins = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def ask(self, turn: Any, by_s: float | None) -> Any:
        """The policy's answer; OutOfTime if one that is awaited is not there by ``by_s`` of time.monotonic."""
        answer = self._policy(turn)
        if not inspect.isawaitable(answer):
            return answer
        import asyncio
        from concurrent.futures import TimeoutError as Expired

        future = asyncio.run_coroutine_threadsafe(_awaited(answer), self._running())
        try:
            return future.result(None if by_s is None else max(0.0, by_s - time.monotonic()))
        except Expired:
            if future.done():  # the policy's own
                raise
            future.cancel()
            raise OutOfTime from None

    def close(self) -> None:
        """Cancel what is still awaited, and end the loop. Safe to call twice."""
        with self._begins:
            self._closed = True
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is None or thread is None:
            return
        import asyncio

        async def farewell() -> None:
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            if others:
                await asyncio.wait(others, timeout=_FAREWELL_S)
            loop.stop()

        asyncio.run_coroutine_threadsafe(farewell(), loop)
        thread.join(2 * _FAREWELL_S)
        if not thread.is_alive():
            loop.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        import asyncio

        with self._begins:
            if self._closed:
                raise RuntimeError("the rollouts have ended")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="paddock-policy", daemon=True)
                self._thread.start()
            return self._loop


async def _awaited(answer: Any) -> Any:
    return await answer
