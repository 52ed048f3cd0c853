"""Rewards changed one by one. A step that begins an episode has no reward to change: its 0 stays 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import Env, Info
from paddock.errors import InvalidBound
from paddock.wrappers.lanes import Lanes
from paddock.wrappers.logic import Logic, func_of
from paddock.wrappers.one_lane import OneLaneReward

Bound = float | np.ndarray[Any, Any] | None


@dataclass(frozen=True)
class Transform(Logic):
    """``func`` of a reward; of all lanes' rewards at once in the form for n lanes."""

    func: Callable[[Any], Any]

    def reward(self, memory: Any, lanes: Lanes, reward: Any) -> Any:
        return self.func(reward)


@dataclass(frozen=True)
class Clip(Logic):
    """Rewards within ``min_reward`` and ``max_reward``; None leaves that side open."""

    min_reward: Bound = None
    max_reward: Bound = None

    def __post_init__(self) -> None:
        low, high = self.min_reward, self.max_reward
        if low is None and high is None:
            raise InvalidBound("Both `min_reward` and `max_reward` cannot be None")
        if low is not None and high is not None and np.any(np.asarray(high) < np.asarray(low)):
            raise InvalidBound(f"Min reward ({low}) must be smaller than max reward ({high})")

    def reward(self, memory: Any, lanes: Lanes, reward: Any) -> Any:
        return self.clip_one(reward) if lanes is None else np.clip(reward, self.min_reward, self.max_reward)

    def clip_one(self, reward: Any) -> Any:
        """One reward within the bounds: np.clip's answer, in a fraction of its time."""
        low, high = self.min_reward, self.max_reward
        if isinstance(low, np.ndarray) or isinstance(high, np.ndarray):
            return np.clip(reward, low, high)
        if low is not None and reward < low:
            reward = float(low)
        if high is not None and reward > high:
            reward = float(high)
        return reward


class TransformReward(OneLaneReward):
    """The agent sees ``func(reward)``."""

    func: Callable[[Any], Any] = func_of("reward")
    _shortcut: Callable[[Any], Any]

    def __init__(self, env: Env[Any, Any], func: Callable[[SupportsFloat], SupportsFloat]) -> None:
        super().__init__(env, Transform(func))
        self.func = func

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, self._shortcut(reward), terminated, truncated, info

    def reward(self, reward: SupportsFloat) -> SupportsFloat:
        return self.func(reward)  # type: ignore[no-any-return]


class ClipReward(TransformReward):
    """Rewards within ``min_reward`` and ``max_reward``; None leaves that side open."""

    def __init__(self, env: Env[Any, Any], min_reward: Bound = None, max_reward: Bound = None) -> None:
        clip = Clip(min_reward, max_reward)
        OneLaneReward.__init__(self, env, clip)
        self.func = clip.clip_one
