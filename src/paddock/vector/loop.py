"""SyncVectorEnv: lanes stepped one after the other in this process. Lane i behaves exactly as that one env would."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.lane_arguments import ended, lane_seeds, one_a_lane, reset_mask
from paddock.core.snapshot import opened, sealed
from paddock.core.state import State, state
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.errors import InvalidAction, InvalidLanes, InvalidSnapshot
from paddock.spaces import Space
from paddock.spaces.batch import batch_differing_spaces, batch_space, concatenate, create_empty_array, iterate
from paddock.spaces.flatten import is_space_dtype_shape_equiv

Array = np.ndarray[Any, Any]


class SyncVectorEnv(VectorEnv[Any, Any, Array]):
    """n environments, made by ``env_fns``, stepped in a loop.

    ``observation_mode``: "same" for lanes with equal spaces, "different" for spaces of one dtype and shape with other
    bounds, or a pair (batched space, single space). ``copy=False`` returns buffers that the next step overwrites.
    rewards: float64[n]; terminations, truncations: bool[n].
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], Env[Any, Any]]],
        copy: bool = True,
        observation_mode: str | tuple[Space[Any], Space[Any]] = "same",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.env_fns = env_fns
        self.copy = copy
        self.observation_mode = observation_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.envs: list[Env[Any, Any]] = []
        try:
            for make_one in env_fns:
                self.envs.append(make_one())
            self._adopt_spaces()
        except BaseException:
            for env in self.envs:
                env.close()
            raise
        self.num_envs = len(self.envs)
        first = self.envs[0]
        self.metadata = {**first.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = first.render_mode
        self._rewards = np.zeros(self.num_envs, dtype=np.float64)
        self._terminations = np.zeros(self.num_envs, dtype=np.bool_)
        self._truncations = np.zeros(self.num_envs, dtype=np.bool_)
        # Lanes whose episode is over: begun anew by the next step, or by the caller if autoreset is disabled.
        self._ended = np.zeros(self.num_envs, dtype=np.bool_)
        self._lane_obs: list[Any] = [None] * self.num_envs
        self._observations = create_empty_array(self.single_observation_space, n=self.num_envs, fn=np.zeros)
        self._begun = False

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> tuple[Any, Info]:
        seeds = lane_seeds(seed, self.num_envs)
        mask, options = reset_mask(options, self.num_envs, begun=self._begun)
        infos: Info = {}
        for lane in np.flatnonzero(mask):
            self._lane_obs[lane], info = self.envs[lane].reset(seed=seeds[lane], options=options)
            infos = self._add_info(infos, info, int(lane))
        self._terminations[mask] = self._truncations[mask] = self._ended[mask] = False
        self._rewards[mask] = 0.0
        self._begun = True
        return self._batched_obs(), infos

    def send(self, actions: Any) -> None:
        self._sent = list(self._lane_actions(actions))

    def recv(self) -> tuple[Any, Array, Array, Array, Info]:
        infos: Info = {}
        for lane, action in enumerate(self._take_sent()):
            infos = self._step_lane(lane, action, infos)
        return (
            self._batched_obs(),
            self._rewards.copy(),
            self._terminations.copy(),
            self._truncations.copy(),
            infos,
        )

    def _step_lane(self, lane: int, action: Any, infos: Info) -> Info:
        env = self.envs[lane]
        if self._ended[lane] and self.autoreset_mode is AutoresetMode.NEXT_STEP:
            obs, info = env.reset()
            reward, terminated, truncated = 0.0, False, False
        elif self._ended[lane]:
            raise ended(lane)
        else:
            obs, reward, terminated, truncated, info = env.step(action)  # type: ignore[assignment]
        over = bool(terminated or truncated)
        if over and self.autoreset_mode is AutoresetMode.SAME_STEP:
            infos = self._add_info(infos, {"final_obs": obs, "final_info": info}, lane)
            obs, info = env.reset()
            over = False
        self._lane_obs[lane], self._rewards[lane], self._ended[lane] = obs, reward, over
        self._terminations[lane], self._truncations[lane] = terminated, truncated
        return self._add_info(infos, info, lane)

    def _batched_obs(self) -> Any:
        self._observations = concatenate(self.single_observation_space, self._lane_obs, self._observations)
        return deepcopy(self._observations) if self.copy else self._observations

    def _lane_actions(self, actions: Any) -> Iterator[Any]:
        lanes = list(iterate(self.action_space, actions))
        if len(lanes) != self.num_envs:
            raise InvalidAction(
                f"{len(lanes)} actions for {self.num_envs} lanes. Expected one a lane.",
                action=actions,
                space=self.action_space,
            )
        return iter(lanes)

    def render(self) -> tuple[Any, ...]:
        return tuple(env.render() for env in self.envs)

    def state(self) -> tuple[State, ...]:
        return tuple(state(env) for env in self.envs)

    def snapshot(self) -> bytes:
        """All lanes as bytes, for ``restore`` of lanes made alike; each environment must have a ``snapshot``."""
        lanes = [env.snapshot() for env in self.envs]
        memory = self._ended.tolist(), self._begun
        return sealed("lanes", memory, sealed("each", lanes, b""))

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; anything else is refused. The observations come with the next step."""
        (over, begun), inner = opened("lanes", snapshot, tuple[list[bool], bool])
        lanes, _ = opened("each", inner, list[bytes])
        if not len(over) == len(lanes) == self.num_envs:
            raise InvalidSnapshot(f"This snapshot is of {len(lanes)} lanes, these are {self.num_envs}.")
        for env, one in zip(self.envs, lanes, strict=True):
            env.restore(one)
        self._ended[:], self._begun = over, begun

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Each lane's attribute, called with the arguments if it is callable."""
        found = (env.get_wrapper_attr(name) for env in self.envs)
        return tuple(value(*args, **kwargs) if callable(value) else value for value in found)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Each lane's attribute."""
        return self.call(name)

    def set_attr(self, name: str, values: list[Any] | tuple[Any, ...] | Any) -> None:
        """Set an attribute in every lane: one value for all, or a list or tuple with one a lane."""
        for env, value in zip(self.envs, one_a_lane(values, self.num_envs), strict=True):
            env.set_wrapper_attr(name, value)

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        return self.get_attr("np_random")

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.get_attr("np_random_seed")

    def close_extras(self, **kwargs: Any) -> None:
        for env in self.envs:
            env.close()

    def _adopt_spaces(self) -> None:
        if not self.envs:
            raise InvalidLanes("A vector environment needs at least one env function.")
        first = self.envs[0]
        self.single_action_space = first.action_space
        self.action_space = batch_space(self.single_action_space, len(self.envs))
        spaces = [env.observation_space for env in self.envs]
        alike: Callable[[Any, Any], bool]
        if isinstance(self.observation_mode, tuple):
            self.observation_space, self.single_observation_space = self.observation_mode
            alike = is_space_dtype_shape_equiv
        elif self.observation_mode == "same":
            self.single_observation_space = first.observation_space
            self.observation_space = batch_space(first.observation_space, len(self.envs))
            alike = operator.eq
        elif self.observation_mode == "different":
            self.single_observation_space = first.observation_space
            self.observation_space = batch_differing_spaces(spaces)
            alike = is_space_dtype_shape_equiv
        else:
            raise InvalidLanes(f"observation_mode={self.observation_mode!r}; expected 'same', 'different' or a pair.")
        for lane, env in enumerate(self.envs):
            if env.action_space != self.single_action_space:
                raise InvalidLanes(f"lane {lane}: action space {env.action_space} is not {self.single_action_space}.")
            if not alike(env.observation_space, self.single_observation_space):
                raise InvalidLanes(
                    f"lane {lane}: observation space {env.observation_space} does not fit "
                    f"{self.single_observation_space} (observation_mode={self.observation_mode!r})."
                )
