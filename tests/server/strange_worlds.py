"""Environments that do what a server must bear: odd numbers, secrets in errors, the worst endings."""

import os
import sys
import time

import numpy as np

import paddock
from paddock.openenv import Action, Environment, Observation, State
from paddock.spaces import Box, Discrete

SECRET = "hunter2-planted-secret"


class Numbers(paddock.Env):
    """Shows infinities and a negative zero. Action 1 rewards with NaN, 2 ends, 3 cuts off, 4 raises, 5 shows NaN."""

    observation_space = Box(-np.inf, np.inf, (4,), dtype=np.float64)
    action_space = Discrete(6)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._seen(), {"drawn": float(self.np_random.random()), "bad": float("nan")}

    def step(self, action):
        if action == 4:
            raise RuntimeError(f"password={SECRET} in {__file__}")
        reward = float("nan") if action == 1 else 1.5
        return (
            self._seen(np.nan if action == 5 else 0.5),
            reward,
            action == 2,
            action == 3,
            {"array": np.array([1.0, np.inf])},
        )

    def _seen(self, first=0.5):
        return np.array([first, np.inf, -np.inf, -0.0])


paddock.register("Numbers-v0", entry_point=Numbers)


class Command(Action):
    do: str


class Rough(Environment[Command, Observation, State]):
    """Does what it is told."""

    def __init__(self):
        super().__init__()
        self.steps = 0

    def reset(self, seed=None, episode_id=None, **kwargs):
        if kwargs.get("fail"):
            raise ValueError(SECRET)
        self.steps = 0
        return Observation()

    def step(self, action, timeout_s=None, **kwargs):
        self.steps += 1
        if action.do == "raise":
            raise RuntimeError(f"password={SECRET} in {__file__}")
        if action.do == "exit":
            sys.exit(SECRET)
        if action.do == "die":
            os._exit(3)
        if action.do == "none":
            return None
        if action.do == "object":
            return Observation(metadata={"it": object()})
        if action.do == "slow":
            time.sleep(0.3)
        return Observation(reward=1.0, metadata={"did": action.do[:100], "size": len(action.do)})

    @property
    def state(self):
        if self.steps == 7:
            raise RuntimeError(SECRET)
        return State(episode_id="e", step_count=self.steps)


class Unmakeable(Rough):
    """Its constructor fails."""

    def __init__(self):
        super().__init__()
        raise RuntimeError(SECRET)
