"""Reward wrappers of n lanes. A step that begins an episode has reward 0, whatever the wrapper does to rewards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddock.core.vector_env import VectorEnv
from paddock.wrappers.many_lanes import ManyLanesReward
from paddock.wrappers.reward import Bound, Clip, Transform
from paddock.wrappers.shown import of_logic


class TransformReward(ManyLanesReward):
    """The agent sees ``func(rewards)``, a function of all lanes' rewards at once: float64[n] to float64[n]."""

    func: Callable[[Any], Any] = of_logic()

    def __init__(self, env: VectorEnv[Any, Any, Any], func: Callable[[Any], Any]) -> None:
        super().__init__(env, Transform(func))


class ClipReward(ManyLanesReward):
    """Rewards within ``min_reward`` and ``max_reward``; None leaves that side open."""

    def __init__(self, env: VectorEnv[Any, Any, Any], min_reward: Bound = None, max_reward: Bound = None) -> None:
        super().__init__(env, Clip(min_reward, max_reward))
