"""Environments as people wrote them for OpenAI's Gym before 0.26, for tests that run where that is installed."""

import numpy as np

import gym
from gym import spaces


class Relic(gym.Env):
    """Four values a step, a seed by ``seed()``, the render mode as an argument of ``render``."""

    metadata = {"render.modes": ["human", "rgb_array", "ansi"], "video.frames_per_second": 7}
    observation_space = spaces.Dict(
        {"where": spaces.Box(-100.0, 100.0, (2,), np.float64), "kind": spaces.MultiBinary(2), "way": spaces.Discrete(9)}
    )
    action_space = spaces.Tuple((spaces.Discrete(3), spaces.MultiDiscrete([2, 4])))

    def __init__(self, size=3):
        self.size, self.shown = size, []
        self.seed()

    def seed(self, seed=None):
        self.random = np.random.RandomState(seed)
        return [seed]

    def reset(self):
        self.count, self.place = 0, self.random.uniform(-1, 1, 2)
        return self._seen()

    def step(self, action):
        self.count += 1
        self.place = self.place + self.random.uniform(-1, 1, 2) + action[0]
        return self._seen(), float(action[1][1]), self.count == 20, {"count": self.count}

    def _seen(self):
        return {"where": self.place.copy(), "kind": np.array([1, self.count % 2], np.int8), "way": self.count % 9}

    def render(self, mode="human"):
        self.shown.append(mode)
        return {"rgb_array": np.full((2, 3, 3), self.count, np.uint8), "ansi": f"at {self.count}"}.get(mode)


class Stubborn(gym.Wrapper):
    """A wrapper whose ``reset`` takes nothing, as many did."""

    def reset(self):
        return self.env.reset()


gym.register("Relic-v0", entry_point="tests.families.relics:Relic", max_episode_steps=9, kwargs={"size": 5})
gym.register("Relic-v3", entry_point="tests.families.relics:Relic")
