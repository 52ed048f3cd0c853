"""Guard: what make() puts around an environment, in one layer: order of calls, action validation, time limit.

Three nested wrappers would cost three Python frames a step; here a countdown makes "not reset", "first call" and
"limit reached" one rare branch, and a step of the common kind is one frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import ActType, Env, Info, ObsType
from paddock.core.episode_names import random_name
from paddock.core.passive import check_spaces, render_and_check, reset_and_check, step_and_check
from paddock.core.problem import raise_or_warn
from paddock.core.reuse import reuse_problems
from paddock.core.snapshot import opened, sealed
from paddock.core.spec import EnvSpec
from paddock.core.wrapper import Wrapper
from paddock.errors import InvalidAction, InvalidSnapshot, ResetNeeded
from paddock.spaces import Discrete
from paddock.spaces.conform import Nonconforming, conform

NO_LIMIT = 1 << 62
_LARGEST_TABLE = 4096
_IDLE, _RUNNING, _ENDED = "before the first reset", "running", "after the end"


class Guard(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Order, validation and time limit around ``env``.

    ``strict`` is paddock's own reading: an action outside a Box and a step after the end raise. Without it both go
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
            action = self._admitted(action)
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
        """The episode's id, made when first asked for, and the steps taken in it."""
        if self._episode_id is None and self._phase != _IDLE:
            self._episode_id = self._new_name()
        return self._episode_id, self._elapsed_steps

    def name_episodes(self, names: Callable[[], str]) -> None:
        """Where the names of episodes come from, in place of chance."""
        self._new_name = names

    def snapshot(self) -> bytes:
        return sealed("guard", (self._phase, self._elapsed_steps), self.env.snapshot())

    def restore(self, snapshot: bytes) -> None:
        (phase, taken), inner = opened("guard", snapshot, tuple[str, int])
        if phase not in (_IDLE, _RUNNING, _ENDED) or not 0 <= taken < NO_LIMIT:
            raise InvalidSnapshot(f"This snapshot of a guard is malformed: {ascii(phase)[:40]} after {taken} steps.")
        self.env.restore(inner)
        self._phase = phase
        self._episode_id = None
        running = phase == _RUNNING or (phase == _ENDED and not self._strict)
        self._begin_countdown(taken=taken, left=self._steps_allowed - taken if running else 0)

    @property
    def in_stride(self) -> bool:
        """Whether the next step is of the common kind: not the first, not the last before the limit, not too late."""
        return self._left > 1

    @property
    def checks_bounds(self) -> bool:
        """Whether an action outside its Box is refused."""
        return self._validate and self._strict

    def count_step(self, *, ended: bool) -> None:
        """Take note of a step in stride that lanes took together, past this guard, with an action that it admits."""
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
        """A step before reset or after the end, the first one, or one that reaches the limit."""
        if self._order_enforce and self._phase != _RUNNING:
            raise ResetNeeded(_RESET_NEEDED[self._phase])
        if self._validate:
            action = self._admitted(action)
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
        self._actions: Any = getattr(self.env, "action_space", None)  # missing: validate=False, and check_env will tell
        space = self._actions
        self._action_types: frozenset[type] = frozenset()
        self._action_values: frozenset[Any] = frozenset()
        # A table answers in 40 ns for the two types that agents send; everything else takes the general way.
        if type(space) is Discrete and space.n <= _LARGEST_TABLE:
            self._action_types = frozenset({int, np.int64})
            self._action_values = frozenset(range(int(space.start), int(space.start + space.n)))

    def _admitted(self, action: ActType) -> ActType:
        if type(action) in self._action_types and action in self._action_values:
            return action
        try:
            admitted: ActType = conform(self._actions, action, bounds=self._strict)
            return admitted
        except Nonconforming as error:
            raise InvalidAction(f"{error}", action=action, space=self._actions) from None


_RESET_NEEDED = {
    _IDLE: "Cannot call env.step() before calling env.reset()",
    _ENDED: "The episode has ended: call env.reset() before the next env.step().",
}


class DoneByGuard(type):
    """``isinstance(env, TimeLimit)`` also holds for a Guard that limits time, so that code which looks for it works."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance) or (isinstance(instance, Guard) and cls._does(instance))  # type: ignore[attr-defined]
