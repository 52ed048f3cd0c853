"""Lane 0 of a batch as one environment, so that the demo can play and digest it like any other."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.core.env import Env, Info
from paddock.making import make_vec


class FirstLane(Env[Any, Any]):
    """All lanes take the action that lane 0 is given; the other lanes have seeds of their own."""

    def __init__(self, target: str, num_envs: int) -> None:
        self._lanes = make_vec(target, num_envs=num_envs)
        self.observation_space = self._lanes.single_observation_space
        self.action_space = self._lanes.single_action_space

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        observations, _ = self._lanes.reset(seed=seed, options=options)
        return observations[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        actions = np.full(self._lanes.num_envs, action)
        observations, rewards, terminated, truncated, _ = self._lanes.step(actions)
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def close(self) -> None:
        self._lanes.close()
