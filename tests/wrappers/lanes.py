"""Environments for the law: lanes of different lengths, whose every value tells where it comes from."""

import numpy as np

import paddock
from paddock.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from paddock.vector import SyncVectorEnv


class Wanderer(paddock.Env):
    """A random walk whose episodes last ``3 + lane`` steps or end by chance, with infos now and then."""

    def __init__(self, lane=0, *, chance=0.1, continuous=False, observation="array"):
        self.lane, self.chance, self.kind = lane, chance, observation
        self.observation_space = SPACES[observation]
        self.action_space = Box(-1, 1, (2,), np.float32) if continuous else Discrete(5)

    def seen(self):
        values = np.array([self.time, self.place], np.float32)
        if self.kind == "dict":
            return {"values": values, "name": "abc"[self.time % 3], "count": np.int64(self.time % 10)}
        if self.kind in PARTS:
            return PARTS[self.kind](values)
        if self.kind == "image":
            return np.full((3, 2), self.place % 7 * 30 + self.time, np.uint8)
        return np.int64(self.time % 10) if self.kind == "discrete" else values

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.place = 0, float(self.np_random.integers(100))
        return self.seen(), {"begun": self.place}

    def step(self, action):
        self.time += 1
        self.place += float(np.sum(action)) + float(self.np_random.random())
        terminated = bool(self.np_random.random() < self.chance)
        info = {"time": self.time, "more": {"place": self.place}} if self.time % 2 else {}
        return self.seen(), self.place - 50.0, terminated, self.time >= 3 + self.lane, info


SPACES = {
    "array": Box(-np.inf, np.inf, (2,), np.float32),
    "image": Box(0, 255, (3, 2), np.uint8),
    "discrete": Discrete(10),
    "dict": Dict(
        {"values": Box(-np.inf, np.inf, (2,), np.float32), "name": Text(1, charset="abc"), "count": Discrete(10)}
    ),
}
# Kinds for wrappers that ask for a certain space: bounds, colours, or parts to flatten.
PARTS = {
    "bounded": lambda values: np.clip(values, -4, 12).reshape(2, 1),
    "picture": lambda values: (
        (values[1] * np.arange(1, 37).reshape(4, 3, 3) + values[0]).astype(np.int64).astype(np.uint8)
    ),
    "pair": lambda values: (values, np.int64(values[0] % 3 - 1)),
    "flags": lambda values: (values > np.array([2, 60])).astype(np.int8),
    "counts": lambda values: np.array([[values[0] % 3, values[1] % 4 + 1]]).astype(np.int64),
    "nested": lambda values: {
        "bits": (values > 5).astype(np.int8),
        "pair": (np.clip(values, -4, 12), np.int64(values[0] % 3)),
    },
}
SPACES |= {
    "bounded": Box(-4, 12, (2, 1), np.float32),
    "picture": Box(0, 255, (4, 3, 3), np.uint8),
    "pair": Tuple([Box(-np.inf, np.inf, (2,), np.float32), Discrete(3, start=-1)]),
    "flags": MultiBinary(2),
    "counts": MultiDiscrete([[3, 4]], start=[[0, 1]]),
    "nested": Dict({"bits": MultiBinary(2), "pair": Tuple([Box(-4, 12, (2,), np.float32), Discrete(3)])}),
}


def one(lane, **kwargs):
    return Wanderer(lane, **kwargs)


def lanes(mode, count=4, **kwargs):
    return SyncVectorEnv([lambda lane=lane: one(lane, **kwargs) for lane in range(count)], autoreset_mode=mode)
