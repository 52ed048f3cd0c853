"""Gym3Lanes: a gym3 environment with several lanes as a VectorEnv, stepped by the library in one call.

Its lanes share one seed, given when it was made, so lane i is not the environment that ``make`` gives for seed + i.
An episode's last observation is never seen: ``info["final_obs"]`` is the one before it.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from paddock.core.env import Info
from paddock.core.episode_names import random_name
from paddock.core.state import State
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.core.warning import warn_user
from paddock.errors import InvalidAction, InvalidLanes, ResetNeeded
from paddock.sources.gym3 import FPS, close, end_early
from paddock.sources.gym3_spaces import rows_of, space_of
from paddock.spaces.batch import batch_space, row
from paddock.spaces.conform import conform

Array = np.ndarray[Any, Any]


class Gym3Lanes(VectorEnv[Any, Any, Array]):
    """The lanes of ``gym3_env``. Autoreset is SAME_STEP, for so gym3 does it. rewards: float64[n]; flags: bool[n]."""

    def __init__(self, env: Any) -> None:
        self.gym3_env = env
        self.num_envs = env.num
        self.single_observation_space = space_of(env.ob_space)
        self.single_action_space = space_of(env.ac_space)
        self.observation_space = batch_space(self.single_observation_space, env.num)
        self.action_space = batch_space(self.single_action_space, env.num)
        self.render_mode = "rgb_array" if "rgb" in env.get_info()[0] else None
        modes = [] if self.render_mode is None else [self.render_mode]
        self.metadata = {"render_modes": modes, "render_fps": FPS, "autoreset_mode": AutoresetMode.SAME_STEP}
        self._seen: Any = None
        self._names: list[str] = []
        self._steps = np.zeros(env.num, np.int64)

    def reset(self, *, seed: Any = None, options: Info | None = None) -> tuple[Any, Info]:
        """Show every lane's first observation. Lanes in the middle of an episode end it where the library can."""
        if options is not None and "reset_mask" in options:
            raise InvalidLanes("gym3 can't begin anew in some lanes alone: all of them step together.")
        if seed is not None:
            warn_user("reset(seed=) seeds nothing: gym3 takes a seed when an environment is made.")
        env = self.gym3_env
        if not env.observe()[2].all() and not end_early(env):
            warn_user("gym3 can't end an episode early: reset() goes on with those that run.")
        _, self._seen, _ = env.observe()
        self._names = [random_name() for _ in range(env.num)]
        self._steps[:] = 0
        return self._seen, self._infos()

    def send(self, actions: Any) -> None:
        if not self._names:
            raise ResetNeeded("Cannot call env.step() before calling env.reset()")
        try:
            admitted = conform(self.action_space, rows_of(self.gym3_env.ac_space, actions))
        except (TypeError, ValueError, LookupError) as error:  # Nonconforming among them
            raise InvalidAction(f"{error}", action=actions, space=self.action_space) from None
        self.gym3_env.act(admitted)
        self._sent = True

    def recv(self) -> tuple[Any, Array, Array, Array, Info]:
        self._take_sent()
        before = self._seen
        rewards, self._seen, first = self.gym3_env.observe()
        infos = self._infos()
        self._steps += 1
        for lane in np.flatnonzero(first).tolist():
            last = deepcopy(row(self.single_observation_space, before, lane))
            infos = self._add_info(infos, {"final_obs": last, "final_info": {}}, lane)
            self._names[lane], self._steps[lane] = random_name(), 0
        return self._seen, rewards.astype(np.float64), first, np.zeros(self.num_envs, np.bool_), infos

    def _infos(self) -> Info:
        infos: Info = {}
        for lane, info in enumerate(self.gym3_env.get_info()):
            infos = self._add_info(infos, {key: value for key, value in info.items() if key != "rgb"}, lane)
        return infos

    def state(self) -> tuple[State, ...]:
        names: list[Any] = self._names or [None] * self.num_envs
        return tuple(State(name, int(steps)) for name, steps in zip(names, self._steps, strict=True))

    def render(self) -> tuple[Any, ...] | None:
        return None if self.render_mode is None else tuple(info["rgb"] for info in self.gym3_env.get_info())

    def close_extras(self, **kwargs: Any) -> None:
        close(self.gym3_env)
