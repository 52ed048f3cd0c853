"""An environment with every kind of space that has arrays; what it sees tells what it was given."""

import numpy as np

import paddock
from paddock.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple


class ManySpaces(paddock.Env):
    """Ends after ``goal`` steps. Its observations are drawn, so lanes that are mixed up show."""

    def __init__(self, goal=4, actions=None):
        self.goal, self.count, self.given = goal, 0, []
        parts = {
            "box": Box(-1, 1, (2, 3), dtype=np.float32),
            "pixels": Box(0, 255, (4, 4, 3), dtype=np.uint8),
            "wide": Box(0, 2**16 - 1, (2,), dtype=np.uint16),
            "free": Box(-np.inf, np.inf, (2,), dtype=np.float64),
            "one": Discrete(3, start=-1),
            "several": MultiDiscrete([2, 3], start=[5, -7]),
            "grid": MultiDiscrete([[2, 3], [4, 5]]),
            "bits": MultiBinary(3),
        }
        nested = {
            "inside": Dict({"deep": Box(0, 1, (1,), dtype=np.float32)}),
            "pair": Tuple((Discrete(2), Discrete(4))),
        }
        self.observation_space = Dict({**parts, **nested})
        self.action_space = Dict({**parts, **nested}) if actions is None else actions

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.count = 0
        return self.observation_space.sample(), {"first": True}

    def step(self, action):
        self.given.append(action)
        self.count += 1
        over = self.count >= self.goal
        return self.observation_space.sample(), float(self.count), over, False, {"count": self.count}
