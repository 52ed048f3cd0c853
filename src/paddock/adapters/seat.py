"""Seat: a place for one episode after another, in an environment that is made, replaced and closed as needed.

A trainer keeps its seats forever and closes none. An episode that broke has no reward: None, never 0, so that a failing
machine teaches the model nothing. Environments live in one event loop in a thread of its own, ``LOOP``.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, SupportsFloat, TypeVar

from paddock.agentic.chat import plain_observation, refusal_text
from paddock.core.env import Env, Info
from paddock.core.spec import EnvSpec
from paddock.errors import (
    ClosedEnvironmentError,
    DependencyNotInstalled,
    EpisodeFailed,
    Forbidden,
    InvalidManifest,
    InvalidPolicy,
    InvalidSeed,
    InvalidSpec,
    InvalidTask,
    InvalidValue,
    PaddockError,
    PlanError,
    RegistrationError,
    SandboxUnavailable,
    ToolFailed,
    Unauthenticated,
    UnregisteredEnv,
    WrongClass,
)
from paddock.hosting.client import AsyncHostedEnv, HostedEnv
from paddock.making import make, make_async
from paddock.making.target import locate
from paddock.spaces import Space

logger = logging.getLogger("paddock.adapters")

# Trying again does not help, and the caller must know.
_MISTAKES = (
    DependencyNotInstalled,
    Forbidden,
    InvalidManifest,
    InvalidPolicy,
    InvalidSeed,
    InvalidSpec,
    InvalidTask,
    InvalidValue,
    PlanError,
    RegistrationError,
    SandboxUnavailable,
    Unauthenticated,
    UnregisteredEnv,
    WrongClass,
)
_CLOSING_S = 10.0
_FAREWELL_S = 5.0  # for all that is open when Python ends; what takes longer is left to the other side's own rules
# What make() takes besides the environment's own arguments, and make_async does not.
_FOR_MAKE = frozenset({"num_envs", "isolation", "backend", "wrappers", "validate", "max_episode_steps", "lanes"})

T = TypeVar("T")


@dataclass
class Failures:
    """Counts of episodes, and of those that broke through no fault of the agent, in all seats together."""

    episodes: int = 0
    failed: int = 0
    in_a_row: int = 0
    last: str | None = None

    def count(self, why: str) -> None:
        self.failed, self.in_a_row, self.last = self.failed + 1, self.in_a_row + 1, why

    def check(self, most: int | None) -> None:
        """Raise EpisodeFailed if ``most`` broke in a row, and begin to count again."""
        if most is not None and self.in_a_row >= most:
            count, self.in_a_row = self.in_a_row, 0
            raise EpisodeFailed(
                f"{count} episodes in a row failed, the last with: {self.last} "
                f"Fix that, or pass give_up_after=None to keep going."
            )


@dataclass(frozen=True)
class SeatRules:
    """``timeout_s``: for one reset or step. ``idle_s``: an environment unused for that long is closed.

    ``attempts``: how often a reset is tried, each time in a new environment. ``give_up_after``: that many broken
    episodes in a row are an error, because then not one machine fails but all of them; None for never.
    """

    timeout_s: float | None = 300.0
    idle_s: float = 900.0
    attempts: int = 3
    give_up_after: int | None = 64

    def __post_init__(self) -> None:
        for name in ("timeout_s", "idle_s", "attempts", "give_up_after"):
            value = getattr(self, name)
            if value is None and name in ("timeout_s", "give_up_after"):
                continue
            if not isinstance(value, (int, float)) or not value > 0:
                raise PlanError(f"SeatRules({name}={value!r}): expected a number above zero.")


@dataclass
class Episode:
    """What happened so far. ``failure`` says why an episode broke; then it has no reward."""

    rewards: list[float] = field(default_factory=list)
    terminated: bool = False
    truncated: bool = False
    failure: str | None = None
    info: Info = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated or self.failure is not None

    @property
    def reward(self) -> float | None:
        return None if self.failure is not None else float(sum(self.rewards))


class Seat:
    """A place for episodes. Its coroutines run in ``LOOP`` and nowhere else, one call after another."""

    def __init__(self, make: Callable[[], Awaitable[AsyncEnv]], rules: SeatRules, failures: Failures) -> None:
        self._make, self._rules, self._failures = make, rules, failures
        self._env: AsyncEnv | None = None
        self._turn: asyncio.Lock | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._used_s = 0.0
        self._forget_exit = LOOP.at_exit(self.close)
        self.episode = Episode(failure="it never began")

    def prepare(self) -> None:
        """Begin to make the environment: many are ready sooner together than one after another."""

        async def make() -> None:
            async with self._my_turn():
                with suppress(Exception):  # reset tries again, and reports it
                    await self._in_time(self._ready())

        LOOP.submit(make())

    async def reset(self, seed: int | None, options: Info | None) -> dict[str, Any] | None:
        """Begin an episode and return its first observation; None if it could not begin: see ``episode.failure``."""
        async with self._my_turn():
            self._failures.check(self._rules.give_up_after)
            self.episode = Episode()
            self._failures.episodes += 1
            for tries_left in reversed(range(self._rules.attempts)):
                try:
                    env = await self._in_time(self._ready())
                    observation, self.episode.info = await self._in_time(env.reset(seed=seed, options=options))
                    return plain_observation(observation)
                except _MISTAKES:
                    raise
                except Exception as error:
                    self._drop()
                    if tries_left == 0:
                        self._give_up(error)
            return None

    async def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Act and return what is observed then. ToolFailed has words for the model if nothing could be done."""
        async with self._my_turn():
            episode, env = self.episode, self._env
            if episode.failure is None and not episode.over and env is None:
                self._give_up(EpisodeFailed(f"it was closed after {self._rules.idle_s} s without use."))
            if episode.failure is not None:
                raise ToolFailed("The environment failed. This episode does not count.")
            if episode.over or env is None:
                raise ToolFailed("The episode is over.")
            try:
                known = env.action_space.validate(action) if hasattr(env.action_space, "validate") else action
                observation, reward, episode.terminated, episode.truncated, info = await self._in_time(env.step(known))
            except Exception as error:
                if (words := refusal_text(error)) is not None:
                    raise ToolFailed(words) from None
                if not (isinstance(error, PaddockError) and error.session_alive):
                    self._drop()
                self._give_up(error)
                raise ToolFailed("The environment failed. This episode does not count.") from error
            self._failures.in_a_row = 0
            episode.rewards.append(float(reward))
            episode.info = info
            return plain_observation(observation)

    async def close(self) -> None:
        """Close the environment; the next reset would make another."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        env, self._env = self._env, None
        if env is not None:
            await _close(env)

    def leave(self) -> None:
        """Close it without waiting: for finalizers, which run in any thread."""
        self._forget_exit()
        LOOP.begin(self.close)

    async def _ready(self) -> AsyncEnv:
        if self._env is None:
            self._env = await self._make()
        return self._env

    async def _in_time(self, work: Awaitable[Any]) -> Any:
        try:
            return await asyncio.wait_for(work, self._rules.timeout_s)
        except asyncio.TimeoutError:
            raise TimeoutError(f"no answer within {self._rules.timeout_s} s") from None
        finally:
            loop = asyncio.get_running_loop()
            self._used_s = loop.time()
            if self._timer is None and self._env is not None:
                self._timer = loop.call_later(self._rules.idle_s, self._close_if_idle)

    def _my_turn(self) -> asyncio.Lock:
        if self._turn is None:  # made in the loop that it is for
            self._turn = asyncio.Lock()
        return self._turn

    def _close_if_idle(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        left_s = self._used_s + self._rules.idle_s - loop.time()
        if left_s > 0 or self._my_turn().locked():
            self._timer = loop.call_later(max(left_s, self._rules.idle_s / 8), self._close_if_idle)
        else:
            self._drop()

    def _drop(self) -> None:
        env, self._env = self._env, None  # taken here, so that no reset can get one that closes
        if env is not None:
            LOOP.begin(lambda: _close(env))

    def _give_up(self, error: Exception) -> None:
        self.episode.failure = f"{type(error).__name__}: {error}"
        self._failures.count(self.episode.failure)
        logger.warning("an episode broke and is not scored: %s", self.episode.failure)


async def _close(env: AsyncEnv) -> None:
    with suppress(Exception):  # it is gone, and that is all that was wanted
        await asyncio.wait_for(env.close(), _CLOSING_S)


async def make_for_async(target: str | os.PathLike[str] | EnvSpec, **kwargs: Any) -> AsyncEnv:
    """Make an environment for async code: one of a server as it is, any other in a thread of its own."""
    if locate(target).url is not None and not _FOR_MAKE & kwargs.keys():
        with suppress(PlanError):  # a server of OpenEnv's: make() speaks to those, or says what else is wrong
            return await make_async(str(target), **kwargs)
    return await ThreadEnv.make(target, **kwargs)


class ThreadEnv:
    """An Env in a thread, always the same one: environments may keep things that belong to a thread.

    Calls run in their order. If you stop waiting, the call still runs to its end.
    """

    action_space: Space[Any]
    metadata: dict[str, Any]
    spec: EnvSpec | None

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
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
            self._work.put((Future(), self._leave))  # what a make still brings, after its caller gave up, is closed
            self._work.put(None)
            raise
        return self

    def _adopt(self, env: Any) -> None:
        if not isinstance(env, Env):
            raise WrongClass(f"One environment is needed, got {type(env).__name__}. Drop num_envs.")
        self._env, self.action_space = env, env.action_space
        self.metadata, self.spec = env.metadata, env.spec

    async def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        return await self._do(lambda: self._env.reset(seed=seed, options=options))

    async def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        return await self._do(lambda: self._env.step(action))

    async def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the environment, or of the one inside its wrappers."""

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
            raise ClosedEnvironmentError("This environment is closed. Make a new one.")
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # from here on, cancelling it does not keep the call from running
        self._work.put((future, call))
        return asyncio.wrap_future(future)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            future, call = work
            try:
                future.set_result(call())
            except StopIteration as error:  # no future of asyncio takes one
                future.set_exception(RuntimeError(f"the environment raised {error!r}"))
            except BaseException as error:
                future.set_exception(error)
            del work, future, call  # they hold the environment, which may be dropped now


AsyncEnv = AsyncHostedEnv | ThreadEnv


class BackgroundLoop:
    """One event loop in a thread of its own, for trainers that call from plain code and from their own loops.

    What was opened in a loop belongs to it, and a trainer's loops come and go. The thread begins with the first call
    and ends with Python, which first awaits what ``at_exit`` was given.
    """

    def __init__(self) -> None:
        self._clear()
        if hasattr(os, "register_at_fork"):  # a fork has no thread: it must not wait for one
            os.register_at_fork(after_in_child=self._clear)

    def _clear(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begins = threading.Lock()
        self._farewells: set[Callable[[], Awaitable[None]]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._running())

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait for it in plain code. Never from inside this loop."""
        future = self.submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # an interrupted trainer: what no one waits for must not go on
            raise

    async def of(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await it from any loop."""
        return await asyncio.wrap_future(self.submit(coroutine))

    def begin(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin what no one waits for. Safe in finalizers: it takes no lock, and does nothing once Python ends."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(lambda: self._keep(loop.create_task(make())))

    def at_exit(self, farewell: Callable[[], Awaitable[None]]) -> Callable[[], None]:
        """Await it when Python ends; returns what cancels that."""
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
        self._tasks.add(task)  # a loop holds its tasks only weakly
        task.add_done_callback(self._tasks.discard)

    def _end(self) -> None:
        """Await what is open. Daemon threads still run now, and are stopped right after."""
        if self._loop is None:
            return

        async def all_farewells() -> None:
            open_ones = [asyncio.ensure_future(farewell()) for farewell in list(self._farewells)]
            if waited := {*open_ones, *self._tasks}:
                await asyncio.wait(waited, timeout=_FAREWELL_S)

        future = self.submit(all_farewells())
        try:
            future.result(_FAREWELL_S + 1.0)
        except Exception:  # no one is left to act on it
            future.cancel()


LOOP = BackgroundLoop()
