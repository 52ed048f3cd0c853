"""KernelVectorEnv: n lanes of a kernel behind one call, equal to n single environments seeded seed, seed + 1, …

Without Numba the same loop runs as Python: slower, the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from paddock.core.env import Info
from paddock.core.state import State
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.errors import InvalidAction, InvalidSpace, ResetNeeded
from paddock.kernels import driver
from paddock.kernels.env import KernelEnv, env_class
from paddock.kernels.kernel import Kernel
from paddock.kernels.lane_infos import episode_info, final_info, lane_infos
from paddock.kernels.lanes import Lanes
from paddock.kernels.snapshot import decode_lanes, encode_lanes
from paddock.kernels.threads import Helpers
from paddock.seeding import np_random, to_seed
from paddock.spaces import Discrete
from paddock.spaces.batch import batch_space

Array = np.ndarray[Any, Any]
_MODES = {
    AutoresetMode.NEXT_STEP: driver.NEXT_STEP,
    AutoresetMode.SAME_STEP: driver.SAME_STEP,
    AutoresetMode.DISABLED: driver.DISABLED,
}


class KernelVectorEnv(VectorEnv[Any, Any, Array]):
    """``num_envs`` lanes of ``kernel``.

    ``copy=False`` returns buffers that the next step overwrites. ``threads`` above 1 lets that many threads share
    the lanes; it pays for thousands of lanes. ``statistics`` adds ``info["episode"]`` with return and length when an
    episode ends. Actions are always validated: a lane with a bad one is named, and no lane has moved.
    rewards: float64[n]; terminations, truncations: bool[n].
    """

    kernel: ClassVar[Kernel]
    env_type: ClassVar[type[KernelEnv]]

    def __init__(
        self,
        num_envs: int = 1,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        threads: int = 1,
        statistics: bool = False,
        strict: bool = True,
        **arguments: Any,
    ) -> None:
        self.num_envs, self.render_mode, self.copy, self.statistics = num_envs, render_mode, copy, statistics
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**self.env_type.metadata, "autoreset_mode": self.autoreset_mode}
        self._single = self.env_type(render_mode, **arguments)
        params = self._single._params
        self.single_observation_space = self._single.observation_space
        self.single_action_space = self._single.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.max_episode_steps = max_episode_steps
        mode = _MODES[self.autoreset_mode]
        self._lanes = Lanes(self.kernel, params, num_envs, mode=mode, limit=max_episode_steps or 0, strict=strict)
        self._helpers = Helpers(self._lanes, threads) if threads > 1 else None
        self._began = False
        self._name_columns()

    def _name_columns(self) -> None:
        """The arrays of the hot path as attributes."""
        columns, layout = self._lanes.columns, self._lanes.layout
        self._action = columns["action"]
        parts = [columns[f"obs_{at}"] for at in range(len(layout.observation))]
        self._whole = parts[0] if not hasattr(self.single_observation_space, "spaces") else None
        self._parts = parts
        self._reward, self._terminated, self._truncated = (
            columns[name] for name in ("reward", "terminated", "truncated")
        )
        self._plain = not layout.info and not self.statistics and self.autoreset_mode is not AutoresetMode.SAME_STEP

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, Info]:
        # Hot path: one copy in, one call, four copies out.
        if type(actions) is not np.ndarray or actions.dtype != self._action.dtype or actions.shape != self._action.shape:
            actions = self._cast(actions)
        self._action[...] = actions
        ended = self._lanes.step() if self._helpers is None else self._helpers.step()
        if ended < 0 or not self._began:
            self._refuse(ended)
        infos = {} if self._plain else self._infos(ended)
        if not self.copy:
            return self._seen(), self._reward, self._terminated, self._truncated, infos
        seen = self._whole.copy() if self._whole is not None else tuple(part.copy() for part in self._parts)
        return seen, self._reward.copy(), self._terminated.copy(), self._truncated.copy(), infos

    def send(self, actions: Any) -> None:
        self._sent = self.step(actions)

    def recv(self) -> tuple[Any, Array, Array, Array, Info]:
        return self._sent

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None
    ) -> tuple[Any, Info]:
        mask = self._reset_mask(options)
        self._seed_lanes(seed, mask)
        lanes, params = self._lanes, self._lanes.params
        start = self._single._start_params(options)
        if start is not params:
            lanes.set_params(params, start)
        lanes.columns["mask"][:] = mask
        lanes.call(driver.RESET)
        if start is not params:
            lanes.set_params(params, params)
        self._began = True
        infos = lane_infos(lanes, mask) if lanes.layout.info else {}
        return self._seen(copy=self.copy), infos

    def _seen(self, *, copy: bool = False) -> Any:
        parts = [part.copy() for part in self._parts] if copy else self._parts
        return parts[0] if self._whole is not None else tuple(parts)

    def _infos(self, ended: int) -> Info:
        lanes, everywhere = self._lanes, np.ones(self.num_envs, np.bool_)
        infos = lane_infos(lanes, everywhere)
        if ended:
            over = self._terminated | self._truncated
            episode = episode_info(lanes, over) if self.statistics else {}
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                infos.update(final_info(lanes, over, episode, tuple_valued=self._whole is None))
            infos.update(episode)
        return infos

    def _refuse(self, code: int) -> None:
        if not self._began:
            raise ResetNeeded("Cannot call env.step() before calling env.reset()")
        if code <= driver.ENDED:
            lane = driver.ENDED - code
            raise ResetNeeded(f"lane {lane}: the episode has ended. reset(options={{'reset_mask': mask}}) begins anew.")
        lane = -1 - code
        action = self._action[lane]
        raise InvalidAction(
            f"lane {lane}: action {action} is outside {self.single_action_space}.",
            action=action,
            space=self.single_action_space,
            lane=lane,
        )

    def _cast(self, actions: Any) -> Array:
        """Actions as an array of the lanes' own kind; integers for Discrete, numbers for Box."""
        array = np.asarray(actions)
        allowed = "biu" if isinstance(self.single_action_space, Discrete) else "biuf"
        if array.shape != self._action.shape or array.dtype.kind not in allowed:
            raise InvalidAction(
                f"actions of shape {array.shape} and type {array.dtype} for {self.num_envs} lanes of "
                f"{self.single_action_space}; expected {self._action.dtype}{list(self._action.shape)}.",
                action=actions,
                space=self.action_space,
            )
        return array

    def _seed_lanes(self, seed: int | Sequence[int | None] | None, mask: Array) -> None:
        seeds: list[int | None]
        if seed is None:
            seeds = [None] * self.num_envs
        elif isinstance(seed, (list, tuple, np.ndarray)):
            if len(seed) != self.num_envs:
                raise InvalidSpace(f"{len(seed)} seeds for {self.num_envs} lanes. Pass one number, or one a lane.")
            seeds = [None if one is None else to_seed(one) for one in seed]
        else:
            first = to_seed(seed)
            self._np_random, self._np_random_seed = np_random(first)
            seeds = [first + lane for lane in range(self.num_envs)]
        for lane in np.flatnonzero(mask):
            if seeds[lane] is not None or self._lanes.generators[lane] is None:
                self._lanes.use_generator(int(lane), np_random(seeds[lane])[0])

    def _reset_mask(self, options: Info | None) -> Array:
        mask = (options or {}).get("reset_mask")
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        if not isinstance(mask, np.ndarray) or mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            raise InvalidSpace(f"options['reset_mask'] is {mask!r}; expected a bool array of shape ({self.num_envs},).")
        if not mask.any():
            raise InvalidSpace("options['reset_mask'] names no lane; expected at least one True.")
        if not self._began and not mask.all():
            raise ResetNeeded("The first reset must begin every lane; options['reset_mask'] leaves some out.")
        return mask

    def state(self) -> tuple[State, ...]:
        steps, episodes = self._lanes.columns["steps"], self._lanes.columns["episodes"]
        return tuple(
            State(f"{id(self):x}-{lane}-{episodes[lane]}" if self._began else None, int(steps[lane]))
            for lane in range(self.num_envs)
        )

    def snapshot(self) -> bytes:
        """All lanes as bytes, for ``restore`` of lanes made with the same arguments."""
        return encode_lanes(self._lanes)

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; anything else raises InvalidSnapshot and changes nothing."""
        decode_lanes(self._lanes, snapshot)
        self._began = True

    def render(self) -> tuple[Any, ...] | None:
        frames = []
        for lane in range(self.num_envs):
            self._single.kernel_state = self._lanes.get_state(lane)
            frames.append(self._single.render())
        return tuple(frames)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """A param or attribute, once a lane: lanes share their parameters."""
        return (getattr(self._single, name),) * self.num_envs

    def set_attr(self, name: str, values: Any) -> None:
        """Set a parameter of all lanes."""
        if isinstance(values, (list, tuple)):
            if len(values) != self.num_envs or any(value != values[0] for value in values):
                raise InvalidSpace(f"Lanes share {name}: pass one value for all of them.")
            values = values[0]
        setattr(self._single, name, values)
        self._lanes.set_params(self._single._params, self._single._params)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """An attribute or the result of a method, once a lane."""
        found = getattr(self._single, name)
        return (found(*args, **kwargs) if callable(found) else found,) * self.num_envs

    def close_extras(self, **kwargs: Any) -> None:
        if self._helpers is not None:
            self._helpers.close()
        self._single.close()


def vector_class(kernel: Kernel, name: str = "KernelVectorEnvironment") -> type[KernelVectorEnv]:
    """A VectorEnv class for a kernel that nobody wrote a class for."""
    members = {"kernel": kernel, "env_type": env_class(kernel), "__module__": kernel.step.__module__}
    return type(name, (KernelVectorEnv,), members)
