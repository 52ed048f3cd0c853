"""One event loop in a thread of its own, for trainers that call from plain code and from loops of theirs.

What was opened in a loop belongs to it, and a trainer's loops come and go: environments live in this one alone.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_FAREWELL_S = 5.0  # for all that is open when Python ends; what takes longer is left to the other side's own rules


class BackgroundLoop:
    """The thread begins with the first call, and ends with Python. What ``at_exit`` was given is awaited before."""

    def __init__(self) -> None:
        self._begin_anew()
        if hasattr(os, "register_at_fork"):  # a fork has no thread: it must not wait for one
            os.register_at_fork(after_in_child=self._begin_anew)

    def _begin_anew(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begins = threading.Lock()
        self._farewells: set[Callable[[], Awaitable[None]]] = set()
        self._kept: set[asyncio.Task[None]] = set()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin it there."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._running())

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What it returns, for plain code. Never from inside this loop."""
        future = self.submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # an interrupted trainer: what nobody waits for must not go on
            raise

    async def of(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What it returns, for code in whatever loop."""
        return await asyncio.wrap_future(self.submit(coroutine))

    def begin(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin what nobody waits for. Safe where garbage is collected: it takes no lock, and is quiet at the end."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(lambda: self._keep(loop.create_task(make())))

    def at_exit(self, farewell: Callable[[], Awaitable[None]]) -> Callable[[], None]:
        """Await it when Python ends; returns what takes that back."""
        self._farewells.add(farewell)
        return lambda: self._farewells.discard(farewell)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._begins:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="paddock-adapters", daemon=True).start()
                atexit.register(self._end)
            return self._loop

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._kept.add(task)  # a loop holds its tasks only weakly
        task.add_done_callback(self._kept.discard)

    def _end(self) -> None:
        """Daemon threads still run now, and are stopped right after."""
        if self._loop is None:
            return

        async def all_farewells() -> None:
            open_ones = [asyncio.ensure_future(farewell()) for farewell in list(self._farewells)]
            if waited := {*open_ones, *self._kept}:
                await asyncio.wait(waited, timeout=_FAREWELL_S)

        future = self.submit(all_farewells())
        try:
            future.result(_FAREWELL_S + 1.0)
        except Exception:  # nobody is left who could do something about it
            future.cancel()


LOOP = BackgroundLoop()
