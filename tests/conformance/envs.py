"""The environments that every tier plays. They can be imported, so a fresh interpreter finds them by name."""

import json
import os

import numpy as np

import paddock
from paddock.spaces import Box, Discrete, Space, Text
from paddock.wrappers.guard import Guard

MODULUS = 2**31


class Counting(paddock.Env):
    """Adds its actions up. ``echo_worker.pl`` is the same environment in Perl, so all arithmetic is spelled out."""

    observation_space = Box(0, MODULUS, (2,), np.int64)
    action_space = Discrete(4)

    def __init__(self, goal=5):
        self.goal, self.count, self.draw = goal, 0, 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.draw = seed % MODULUS
        self.count = 0
        self._next()
        return self._seen(), {"draw": self.draw}

    def step(self, action):
        if action == 3:
            raise ValueError("three is not counted")
        self.count += int(action)
        self._next()
        return self._seen(), int(action) * 0.5, self.count >= self.goal, False, {"draw": self.draw}

    def _next(self):
        self.draw = (self.draw * 1103515245 + 12345) % MODULUS

    def _seen(self):
        return np.array([self.count, self.draw], dtype=np.int64)

    def public_state(self):
        return {"count": self.count}

    def twice(self, value):
        return 2 * value


def counting(goal=5):
    """As ``make`` would give it: order and actions are checked."""
    return Guard(Counting(goal))


class Dice(paddock.Env):
    """Draws from ``np_random`` in every call, renders in every mode, and can be saved."""

    metadata = {"render_modes": ["human", "rgb_array", "rgb_array_list", "ansi"], "render_fps": 7}
    observation_space = Box(0, 1, (3,), np.float64)
    action_space = Box(-1, 1, (2,), np.float32)

    def __init__(self, sides=6, render_mode=None):
        self.sides, self.render_mode = sides, render_mode
        self.thrown = 0
        self.frames = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.thrown = (options or {}).get("thrown", 0)
        return self.np_random.random(3), {}

    def step(self, action):
        self.thrown += 1
        self.frames.append(self._frame())
        seen = self.np_random.random(3)
        reward = float(np.float64(action[0]) * 3 + self.np_random.integers(self.sides))
        return seen, reward, self.thrown == 4, self.thrown == 6, {}

    def render(self):
        if self.render_mode == "ansi":
            return f"{self.thrown} of {self.sides} ⚅"
        if self.render_mode == "rgb_array_list":
            frames, self.frames = self.frames, []
            return frames
        return self._frame() if self.render_mode == "rgb_array" else None

    def _frame(self):
        return np.full((4, 5, 3), self.thrown, dtype=np.uint8)

    def snapshot(self):
        return json.dumps([self.thrown, self.np_random.bit_generator.state]).encode()

    def restore(self, snapshot):
        self.thrown, state = json.loads(snapshot)
        self.np_random.bit_generator.state = state


class Tantrum(Exception):
    """An exception that no other process knows."""


class Moody(Counting):
    """Fails in its own ways: 1 with a built-in error, 2 with a class of its own, 3 by leaving."""

    def step(self, action):
        if action == 1:
            raise ValueError("bad moon")
        if action == 2:
            raise Tantrum("no more today")
        if action == 3:
            raise SystemExit(4)
        return super().step(1)

    def complain(self):
        raise Tantrum("not that again")


class Telling(Counting):
    """Puts ``told`` into its infos."""

    def __init__(self, told=None):
        super().__init__(goal=100)
        self.told = {} if told is None else told
        self.viewer = Unspeakable()

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], dict(self.told)

    def step(self, action):
        return *super().step(action)[:4], dict(self.told)


class Unspeakable:
    """No wire type."""


def telling_a_secret():
    """Its infos hold what can't leave the process."""
    env = Telling()
    env.step = lambda action: (*Counting.step(env, action)[:4], {"debug": {"viewer": [1, Unspeakable()]}})
    return env


class Sampled(paddock.Env):
    """Observations drawn from any space, the same for actions; it remembers the last action."""

    def __init__(self, make_space):
        self.observation_space, self.action_space = make_space(), make_space()
        self.last_action = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        self.last_action = action
        return self.observation_space.sample(), 0.0, False, False, {}


class Colour(Space):
    """A space of a class that paddock does not know."""

    names = ("red", "green", "blue")

    def sample(self, mask=None, probability=None):
        return self.names[int(self.np_random.integers(3))]

    def contains(self, x):
        return x in self.names

    def __eq__(self, other):
        return isinstance(other, Colour)

    __hash__ = Space.__hash__


class Noisy(Counting):
    """Not deterministic: its observations come from the system's entropy, whatever the seed."""

    observation_space = Box(0, 255, (16,), np.uint8)

    def reset(self, *, seed=None, options=None):
        return self._noise(), {}

    def step(self, action):
        return self._noise(), 0.0, False, False, {}

    def _noise(self):
        return np.frombuffer(os.urandom(16), dtype=np.uint8).copy()


class OnceOnly(Counting):
    """Not resettable: it begins once."""

    def __init__(self):
        super().__init__(goal=2)
        self.begun = False

    def reset(self, *, seed=None, options=None):
        if self.begun:
            raise RuntimeError("this world can't begin again")
        self.begun = True
        return super().reset(seed=seed)


class Panorama(Counting):
    """Observations of 8 MB."""

    observation_space = Box(0, 255, (2048, 4096), np.uint8)

    def _seen(self):
        return np.random.default_rng(self.draw).integers(0, 256, (2048, 4096), dtype=np.uint8)


class Novel(Counting):
    """Observations of a megabyte of text, not all of it ASCII."""

    observation_space = Text(1 << 20, charset="abé🎲")

    def _seen(self):
        letters = np.random.default_rng(self.draw).integers(0, 4, 600_000)
        return np.array(list("abé🎲"))[letters].tobytes().decode("utf-32-le")


class Idle(paddock.Wrapper):
    """For the lanes beside the one under test: begins once, stands still and never fails."""

    def __init__(self, env):
        super().__init__(env)
        self._first = None

    def reset(self, *, seed=None, options=None):
        if self._first is None:
            self._first = self.env.reset(seed=1234)[0]
        return self._first, {}

    def step(self, action):
        if self._first is None:
            return self.env.step(action)  # before the first reset it is not idle: it says what the environment says
        return self._first, 0.0, False, False, {}
