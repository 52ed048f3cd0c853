"""An environment of any distance for async code: one of a server as it is, any other in a thread of its own.

The thread is one and the same for all calls: environments may keep things that belong to a thread.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, SupportsFloat, TypeVar

from paddock.core.env import Env, Info
from paddock.core.spec import EnvSpec
from paddock.errors import ClosedEnvironmentError, PlanError, WrongClass
from paddock.hosting.client import HostedEnv
from paddock.making import make, make_async
from paddock.making.target import locate
from paddock.spaces import Space

T = TypeVar("T")

# What make() takes besides the environment's own arguments, and make_async does not.
_FOR_MAKE = frozenset({"num_envs", "isolation", "backend", "wrappers", "validate", "max_episode_steps", "lanes"})


class AsyncEnv(Protocol):
    """What AsyncHostedEnv and ThreadEnv have in common."""

    action_space: Space[Any]
    metadata: dict[str, Any]
    spec: EnvSpec | None

    async def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Begin an episode."""

    async def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        """One step."""

    async def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the environment."""

    async def close(self) -> None:
        """Close it; safe to call twice."""


async def make_for_async(target: str | os.PathLike[str] | EnvSpec, **kwargs: Any) -> AsyncEnv:
    """``make(target, **kwargs)``, to be awaited."""
    if locate(target).url is not None and not _FOR_MAKE & kwargs.keys():
        with suppress(PlanError):  # a server of OpenEnv's: make() speaks to those, or says what else is wrong
            return await make_async(str(target), **kwargs)
    return await ThreadEnv.make(target, **kwargs)


class ThreadEnv:
    """An Env in a thread. Calls are carried out in their order; whoever stops waiting does not stop the call."""

    action_space: Space[Any]
    metadata: dict[str, Any]
    spec: EnvSpec | None

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._env: Env[Any, Any]
        self._closed = False
        # A daemon: an environment that hangs must not keep Python from ending.
        threading.Thread(target=self._run, name="paddock-env", daemon=True).start()

    @classmethod
    async def make(cls, target: str | os.PathLike[str] | EnvSpec, **kwargs: Any) -> ThreadEnv:
        """Make the environment in the thread where it will live."""
        self = cls()
        try:
            await self._do(lambda: self._adopt(make(target, **kwargs)))
        except BaseException:
            self._work.put(self._leave)  # a make that nobody waits for any more is closed when it is done
            self._work.put(None)
            raise
        return self

    def _adopt(self, env: Any) -> None:
        if not isinstance(env, Env):
            raise WrongClass(f"One environment is needed, got {type(env).__name__}. Drop num_envs.")
        self._env, self.action_space = env, env.action_space
        self.metadata, self.spec = env.metadata, env.spec

    async def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Begin an episode: observation and info."""
        return await self._do(lambda: self._env.reset(seed=seed, options=options))

    async def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        """Observation, reward, terminated, truncated, info."""
        return await self._do(lambda: self._env.step(action))

    async def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """A method of the environment, or of the one inside its wrappers."""

        def calling() -> Any:
            inside = self._env.unwrapped
            if isinstance(inside, HostedEnv):
                return inside.call(name, *args, **kwargs)
            return self._env.get_wrapper_attr(name)(*args, **kwargs)

        return await self._do(calling)

    async def close(self) -> None:
        """Close the environment, in its thread, after what it still does."""
        if not self._closed:
            closing = self._do(self._leave)
            self._closed = True
            try:
                await closing
            finally:
                self._work.put(None)

    def _leave(self) -> None:
        if "_env" in self.__dict__:
            self._env.close()

    def _do(self, call: Callable[[], T]) -> asyncio.Future[T]:
        if self._closed:
            raise ClosedEnvironmentError("This environment is closed. Make it anew.")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(set_it: Callable[[Any], None], value: Any) -> None:
            if not future.done():  # cancelled
                set_it(value)

        def work() -> None:
            settled: tuple[Callable[[Any], None], Any]
            try:
                settled = future.set_result, call()
            except StopIteration as error:  # no future takes one
                settled = future.set_exception, RuntimeError(f"the environment raised {error!r}")
            except BaseException as error:
                settled = future.set_exception, error
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(settle, *settled)

        self._work.put(work)
        return future

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
