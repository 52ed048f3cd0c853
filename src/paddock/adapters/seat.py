"""Seat: a place for one episode after another, in an environment that is made, mended and closed as needed.

A trainer keeps its seats for ever and closes none. An episode that broke has no reward: None, never 0, so a failing
machine teaches the model nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from paddock.adapters.async_env import AsyncEnv
from paddock.adapters.background_loop import LOOP
from paddock.agentic.chat_form import plain_observation, refused
from paddock.core.env import Info
from paddock.errors import (
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

logger = logging.getLogger("paddock.adapters")

# Nothing gets better by trying again, and whoever asked must know.
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


@dataclass
class Failures:
    """Episodes that broke for no fault of the agent's, of all seats together."""

    episodes: int = 0
    failed: int = 0
    in_a_row: int = 0
    last: str | None = None

    def begun(self) -> None:
        """An episode begins."""
        self.episodes += 1

    def held(self) -> None:
        """A step was done."""
        self.in_a_row = 0

    def broke(self, why: str) -> None:
        """An episode broke."""
        self.failed, self.in_a_row, self.last = self.failed + 1, self.in_a_row + 1, why

    def enough(self, most: int | None) -> EpisodeFailed | None:
        """The error to raise if ``most`` broke in a row; they are counted anew then."""
        if most is None or self.in_a_row < most:
            return None
        count, self.in_a_row = self.in_a_row, 0
        return EpisodeFailed(
            f"{count} episodes in a row broke, the last because of {self.last} "
            f"Mend that, or let it go on with give_up_after=None."
        )


@dataclass(frozen=True)
class SeatRules:
    """``timeout_s``: for one reset or step. ``idle_s``: an environment unused for so long is closed.

    ``attempts``: how often a reset is tried, each time in a new environment. ``give_up_after``: so many broken episodes
    in a row are an error, because then it is not one machine that fails but all of them; None for never.
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
    """What happened so far. ``failure`` says why it broke; then it has no reward."""

    rewards: list[float] = field(default_factory=list)
    terminated: bool = False
    truncated: bool = False
    failure: str | None = None
    info: Info = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether there are no more steps in it."""
        return self.terminated or self.truncated or self.failure is not None

    @property
    def reward(self) -> float | None:
        """The sum; None for one that broke."""
        return None if self.failure is not None else float(sum(self.rewards))


class Seat:
    """Its coroutines run in ``LOOP`` and nowhere else. Calls are carried out one after another."""

    def __init__(self, make: Callable[[], Awaitable[AsyncEnv]], rules: SeatRules, failures: Failures) -> None:
        self._make, self._rules, self._failures = make, rules, failures
        self._env: AsyncEnv | None = None
        self._turn: asyncio.Lock | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._used_s = 0.0
        self._forget_exit = LOOP.at_exit(self.close)
        self.episode = Episode(failure="it was never begun")

    def prepare(self) -> None:
        """Begin to make the environment, for many are sooner ready together than one after another."""

        async def making() -> None:
            async with self._my_turn():
                with suppress(Exception):  # reset tries again, and tells
                    await self._in_time(self._ready())

        LOOP.submit(making())

    async def reset(self, seed: int | None, options: Info | None) -> dict[str, Any] | None:
        """Begin an episode; its first observation, or None if none could be begun: see ``episode.failure``."""
        async with self._my_turn():
            if (enough := self._failures.enough(self._rules.give_up_after)) is not None:
                raise enough
            self.episode = Episode()
            self._failures.begun()
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
                        self._broke(error)
            return None

    async def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Act; what is to be observed then. ToolFailed has words for the model where nothing could be done."""
        async with self._my_turn():
            episode, env = self.episode, self._env
            if episode.failure is None and not episode.over and env is None:
                self._broke(EpisodeFailed(f"it was not used for {self._rules.idle_s} s, and closed."))
            if episode.failure is not None:
                raise ToolFailed("The environment failed. This episode does not count.")
            if episode.over or env is None:
                raise ToolFailed("The episode is over.")
            try:
                known = env.action_space.validate(action) if hasattr(env.action_space, "validate") else action
                observation, reward, episode.terminated, episode.truncated, info = await self._in_time(env.step(known))
            except Exception as error:
                if (words := refused(error)) is not None:
                    raise ToolFailed(words) from None
                if not (isinstance(error, PaddockError) and error.session_alive):
                    self._drop()
                self._broke(error)
                raise ToolFailed("The environment failed. This episode does not count.") from error
            self._failures.held()
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
        """Close it without waiting: for finalizers, in whatever thread they run."""
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
            self._look_out()

    def _my_turn(self) -> asyncio.Lock:
        if self._turn is None:  # made in the loop that it is for
            self._turn = asyncio.Lock()
        return self._turn

    def _look_out(self) -> None:
        """See to it that an environment nobody uses is closed."""
        loop = asyncio.get_running_loop()
        self._used_s = loop.time()
        if self._timer is None and self._env is not None:
            self._timer = loop.call_later(self._rules.idle_s, self._close_if_idle)

    def _close_if_idle(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        left_s = self._used_s + self._rules.idle_s - loop.time()
        if left_s > 0 or self._my_turn().locked():
            self._timer = loop.call_later(max(left_s, self._rules.idle_s / 8), self._close_if_idle)
        else:
            env, self._env = self._env, None  # taken here, so that no reset can be given one that closes
            if env is not None:
                LOOP.begin(lambda: _close(env))

    def _drop(self) -> None:
        """It can't be trusted any more, and whether it still answers nobody waits to see."""
        env, self._env = self._env, None
        if env is not None:
            LOOP.begin(lambda: _close(env))

    def _broke(self, error: Exception) -> None:
        self.episode.failure = f"{type(error).__name__}: {error}"
        self._failures.broke(self.episode.failure)
        logger.warning("an episode broke and is not scored: %s", self.episode.failure)


async def _close(env: AsyncEnv) -> None:
    with suppress(Exception):  # it is gone, and that is all that was wanted
        await asyncio.wait_for(env.close(), _CLOSING_S)
