"""Reward wrappers of n lanes. A step that begins an episode has reward 0, whatever the wrapper does to rewards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddock.wrappers.reward as reward
from paddock.core.vector_env import VectorEnv
from paddock.wrappers.straight import func_of
from paddock.wrappers.vector.stateless import StatelessReward
from paddock.wrappers.vector.vectorize import VectorizeTransformReward


class TransformReward(StatelessReward):
    """The agent sees ``func(rewards)``, a function of all lanes' rewards at once: float64[n] to float64[n]."""

    func: Callable[[Any], Any] = func_of("rewards")

    def __init__(self, env: VectorEnv[Any, Any, Any], func: Callable[[Any], Any]) -> None:
        super().__init__(env, reward.Transform(func))
        self.func = func

    def rewards(self, rewards: Any) -> Any:
        return self.func(rewards)


class ClipReward(VectorizeTransformReward):
    """Rewards within ``min_reward`` and ``max_reward``; None leaves that side open."""

    def __init__(
        self, env: VectorEnv[Any, Any, Any], min_reward: reward.Bound = None, max_reward: reward.Bound = None
    ) -> None:
        super().__init__(env, reward.ClipReward, min_reward=min_reward, max_reward=max_reward)
