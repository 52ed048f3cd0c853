"""Quiet: an environment that does nothing but draw numbers. What it shows tells whether anybody has disturbed it."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.spec import EnvSpec
from paddock.spaces import Box, Discrete


class Quiet(Env[Any, Any]):
    """Two random numbers a step."""

    metadata = {"render_modes": []}

    def __init__(self) -> None:
        self.observation_space = Box(0.0, 1.0, (2,), np.float32)
        self.action_space = Discrete(2)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        return self._draw(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        return self._draw(), 0.0, False, False, {}

    def _draw(self) -> Any:
        return self.np_random.random(2, np.float32)


QUIET = EnvSpec("Hostile/Quiet-v0", entry_point=f"{__name__}:Quiet")
