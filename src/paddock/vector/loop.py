"""SyncVectorEnv: lanes stepped one after the other in this process. Lane i behaves exactly as that one env would."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.state import State, state
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.errors import InvalidAction, InvalidSpace, PaddockError, ResetNeeded
from paddock.seeding import to_seed
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
        self._actions: Any = None

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> tuple[Any, Info]:
        seeds = self._lane_seeds(seed)
        mask, options = self._reset_mask(options)
        infos: Info = {}
        for lane in np.flatnonzero(mask):
            self._lane_obs[lane], info = self.envs[lane].reset(seed=seeds[lane], options=options)
            infos = self._add_info(infos, info, int(lane))
        self._terminations[mask] = self._truncations[mask] = self._ended[mask] = False
        self._rewards[mask] = 0.0
        return self._batched_obs(), infos

    def send(self, actions: Any) -> None:
        self._actions = list(self._lane_actions(actions))

    def recv(self) -> tuple[Any, Array, Array, Array, Info]:
        if self._actions is None:
            raise PaddockError("recv() has no step to bring back. Call send(actions) first.")
        actions, self._actions = self._actions, None
        infos: Info = {}
        for lane, action in enumerate(actions):
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
            raise ResetNeeded(f"lane {lane}: the episode has ended. reset(options={{'reset_mask': mask}}) begins anew.")
        else:
            obs, reward, terminated, truncated, info = env.step(action)  # type: ignore[assignment]
        ended = bool(terminated or truncated)
        if ended and self.autoreset_mode is AutoresetMode.SAME_STEP:
            infos = self._add_info(infos, {"final_obs": obs, "final_info": info}, lane)
            obs, info = env.reset()
            ended = False
        self._lane_obs[lane], self._rewards[lane], self._ended[lane] = obs, reward, ended
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

    def _lane_seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, (list, tuple, np.ndarray)):
            if len(seed) != self.num_envs:
                raise InvalidSpace(
                    f"If seeds are passed as a list the length must match num_envs={self.num_envs} "
                    f"but got length={len(seed)}."
                )
            return [None if one is None else to_seed(one) for one in seed]
        first = to_seed(seed)
        return [first + lane for lane in range(self.num_envs)]

    def _reset_mask(self, options: Info | None) -> tuple[Array, Info | None]:
        """The lanes to reset and the options for them; the caller's dict stays as it is."""
        if options is None or "reset_mask" not in options:
            return np.ones(self.num_envs, dtype=np.bool_), options
        mask = options["reset_mask"]
        if not isinstance(mask, np.ndarray) or mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            raise InvalidSpace(f"options['reset_mask'] is {mask!r}; expected a bool array of shape ({self.num_envs},).")
        if not mask.any():
            raise InvalidSpace("options['reset_mask'] names no lane; expected at least one True.")
        if any(obs is None for lane, obs in enumerate(self._lane_obs) if not mask[lane]):
            raise ResetNeeded("The first reset must begin every lane; options['reset_mask'] leaves some out.")
        return mask, {key: value for key, value in options.items() if key != "reset_mask"}

    def render(self) -> tuple[Any, ...]:
        return tuple(env.render() for env in self.envs)

    def state(self) -> tuple[State, ...]:
        return tuple(state(env) for env in self.envs)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Each lane's attribute, called with the arguments if it is callable."""
        found = (env.get_wrapper_attr(name) for env in self.envs)
        return tuple(value(*args, **kwargs) if callable(value) else value for value in found)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Each lane's attribute."""
        return self.call(name)

    def set_attr(self, name: str, values: list[Any] | tuple[Any, ...] | Any) -> None:
        """Set an attribute in every lane: one value for all, or a list or tuple with one a lane."""
        if not isinstance(values, (list, tuple)):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise InvalidSpace(f"{len(values)} values for {self.num_envs} lanes. Pass one value, or one a lane.")
        for env, value in zip(self.envs, values, strict=True):
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
            raise InvalidSpace("A vector environment needs at least one env function.")
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
            raise InvalidSpace(f"observation_mode={self.observation_mode!r}; expected 'same', 'different' or a pair.")
        for lane, env in enumerate(self.envs):
            if env.action_space != self.single_action_space:
                raise InvalidSpace(f"lane {lane}: action space {env.action_space} is not {self.single_action_space}.")
            if not alike(env.observation_space, self.single_observation_space):
                raise InvalidSpace(
                    f"lane {lane}: observation space {env.observation_space} does not fit "
                    f"{self.single_observation_space} (observation_mode={self.observation_mode!r})."
                )
