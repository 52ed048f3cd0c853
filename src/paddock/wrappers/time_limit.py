"""TimeLimit as a wrapper of its own, for those who compose a stack by hand; make() lets the Guard do it."""

from __future__ import annotations

from typing import Any, SupportsFloat

from paddock.core.env import ActType, Env, Info, ObsType
from paddock.core.snapshot import opened, sealed
from paddock.core.spec import EnvSpec
from paddock.core.wrapper import Wrapper
from paddock.errors import InvalidSpec
from paddock.wrappers.guard import DoneByGuard, Guard


class TimeLimit(Wrapper[ObsType, ActType, ObsType, ActType], metaclass=DoneByGuard):
    """Truncates an episode after ``max_episode_steps`` steps."""

    def __init__(self, env: Env[ObsType, ActType], max_episode_steps: int) -> None:
        super().__init__(env)
        if type(max_episode_steps) is not int or max_episode_steps <= 0:
            raise InvalidSpec(f"Expect the `max_episode_steps` to be positive, actually: {max_episode_steps!r}")
        self._record_arguments(max_episode_steps=max_episode_steps)
        self._max_episode_steps = max_episode_steps
        self._elapsed_steps = 0

    @staticmethod
    def _does(guard: Guard[Any, Any]) -> bool:
        return guard._max_episode_steps is not None

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._elapsed_steps += 1
        if self._elapsed_steps >= self._max_episode_steps:
            truncated = True
        return observation, reward, terminated, truncated, info

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[ObsType, Info]:
        self._elapsed_steps = 0
        return self.env.reset(seed=seed, options=options)

    def snapshot(self) -> bytes:
        return sealed("time_limit", self._elapsed_steps, self.env.snapshot())

    def restore(self, snapshot: bytes) -> None:
        taken, inner = opened("time_limit", snapshot, int)
        self.env.restore(inner)
        self._elapsed_steps = taken

    def _append_to_spec(self, spec: EnvSpec) -> EnvSpec:
        spec.max_episode_steps = self._max_episode_steps
        return spec
