"""Threads that make one call at a time, for environments may keep things that belong to a thread.

Whoever calls a TimedThread waits only so long; an event loop waits for a CallThread. Python can't end a thread. A call
that takes too long is abandoned: its result is dropped, and until it returns nothing else runs there, because both
would change the same environment.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any

from paddock.hosting.private_loop import PrivateLoop

TIDY_S = 1.0  # for a coroutine that was cancelled to clean up


class TookTooLong(Exception):
    """The call did not return in time, or an earlier one has not returned yet. The text is safe to show to anyone."""


class _Job:
    __slots__ = ("done", "error", "function", "loop", "result", "task", "waiter")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.result: Any = None
        self.error: BaseException | None = None
        self.loop: asyncio.AbstractEventLoop | None = None  # where its coroutine runs, if it is one
        self.task: asyncio.Task[Any] | None = None
        self.waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self.done = threading.Lock()  # free once there is a result or an error
        self.done.acquire()

    def run(self, loop: PrivateLoop) -> None:
        async def wait(awaitable: Any) -> Any:
            self.loop, self.task = asyncio.get_running_loop(), asyncio.current_task()
            return await awaitable

        try:
            result = self.function()
            self.result = loop.run(wait(result)) if inspect.isawaitable(result) else result
        except BaseException as error:  # SystemExit too: it is the environment's, not this process's
            self.error = error
        finally:
            self.done.release()
        if self.waiter is not None:
            waiting, future = self.waiter
            with suppress(RuntimeError):  # the loop is closed, and nobody waits
                waiting.call_soon_threadsafe(wake, future)

    def cancel(self) -> bool:
        """Ask the call to end, and return whether it can: only a coroutine that still runs can."""
        if self.loop is None or self.task is None:
            return False
        try:
            self.loop.call_soon_threadsafe(self.task.cancel)
        except RuntimeError:  # the loop is closed: it has ended by itself
            return False
        return True


class TimedThread:
    """Starts at the first call, and again where it was copied or forked. Sync and async code run in this one thread.

    ``in_place``: sync code whose call has no limit runs where it is called; to a thread and back takes as long as a
    cheap tool.
    """

    def __init__(self, *, in_place: bool = False) -> None:
        self.in_place = in_place
        self._thread: threading.Thread | None = None
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._abandoned: _Job | None = None

    @property
    def busy(self) -> bool:
        """Whether a call that was abandoned still runs."""
        return self._abandoned is not None and self._abandoned.done.locked()

    def settle(self, timeout_s: float | None) -> None:
        """Wait for a call that was abandoned, but no longer than ``timeout_s``."""
        if self._abandoned is not None and self._abandoned.done.acquire(timeout=-1 if timeout_s is None else timeout_s):
            self._abandoned.done.release()

    def run(self, function: Callable[[], Any], timeout_s: float | None = None) -> Any:
        """Return what the function returns, awaited if need be, or raise what it raises; TookTooLong past the limit."""
        if self.busy:
            raise TookTooLong("an earlier call has not returned yet")
        if self.in_place and timeout_s is None:
            result = function()
            if not inspect.isawaitable(result):
                return result
            return self._run(lambda: result, None)
        return self._run(function, timeout_s)

    def _run(self, function: Callable[[], Any], timeout_s: float | None) -> Any:
        if self._thread is None or not self._thread.is_alive():
            self._start()
        job = _Job(function)
        self._jobs.put(job)
        try:
            in_time = job.done.acquire(timeout=-1 if timeout_s is None else timeout_s)
        except BaseException:  # Ctrl-C, while it runs
            self._abandoned = job
            raise
        if not in_time:
            self._abandoned = job
            if job.cancel() and job.done.acquire(timeout=TIDY_S):
                job.done.release()
            raise TookTooLong(f"no result within {timeout_s:g} s")
        job.done.release()
        if job.error is not None:
            raise job.error
        return job.result

    def close(self) -> None:
        """End the thread, after the call that it may be in. Safe to call twice."""
        thread, self._thread = self._thread, None
        self._jobs.put(None)
        if thread is not None and not self.busy and thread is not threading.current_thread():
            thread.join()

    def _start(self) -> None:
        self._jobs, self._abandoned = SimpleQueue(), None
        self._thread = threading.Thread(target=_work, args=(self._jobs,), name="paddock-tools", daemon=True)
        self._thread.start()
        weakref.finalize(self, self._jobs.put, None).atexit = False

    def __deepcopy__(self, memo: dict[int, Any]) -> TimedThread:
        return TimedThread(in_place=self.in_place)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(TimedThread, in_place=self.in_place), ()


class CallThread:
    """A thread that makes one call after another, for an event loop. It does not keep Python from ending."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self.thread = threading.Thread(target=_work, args=(self._jobs,), name="paddock-rollout", daemon=True)
        self.thread.start()

    def put(self, function: Callable[..., Any], *args: Any) -> _Job:
        """Make a call after those that are due, and do not wait for it."""
        job = _Job(partial(function, *args))
        self._jobs.put(job)
        return job

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Make a call and return its result."""
        return await self.wait(self.put(function, *args))

    async def wait(self, job: _Job) -> Any:
        """Wait for a call that was put."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        job.waiter = loop, future
        if not job.done.acquire(blocking=False):  # it may have ended before it could see who waits
            await future
        if job.error is not None:
            raise job.error
        return job.result

    def end(self) -> None:
        """End after the calls that are due."""
        self._jobs.put(None)


def wake(future: asyncio.Future[None]) -> None:
    """Let whoever awaits it go on."""
    if not future.done():
        future.set_result(None)


def _work(jobs: SimpleQueue[_Job | None]) -> None:
    loop = PrivateLoop()
    try:
        while (job := jobs.get()) is not None:
            job.run(loop)
            del job  # it holds the environment, which may be dropped now
    finally:
        loop.close()
