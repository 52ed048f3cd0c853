"""TransformAction: any function of an action. ClipAction: what lies outside the Box is moved to its bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import Env, Info
from paddock.errors import InvalidSpace
from paddock.spaces import Box, Space
from paddock.wrappers.fitted import FittedAction
from paddock.wrappers.one_lane import OneLaneAction
from paddock.wrappers.straight import func_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Transform(FittedAction):
    """``func`` of one lane's action, a member of ``offered``; None: the space stays as it is."""

    func: Callable[[Any], Any]
    offered: Space[Any] | None
    around: InitVar[Space[Any]]

    def __post_init__(self, around: Space[Any]) -> None:
        self._fit(around if self.offered is None else self.offered, around)

    def one(self, value: Any) -> Any:
        return self.func(value)


class _Bounds(FittedAction):
    low: Array
    high: Array


@dataclass(frozen=True)
class Clip(_Bounds):
    """Any action of the Box's shape, moved into its bounds."""

    around: InitVar[Space[Any]]

    def __post_init__(self, around: Space[Any]) -> None:
        if not isinstance(around, Box):
            raise InvalidSpace(f"ClipAction requires a Box action space, got {type(around)}")
        offered = Box(-np.inf, np.inf, around.shape, around.dtype)
        self._fit(offered, around, low=around.low, high=around.high)

    def one(self, value: Any) -> Any:
        return np.minimum(np.maximum(value, self.low), self.high)  # np.clip's answer, in half its time

    def rows(self, values: Any) -> Any:
        return self.one(values)


class TransformAction(OneLaneAction):
    """The environment gets ``func(action)``; the agent may do ``action_space`` (None: the environment's)."""

    func: Callable[[Any], Any] = func_of("action")
    _straight: Callable[[Any], Any]

    def __init__(self, env: Env[Any, Any], func: Callable[[Any], Any], action_space: Space[Any] | None) -> None:
        self._record_arguments(func=func, action_space=action_space)
        self._act_through(env, Transform(func, action_space, env.action_space))
        self.func = func

    def _act_through(self, env: Env[Any, Any], logic: FittedAction) -> None:
        OneLaneAction.__init__(self, env, logic)
        self.func = logic.one

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        return self.env.step(self._straight(action))

    def action(self, action: Any) -> Any:
        return self.func(action)


class ClipAction(TransformAction):
    """Actions outside the Box are moved to its bounds; to the agent it has none."""

    def __init__(self, env: Env[Any, Any]) -> None:
        self._act_through(env, Clip(env.action_space))
