"""Environments that do nothing but answer, so that the way to them is what is measured."""

import numpy as np

import paddock
from paddock.spaces import Box, Discrete


class Echo(paddock.Env):
    """Observes the action."""

    def __init__(self, render_mode=None):
        self.observation_space = self.action_space = Discrete(2)
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return int(action), 1.0, False, False, {}


class Pixels(paddock.Env):
    """Observes an array of bytes of this shape."""

    def __init__(self, shape, render_mode=None):
        self.observation_space = Box(0, 255, tuple(shape), np.uint8)
        self.action_space = Discrete(2)
        self.render_mode = render_mode
        self._pixels = np.random.default_rng(0).integers(0, 256, tuple(shape), np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._pixels, {}

    def step(self, action):
        return self._pixels, 1.0, False, False, {}
