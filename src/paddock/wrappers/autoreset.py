"""Autoreset: the step after the end begins the next episode. That step's action is ignored, its reward is 0."""

from __future__ import annotations

from typing import SupportsFloat

from paddock.core.env import ActType, Env, Info, ObsType
from paddock.core.snapshot import opened, sealed
from paddock.core.wrapper import Wrapper


class Autoreset(Wrapper[ObsType, ActType, ObsType, ActType]):
    """A single environment that goes on from episode to episode, as a lane does under ``AutoresetMode.NEXT_STEP``."""

    def __init__(self, env: Env[ObsType, ActType]) -> None:
        super().__init__(env)
        self._record_arguments()
        self.autoreset = False  # the episode has ended: the next step resets

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[ObsType, Info]:
        self.autoreset = False
        return self.env.reset(seed=seed, options=options)

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        if self.autoreset:
            observation, info = self.env.reset()
            self.autoreset = False
            return observation, 0.0, False, False, info
        result = self.env.step(action)
        self.autoreset = result[2] or result[3]
        return result

    def snapshot(self) -> bytes:
        return sealed("autoreset", bool(self.autoreset), self.env.snapshot())

    def restore(self, snapshot: bytes) -> None:
        autoreset, inner = opened("autoreset", snapshot, bool)
        self.env.restore(inner)
        self.autoreset = autoreset
