"""The time of an episode as a part of its observations: a limit on steps is no secret that the agent must guess.

Time counts the steps taken: 0 in the first observation, ``max_timesteps`` in the last of an episode cut off there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.wrapper import Wrapper
from paddock.errors import InvalidLanes, InvalidSpace, InvalidSpec
from paddock.spaces import Box, Dict, Space, Tuple
from paddock.spaces.flatten import flatten, flatten_space
from paddock.wrappers.logic import First, Lanes, Logic, Step, Wrapped
from paddock.wrappers.memory import Memory
from paddock.wrappers.one_lane import OneLaneObservation
from paddock.wrappers.rows import gather, members
from paddock.wrappers.shown import of_logic, of_memory
from paddock.wrappers.time_limit import TimeLimit


class ClockMemory(Memory):
    """Steps taken in the episode (of each lane), the most there can be, and how to join time and observation."""

    timesteps: Any
    _limit: int
    _dtype: Any  # of the time
    _kind: type  # of the environment's observation space
    _whole: Space[Any]  # observation and time, not flat
    _flat_box: tuple[int, Any] | None  # size and dtype, if a Box is to be flat


@dataclass(frozen=True)
class WithTime(Logic):
    """A Dict gets the key ``dict_time_key``, a Tuple a last element, all else becomes a Dict of "obs" and "time"."""

    flatten: bool = True
    normalize_time: bool = False
    dict_time_key: str = "time"
    forgets = True

    def observation_space(self, wrapped: Wrapped) -> Space[Any]:
        whole = self._with_clock(wrapped.observation_space, _limit(wrapped))
        return flatten_space(whole) if self.flatten else whole

    def memory(self, wrapped: Wrapped) -> Any:
        space, lanes, limit = wrapped.observation_space, wrapped.lanes, _limit(wrapped)
        whole = self._with_clock(space, limit)
        flat = flatten_space(whole) if self.flatten and isinstance(space, Box) else None
        return ClockMemory(
            timesteps=0 if lanes is None else np.zeros(lanes, np.int64),
            _limit=limit,
            _dtype=np.float32 if self.normalize_time else np.int32,
            _kind=next((kind for kind in (Dict, Tuple) if isinstance(space, kind)), Space),
            _whole=whole,
            _flat_box=None if flat is None else (flat.shape[0], flat.dtype),  # type: ignore[index]
        )

    def _with_clock(self, space: Space[Any], limit: int) -> Space[Any]:
        clock = Box(0.0, 1.0) if self.normalize_time else Box(0, limit, dtype=np.int32)
        if isinstance(space, Dict):
            if self.dict_time_key in space.spaces:
                raise InvalidSpace(
                    f"The `dict_time_key` ({self.dict_time_key!r}) already exists in the observation space. Rename it."
                )
            return Dict({self.dict_time_key: clock, **space.spaces}, sort_keys=space.sort_keys)
        if isinstance(space, Tuple):
            return Tuple((*space.spaces, clock))
        return Dict(obs=space, time=clock)

    def begin(self, memory: Any, lanes: Lanes, first: First) -> First:
        if lanes is None:
            memory.timesteps = 0
        else:
            memory.timesteps[lanes] = 0
        return self.timed(memory, lanes, first[0]), first[1]

    def advance(self, memory: Any, lanes: Lanes, step: Step) -> Step:
        if lanes is None:
            memory.timesteps += 1
        else:
            memory.timesteps[lanes] += 1
        return self.timed(memory, lanes, step[0]), *step[1:]

    def timed(self, memory: Any, lanes: Lanes, observation: Any) -> Any:
        """The observation with the time; of rows, each with its lane's. Hot."""
        time = memory.timesteps if lanes is None else memory.timesteps[lanes]
        if self.normalize_time:
            time = time / memory._limit
        if memory._flat_box is not None:
            return _flat(memory, observation, time, lanes)
        time = np.array([time], memory._dtype)
        if lanes is not None:
            time = time.T
        if memory._kind is Tuple:
            whole: Any = (*observation, time)
        elif memory._kind is Dict:
            whole = {self.dict_time_key: time, **observation}
        else:
            whole = {"obs": observation, "time": time}
        return self._flattened(memory, lanes, whole) if self.flatten else whole

    def _flattened(self, memory: Any, lanes: Lanes, whole: Any) -> Any:
        space = memory._whole
        if lanes is None:
            return flatten(space, whole)
        count = len(memory.timesteps[lanes])
        return gather(flatten_space(space), [flatten(space, one) for one in members(space, whole, count)])


def _flat(memory: Any, observation: Any, time: Any, lanes: Lanes) -> np.ndarray[Any, Any]:
    """What ``flatten`` gives of a Box and the time after it, in a fraction of its time."""
    size, dtype = memory._flat_box
    if memory._dtype is np.float32:
        time = np.float32(time)
    if lanes is None:
        one: np.ndarray[Any, Any] = np.empty(size, dtype)
        one[:-1] = np.ravel(observation)
        one[-1] = time
        return one
    rows: np.ndarray[Any, Any] = np.empty((len(observation), size), dtype)
    rows[:, :-1] = observation.reshape(len(observation), -1)
    rows[:, -1] = time
    return rows


def _limit(wrapped: Wrapped) -> int:
    spec = wrapped.env.spec
    if spec is not None and spec.max_episode_steps is not None:
        return int(spec.max_episode_steps)
    found = {_limit_of(wrapped.env)} if wrapped.lanes is None else _limits_of_lanes(wrapped.env)
    if None in found:
        raise InvalidSpec(
            "The environment must be wrapped by a TimeLimit wrapper or the spec specify a `max_episode_steps`. "
            "Make it with max_episode_steps=N."
        )
    if len(found) > 1:
        raise InvalidLanes(f"The lanes have different time limits, {sorted(found)}; expected the same in all.")  # type: ignore[type-var]
    return int(found.pop())  # type: ignore[arg-type]


def _limit_of(env: Env[Any, Any]) -> int | None:
    while isinstance(env, Wrapper):
        if isinstance(env, TimeLimit):  # true of a Guard that limits time, too
            return env._max_episode_steps
        env = env.env
    return None


def _limits_of_lanes(env: Any) -> set[int | None]:
    lanes = getattr(env.unwrapped, "envs", None)
    if lanes is not None:
        return {_limit_of(lane) for lane in lanes}
    try:
        return set(env.get_attr("_max_episode_steps"))
    except AttributeError:
        return {None}


class TimeAwareObservation(OneLaneObservation):
    """Observations with the number of steps taken, as it is or as a share of ``max_timesteps``; flat by default."""

    flatten: bool = of_logic()
    normalize_time: bool = of_logic()
    max_timesteps: int = of_memory("_limit")
    timesteps: int = of_memory()

    _logic: WithTime

    def __init__(
        self, env: Env[Any, Any], flatten: bool = True, normalize_time: bool = False, *, dict_time_key: str = "time"
    ) -> None:
        super().__init__(env, WithTime(flatten, normalize_time, dict_time_key))

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._memory.timesteps = 0
        return self.observation(observation), info

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._memory.timesteps += 1  # not before: an action that is refused takes no time
        return self.observation(observation), reward, terminated, truncated, info

    def observation(self, observation: Any) -> Any:
        return self._logic.timed(self._memory, None, observation)
