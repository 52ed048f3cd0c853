"""CallThread: a thread whose calls an event loop waits for. An environment may keep things that belong to a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any


class CallThread:
    """A thread that makes one call after another, for an event loop. It does not keep Python from ending."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self.thread = threading.Thread(target=_serve, args=(self._calls,), name="paddock-rollout", daemon=True)
        self.thread.start()

    def put(self, function: Callable[..., Any], *args: Any) -> _Call:
        """Make a call after those that are due, and do not wait for it."""
        call = _Call(function, args)
        self._calls.put(call)
        return call

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Make a call and return its result."""
        return await self.wait(self.put(function, *args))

    async def wait(self, call: _Call) -> Any:
        """Wait for a call that was put."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        call.waiter = loop, future
        if not call.done.acquire(blocking=False):  # it may have ended before it could see who waits
            await future
        if call.error is not None:
            raise call.error
        return call.result

    def end(self) -> None:
        """End after the calls that are due."""
        self._calls.put(None)


class _Call:
    __slots__ = ("args", "done", "error", "function", "result", "waiter")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.function, self.args = function, args
        self.result: Any = None
        self.error: BaseException | None = None
        self.waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self.done = threading.Lock()
        self.done.acquire()

    def run(self) -> None:
        try:
            self.result = self.function(*self.args)
        except StopIteration as error:  # a coroutine can't raise one
            self.error = RuntimeError(f"the environment raised {error!r}")
        except BaseException as error:
            self.error = error
        self.done.release()
        if self.waiter is not None:
            loop, future = self.waiter
            with suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(wake, future)


def _serve(calls: SimpleQueue[_Call | None]) -> None:
    while (call := calls.get()) is not None:
        call.run()
        del call  # it holds the environment, which may be dropped now


def wake(future: asyncio.Future[None]) -> None:
    """Let whoever awaits it go on."""
    if not future.done():
        future.set_result(None)
