"""Small environments that the tests share."""

from __future__ import annotations

import numpy as np

import paddock
from paddock.spaces import Box, Discrete


class Counter(paddock.Env):
    """Counts its steps; ends at ``goal``. The observation is the count, so every mix-up shows."""

    def __init__(self, goal: int = 5, render_mode: str | None = None) -> None:
        self.goal, self.render_mode = goal, render_mode
        self.observation_space = Box(0, np.inf, (1,), dtype=np.float64)
        self.action_space = Discrete(3)
        self.count = 0
        self.actions: list[object] = []
        self.closed = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.array([0.0]), {}

    def step(self, action):
        self.count += 1
        self.actions.append(action)
        return np.array([float(self.count)]), float(self.count), self.count >= self.goal, False, {}

    def close(self) -> None:
        self.closed += 1


class Mover(Counter):
    """As Counter, with a Box of two floats as action."""

    def __init__(self, goal: int = 5) -> None:
        super().__init__(goal)
        self.action_space = Box(-1, 1, (2,), dtype=np.float32)


class Painter(Counter):
    """As Counter, with frames."""

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 10}

    def render(self):
        return f"count {self.count}" if self.render_mode == "ansi" else np.full((4, 5, 3), self.count, dtype=np.uint8)


class Walker(Counter):
    """Assigns ``self.state``, as many environments do, and publishes a part of what it knows."""

    state_space = paddock.spaces.Dict({"score": Discrete(100)})

    def __init__(self, goal: int = 5) -> None:
        super().__init__(goal)
        self.state = (0.0, 1.0)
        self.secret = "answer"

    def public_state(self):
        return {"score": self.count}
