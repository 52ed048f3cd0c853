"""Guard: the one layer that make() puts around an environment: order of calls, action validation, time limit.

Three nested wrappers would cost three Python frames per step. Here a countdown makes "not reset", "first call" and
"limit reached" one rare branch, and the common step is one frame. OrderEnforcing, PassiveEnvChecker and TimeLimit are
its three parts as wrappers, for those who compose a stack by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.checks import check_spaces, render_and_check, reset_and_check, reuse_problems, step_and_check
from paddock.core.env import ActType, Env, Info, ObsType
from paddock.core.problem import raise_or_warn
from paddock.core.spec import EnvSpec
from paddock.core.state import open_snapshot, random_name, seal_snapshot
from paddock.core.wrapper import Wrapper
from paddock.errors import InvalidAction, InvalidSnapshot, InvalidSpec, ResetNeeded
from paddock.spaces import Discrete
from paddock.spaces.conform import Nonconforming, conform

NO_LIMIT = 1 << 62
_LARGEST_TABLE = 4096
_IDLE, _RUNNING, _ENDED = "before the first reset", "running", "after the end"
_RESET_NEEDED = {
    _IDLE: "Cannot call env.step() before calling env.reset()",
    _ENDED: "The episode has ended: call env.reset() before the next env.step().",
}


class Guard(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Order, validation and time limit around ``env``.

    ``strict`` is paddock's own rule: an action outside a Box and a step after the end raise. Without it both go
    through to the environment, as in Gymnasium. ``validate=False`` leaves actions and the first calls unchecked.
    """

    def __init__(
        self,
        env: Env[ObsType, ActType],
        *,
        max_episode_steps: int | None = None,
        order_enforce: bool = True,
        validate: bool = True,
        strict: bool = True,
    ) -> None:
        super().__init__(env)
        self._max_episode_steps = max_episode_steps
        self._order_enforce = order_enforce
        self._validate = validate
        self._strict = strict
        self._steps_allowed = NO_LIMIT if max_episode_steps is None else max_episode_steps
        self._unchecked = {"reset", "step", "render"} if validate else set[str]()
        self._first: tuple[Any, Any] = (None, None)  # what the first reset returned, until the first step is checked
        self._episode_id: str | None = None
        self._new_name: Callable[[], str] = random_name
        self._phase = _IDLE
        self._taken = self._counting_from = self._left = 0
        self._begin_countdown(taken=0, left=0 if order_enforce else self._countdown())
        if validate:
            check_spaces(env)
        self._learn_actions()

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        left = self._left - 1
        if left <= 0:
            return self._rare_step(action)
        if self._validate and (type(action) not in self._action_types or action not in self._action_values):
            action = self._admit(action)
        result = self.env.step(action)
        self._left = left
        if (result[2] or result[3]) and self._strict:
            self._end()
        return result

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[ObsType, Info]:
        if "reset" in self._unchecked:
            result = reset_and_check(self.env, seed=seed, options=options)
            self._unchecked.discard("reset")
            self._first = result
        else:
            result = self.env.reset(seed=seed, options=options)
        if self._validate and self.env.action_space is not self._actions:
            self._learn_actions()
        self._phase = _RUNNING
        self._begin_countdown(taken=0, left=self._countdown())
        self._episode_id = None
        return result

    def render(self) -> Any:
        if self._order_enforce and self._phase == _IDLE:
            raise ResetNeeded("Cannot call `env.render()` before calling `env.reset()`.")
        if "render" in self._unchecked:
            self._unchecked.discard("render")
            return render_and_check(self.env)
        return self.env.render()

    def episode(self) -> tuple[str | None, int]:
        """The episode's id, made on first use, and the steps taken in it."""
        if self._episode_id is None and self._phase != _IDLE:
            self._episode_id = self._new_name()
        return self._episode_id, self._elapsed_steps

    def name_episodes(self, names: Callable[[], str]) -> None:
        """Take the names of episodes from ``names`` instead of drawing them at random."""
        self._new_name = names

    def snapshot(self) -> bytes:
        return seal_snapshot("guard", (self._phase, self._elapsed_steps), self.env.snapshot())

    def restore(self, snapshot: bytes) -> None:
        (phase, taken), inner = open_snapshot("guard", snapshot, tuple[str, int])
        if phase not in (_IDLE, _RUNNING, _ENDED) or not 0 <= taken < NO_LIMIT:
            raise InvalidSnapshot(f"This snapshot of a guard is malformed: {ascii(phase)[:40]} after {taken} steps.")
        self.env.restore(inner)
        self._phase = phase
        self._episode_id = None
        running = phase == _RUNNING or (phase == _ENDED and not self._strict)
        self._begin_countdown(taken=taken, left=self._steps_allowed - taken if running else 0)

    @property
    def in_stride(self) -> bool:
        """Whether the next step is a common one: not the first, not the last before the limit, not after the end."""
        return self._left > 1

    @property
    def checks_bounds(self) -> bool:
        """Whether an action outside its Box is refused."""
        return self._validate and self._strict

    def count_step(self, *, ended: bool) -> None:
        """Count a common step that lanes took together, past this guard, with an action that it would admit."""
        self._left -= 1
        if ended and self._strict:
            self._end()

    @property
    def has_reset(self) -> bool:
        """Whether ``reset`` was ever called."""
        return self._phase != _IDLE

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]
        """The environment's spec; the guard is three of its fields, not one of its wrappers."""
        return self.env.spec

    def _rare_step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        """Take a step before reset or after the end, the first one, or one that reaches the limit."""
        if self._order_enforce and self._phase != _RUNNING:
            raise ResetNeeded(_RESET_NEEDED[self._phase])
        if self._validate:
            action = self._admit(action)
        taken = self._elapsed_steps + 1
        if "step" in self._unchecked:
            result = step_and_check(self.env, action)
            raise_or_warn(reuse_problems(self._first, (result[0], result[4]), "reset", "step"))
            self._unchecked.discard("step")
            self._first = (None, None)
        else:
            result = self.env.step(action)
        self._begin_countdown(taken=taken, left=self._steps_allowed - taken)
        if self._left <= 0:
            observation, reward, terminated, _, info = result
            result = observation, reward, terminated, True, info
        if (result[2] or result[3]) and self._strict:
            self._end()
        return result

    def _countdown(self) -> int:
        # One step from the rare branch while the first step is still to be checked.
        return 1 if "step" in self._unchecked else self._steps_allowed

    def _begin_countdown(self, *, taken: int, left: int) -> None:
        self._taken, self._counting_from, self._left = taken, left, left

    @property
    def _elapsed_steps(self) -> int:
        return self._taken + self._counting_from - self._left

    def _end(self) -> None:
        self._phase = _ENDED
        self._begin_countdown(taken=self._elapsed_steps, left=0)

    def _learn_actions(self) -> None:
        # Without one: validate=False, and check_env reports it.
        self._actions: Any = getattr(self.env, "action_space", None)
        space = self._actions
        self._action_types: frozenset[type] = frozenset()
        self._action_values: frozenset[Any] = frozenset()
        # A table answers in 40 ns for the two types that agents send; everything else goes through `conform`.
        if type(space) is Discrete and space.n <= _LARGEST_TABLE:
            self._action_types = frozenset({int, np.int64})
            self._action_values = frozenset(range(int(space.start), int(space.start + space.n)))

    def _admit(self, action: ActType) -> ActType:
        if type(action) in self._action_types and action in self._action_values:
            return action
        try:
            admitted: ActType = conform(self._actions, action, bounds=self._strict)
            return admitted
        except Nonconforming as error:
            raise InvalidAction(f"{error}", action=action, space=self._actions) from None


class ImpliedByGuard(type):
    """Makes ``isinstance(env, TimeLimit)`` true for a Guard that limits time, so that code that looks for it works."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance) or (isinstance(instance, Guard) and cls._implied_by(instance))  # type: ignore[attr-defined]


class OrderEnforcing(Wrapper[ObsType, ActType, ObsType, ActType], metaclass=ImpliedByGuard):
    """Raises ResetNeeded for ``step`` and ``render`` before the first ``reset``."""

    def __init__(self, env: Env[ObsType, ActType], disable_render_order_enforcing: bool = False) -> None:
        super().__init__(env)
        self._record_arguments(disable_render_order_enforcing=disable_render_order_enforcing)
        self._has_reset = False
        self._disable_render_order_enforcing = disable_render_order_enforcing

    @staticmethod
    def _implied_by(guard: Guard[Any, Any]) -> bool:
        return guard._order_enforce

    @property
    def has_reset(self) -> bool:
        """Whether ``reset`` was ever called."""
        return self._has_reset

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        if not self._has_reset:
            raise ResetNeeded("Cannot call env.step() before calling env.reset()")
        return self.env.step(action)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[ObsType, Info]:
        self._has_reset = True
        return self.env.reset(seed=seed, options=options)

    def restore(self, snapshot: bytes) -> None:
        self.env.restore(snapshot)
        self._has_reset = True  # snapshots are of episodes

    def render(self) -> Any:
        if not self._disable_render_order_enforcing and not self._has_reset:
            raise ResetNeeded(
                "Cannot call `env.render()` before calling `env.reset()`, if this is an intended action, "
                "set `disable_render_order_enforcing=True` on the OrderEnforcer wrapper."
            )
        return self.env.render()

    def _append_to_spec(self, spec: EnvSpec) -> EnvSpec:
        spec.order_enforce = True
        return spec


class PassiveEnvChecker(Wrapper[ObsType, ActType, ObsType, ActType], metaclass=ImpliedByGuard):
    """Checks the spaces when made and what the first reset, step and render return; warns, or raises if unusable."""

    def __init__(self, env: Env[ObsType, ActType]) -> None:
        super().__init__(env)
        self._record_arguments()
        check_spaces(env)
        self.checked_reset = False
        self.checked_step = False
        self.checked_render = False
        self.close_called = False

    @staticmethod
    def _implied_by(guard: Guard[Any, Any]) -> bool:
        return guard._validate

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        if self.checked_step:
            return self.env.step(action)
        self.checked_step = True
        return step_and_check(self.env, action)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[ObsType, Info]:
        if self.checked_reset:
            return self.env.reset(seed=seed, options=options)
        self.checked_reset = True
        return reset_and_check(self.env, seed=seed, options=options)

    def render(self) -> Any:
        if self.checked_render:
            return self.env.render()
        self.checked_render = True
        return render_and_check(self.env)

    def close(self) -> None:
        if not self.close_called:
            self.close_called = True
            self.env.close()

    def _append_to_spec(self, spec: EnvSpec) -> EnvSpec:
        spec.disable_env_checker = False
        return spec


class TimeLimit(Wrapper[ObsType, ActType, ObsType, ActType], metaclass=ImpliedByGuard):
    """Truncates an episode after ``max_episode_steps`` steps."""

    def __init__(self, env: Env[ObsType, ActType], max_episode_steps: int) -> None:
        super().__init__(env)
        if type(max_episode_steps) is not int or max_episode_steps <= 0:
            raise InvalidSpec(f"Expect the `max_episode_steps` to be positive, actually: {max_episode_steps!r}")
        self._record_arguments(max_episode_steps=max_episode_steps)
        self._max_episode_steps = max_episode_steps
        self._elapsed_steps = 0

    @staticmethod
    def _implied_by(guard: Guard[Any, Any]) -> bool:
        return guard._max_episode_steps is not None

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._elapsed_steps += 1
        if self._elapsed_steps >= self._max_episode_steps:
            truncated = True
        return observation, reward, terminated, truncated, info

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[ObsType, Info]:
        self._elapsed_steps = 0
        return self.env.reset(seed=seed, options=options)

    def snapshot(self) -> bytes:
        return seal_snapshot("time_limit", self._elapsed_steps, self.env.snapshot())

    def restore(self, snapshot: bytes) -> None:
        taken, inner = open_snapshot("time_limit", snapshot, int)
        self.env.restore(inner)
        self._elapsed_steps = taken

    def _append_to_spec(self, spec: EnvSpec) -> EnvSpec:
        spec.max_episode_steps = self._max_episode_steps
        return spec
