"""Environments that misbehave, for the command line to survive. Their text carries terminal escapes."""

from __future__ import annotations

import io
import sys

import numpy as np

import paddock
from paddock.errors import DependencyNotInstalled
from paddock.spaces import Discrete

RED = "\x1b[31mowned\x1b]0;title\x07\u202e\x9b2J"


class Loud(paddock.Env):
    """Prints, warns and tells in its infos whatever it likes; otherwise a counter to three."""

    observation_space = Discrete(10)
    action_space = Discrete(2)
    metadata = {"render_modes": [f"ansi{RED}"]}

    def __init__(self, render_mode=None, note=""):
        self.render_mode, self.count = render_mode, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        print(RED)
        print(RED, file=sys.stderr)
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.buffer.write(RED.encode())
        return 0, {RED: RED}

    def step(self, action):
        self.count += 1
        print(RED, end="")
        return self.count, 1.0, self.count == 3, False, {RED: RED}

    def close(self):
        print(RED)


class FailsAt(Loud):
    """Raises in the call that it is told to."""

    place, error = "step", RuntimeError(RED)

    def _maybe(self, place):
        if place == self.place:
            raise self.error

    def __init__(self, render_mode=None):
        super().__init__()
        self._maybe("init")

    def reset(self, *, seed=None, options=None):
        self._maybe("reset")
        return super().reset(seed=seed)

    def step(self, action):
        if self.count == 1:
            self._maybe("step")
        return super().step(action)

    def close(self):
        self._maybe("close")


class FailsInInit(FailsAt):
    place = "init"


class FailsInReset(FailsAt):
    place = "reset"


class FailsInClose(FailsAt):
    place = "close"


class Exits(FailsAt):
    error = SystemExit(0)


class Interrupts(FailsAt):
    error = KeyboardInterrupt()


class NeedsPackage(FailsAt):
    place, error = "init", DependencyNotInstalled("Run: pip install pygame-ce")


class NeedsModule(FailsAt):
    place, error = "init", ModuleNotFoundError("No module named 'absent'", name="absent")


class Unnameable(FailsAt):
    class Error(Exception):
        def __str__(self):
            raise RuntimeError

    error = Error()


class OddReward(Loud):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, RED, *rest


class NoDigest(Loud):
    """Observes objects that have no canonical bytes."""

    class Anything(paddock.Space):
        def contains(self, value):
            return True

        def sample(self, mask=None, probability=None):
            return object()

    observation_space = Anything()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return object(), {}

    def step(self, action):
        _, *rest = super().step(action)
        return object(), *rest


class Outside(Loud):
    """Its observations are not in its space."""

    def step(self, action):
        _, *rest = super().step(action)
        return np.float64("nan"), *rest


class Endless(Loud):
    def step(self, action):
        observation, reward, _, truncated, info = super().step(action)
        return observation % 10, reward, False, truncated, info
