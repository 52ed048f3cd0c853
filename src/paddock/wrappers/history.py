"""Observations that depend on the episode so far: stacked frames, delayed ones, and the time that has passed.

What the agent sees is its own to keep and change, so each step makes a new array.
"""

from __future__ import annotations

import math
from collections import deque
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.wrapper import Wrapper, forwarded
from paddock.errors import InvalidBound, InvalidLanes, InvalidSpace, InvalidSpec
from paddock.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from paddock.spaces.batch import batch_space, concatenate, create_empty_array, create_zero_array
from paddock.spaces.flatten import flatten, flatten_space
from paddock.wrappers.guard import TimeLimit
from paddock.wrappers.logic import First, Lanes, Logic, Memory, OneLane, OneLaneObservation, Step, Wrapped
from paddock.wrappers.many_lanes import gather, split

_ARRAYS = (Box, Discrete, MultiDiscrete, MultiBinary)


@dataclass(frozen=True)
class FrameStack(Logic):
    """The last ``stack_size`` observations as one, padded while the episode is younger than that.

    ``padding_type``: "reset" pads with the first observation, "zero" with zeros, a member of the space with itself.
    """

    stack_size: int
    padding_type: Any = "reset"
    forgets = True

    def __post_init__(self) -> None:
        if not isinstance(self.stack_size, (int, np.integer)) or isinstance(self.stack_size, bool):
            raise InvalidSpace(f"The stack_size is expected to be an integer, actual type: {type(self.stack_size)}")
        if self.stack_size < 1:
            raise InvalidSpace(f"The stack_size needs to be greater than zero, actual value: {self.stack_size}")

    def observation_space(self, wrapped: Wrapped) -> Space[Any]:
        return batch_space(wrapped.observation_space, self.stack_size)

    def batched(self, wrapped: Wrapped) -> bool:
        return isinstance(wrapped.observation_space, _ARRAYS)

    def memory(self, wrapped: Wrapped) -> Any:
        space, lanes, size = wrapped.observation_space, wrapped.lanes, self.stack_size
        if isinstance(self.padding_type, str) and self.padding_type in ("reset", "zero"):
            kind, value = self.padding_type, create_zero_array(space)
        elif self.padding_type in space:
            kind, value = "_custom", self.padding_type
        else:
            raise InvalidSpace(
                "Unexpected `padding_type`, expected 'reset', 'zero' or a custom observation space, actual value: "
                f"{self.padding_type!r} not an instance of env observation ({space})"
            )
        if not isinstance(space, _ARRAYS):
            return QueueMemory(
                padding_type=kind, padding_value=value, _space=space, obs_queue=deque([value] * size, size)
            )
        leading = (2 * size,) if lanes is None else (lanes, size)
        frames = np.zeros((*leading, *space.shape), space.dtype)
        frames[:] = value
        if lanes is None:
            return RingMemory(padding_type=kind, padding_value=value, ring=frames, at=0)
        return StackMemory(padding_type=kind, padding_value=value, frames=frames)

    def begin(self, memory: Any, lanes: Lanes, first: First) -> First:
        observation, info = first
        padding = observation if memory.padding_type == "reset" else memory.padding_value
        if lanes is not None:
            rows = np.empty((len(observation), *memory.frames.shape[1:]), memory.frames.dtype)
            rows[:, :-1] = padding[:, None] if padding is observation else padding
            rows[:, -1] = observation
            memory.frames[lanes] = rows
            return rows, info
        if type(memory) is RingMemory:
            memory.ring[:] = padding
            return memory.push(observation), info
        return memory.push(observation, *[padding] * (self.stack_size - 1)), info

    def advance(self, memory: Any, lanes: Lanes, step: Step) -> Step:
        observation, reward, terminated, truncated, info = step
        if lanes is None:
            return memory.push(observation), reward, terminated, truncated, info
        frames = memory.frames
        rows = np.empty((len(observation), *frames.shape[1:]), frames.dtype)
        rows[:, :-1] = frames[:, 1:] if isinstance(lanes, slice) else frames[:, 1:].take(lanes, 0)
        rows[:, -1] = observation
        frames[lanes] = rows
        return rows, reward, terminated, truncated, info


class StackMemory(Memory):
    """The stack of each lane: [n, stack_size, …]."""


class RingMemory(Memory):
    """The frames of one lane, written twice, ``stack_size`` apart: wherever the oldest is, a stack is one slice."""

    ring: np.ndarray[Any, Any]
    at: int

    def push(self, observation: Any) -> np.ndarray[Any, Any]:
        """Add a frame and return the stack, oldest first, as an array of its own."""
        ring, at = self.ring, self.at
        size = len(ring) >> 1
        ring[at] = ring[at + size] = observation
        self.at = at = (at + 1) % size
        stack: np.ndarray[Any, Any] = ring[at : at + size].copy()
        return stack

    @property
    def obs_queue(self) -> deque[Any]:
        """The frames, the oldest first."""
        size = len(self.ring) >> 1
        return deque(self.ring[self.at : self.at + size], size)


class QueueMemory(Memory):
    """The frames of one lane where they are not arrays."""

    obs_queue: deque[Any]
    _space: Space[Any]

    def push(self, observation: Any, *padding: Any) -> Any:
        """Add the padding and a frame, and return the stack, oldest first, as a value of its own."""
        self.obs_queue.extend((*padding, deepcopy(observation)))
        return deepcopy(
            concatenate(self._space, self.obs_queue, create_empty_array(self._space, n=len(self.obs_queue)))
        )


class FrameStackObservation(OneLane):
    """The last ``stack_size`` observations as one; ``padding_type`` says what comes before the first."""

    stack_size: int = forwarded("_logic", "stack_size")
    padding_type: str = forwarded("_memory", "padding_type")
    padding_value: Any = forwarded("_memory", "padding_value")
    obs_queue: deque[Any] = forwarded("_memory", "obs_queue")

    def __init__(self, env: Env[Any, Any], stack_size: int, *, padding_type: Any = "reset") -> None:
        super().__init__(env, FrameStack(stack_size, padding_type))


class DelayMemory(Memory):
    """The observations that have not arrived yet: a queue of one lane, or one per lane."""

    observation_queue: deque[Any] | tuple[deque[Any], ...]
    _space: Space[Any]


class DelayRows(Memory):
    """The same for n lanes as one array: [n, delay, …].

    Slot ``at[i]`` has lane i's next observation to arrive, and its newest one goes there.
    """

    late: np.ndarray[Any, Any]
    at: np.ndarray[Any, Any]
    _zero: Any
    _every: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Delay(Logic):
    """Each observation arrives ``delay`` steps late. Until the first one arrives, the agent sees the space's zero.

    ``begin`` and ``advance`` are for n lanes: the wrapper of one lane has its own steps, around ``send_one``.
    """

    delay: int
    forgets = True

    def __post_init__(self) -> None:
        if not isinstance(self.delay, (int, np.integer)) or isinstance(self.delay, bool):
            raise InvalidBound(f"The delay is expected to be an integer, actual type: {type(self.delay)}")
        if self.delay < 0:
            raise InvalidBound(f"The delay needs to be greater than zero, actual value: {self.delay}")
        object.__setattr__(self, "delay", int(self.delay))  # a NumPy integer has no JSON form

    def memory(self, wrapped: Wrapped) -> Any:
        space, lanes = wrapped.observation_space, wrapped.lanes
        if lanes is None:
            return DelayMemory(observation_queue=deque(), _space=space)
        if not isinstance(space, _ARRAYS):
            return DelayMemory(observation_queue=tuple(deque() for _ in range(lanes)), _space=space)
        late = np.zeros((lanes, self.delay, *space.shape), space.dtype)
        every, at = np.arange(lanes), np.zeros(lanes, np.intp)
        return DelayRows(late=late, at=at, _zero=create_zero_array(space), _every=every)

    def begin(self, memory: Any, lanes: Lanes, first: First) -> First:
        if type(memory) is DelayRows:
            memory.late[lanes] = memory._zero
        else:
            for queue in _queues(memory, lanes):
                queue.clear()
        return self.send(memory, lanes, first[0]), first[1]

    def advance(self, memory: Any, lanes: Lanes, step: Step) -> Step:
        return self.send(memory, lanes, step[0]), *step[1:]

    def send(self, memory: Any, lanes: Lanes, observation: Any) -> Any:
        """Send this observation on its way and return the one that arrives now."""
        if not self.delay:
            return observation
        if type(memory) is not DelayRows:
            queues, space = _queues(memory, lanes), memory._space
            each = zip(queues, split(space, observation, len(queues)), strict=True)
            return gather(space, [self.send_one(queue, space, one) for queue, one in each])
        here, slots = memory._every[lanes], memory.at[lanes]
        arriving = memory.late[here, slots]
        memory.late[here, slots] = observation
        memory.at[lanes] = (slots + 1) % self.delay
        return arriving

    def send_one(self, queue: deque[Any], space: Space[Any], observation: Any) -> Any:
        """The same for one lane."""
        # Not copied: an environment must not write to an observation that it has returned, which check_env checks.
        queue.append(observation)
        return queue.popleft() if len(queue) > self.delay else create_zero_array(space)


def _queues(memory: Any, lanes: Any) -> tuple[deque[Any], ...]:
    queues: tuple[deque[Any], ...] = memory.observation_queue
    return queues[lanes] if isinstance(lanes, slice) else tuple(queues[lane] for lane in lanes.tolist())


class DelayObservation(OneLaneObservation):
    """The agent sees each observation ``delay`` steps late, and zeros before the first."""

    delay: int = forwarded("_logic", "delay")
    observation_queue: deque[Any] = forwarded("_memory", "observation_queue")

    _logic: Delay

    def __init__(self, env: Env[Any, Any], delay: int) -> None:
        super().__init__(env, Delay(delay))
        hooked = type(self).observation is not DelayObservation.observation
        self._full = math.inf if hooked else self._logic.delay  # a queue of this length gives one for each it gets

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        self._memory.observation_queue.clear()
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        queue = self._memory.observation_queue
        if len(queue) < self._full:
            return self.observation(observation), reward, terminated, truncated, info
        queue.append(observation)  # what `observation` does, without its frame, which would take longer than the rest
        return queue.popleft(), reward, terminated, truncated, info

    def observation(self, observation: Any) -> Any:
        return self._logic.send_one(self._memory.observation_queue, self.observation_space, observation)


class ClockMemory(Memory):
    """Steps taken in the episode (per lane), the most there can be, and how to join time and observation."""

    timesteps: Any
    _limit: int
    _dtype: Any  # of the time
    _kind: type  # of the environment's observation space
    _whole: Space[Any]  # observation and time, not flat
    _flat_box: tuple[int, Any] | None  # size and dtype, if a Box is to be flat


@dataclass(frozen=True)
class WithTime(Logic):
    """Adds the steps taken to the observation: 0 in the first one, the limit in the last of a truncated episode.

    A Dict gets the key ``dict_time_key``, a Tuple a last element, all else becomes a Dict of "obs" and "time".
    ``begin`` and ``advance`` are for n lanes: the wrapper of one lane counts its own steps.
    """

    flatten: bool = True
    normalize_time: bool = False
    dict_time_key: str = "time"
    forgets = True

    def observation_space(self, wrapped: Wrapped) -> Space[Any]:
        whole = self._add_clock(wrapped.observation_space, _limit(wrapped))
        return flatten_space(whole) if self.flatten else whole

    def memory(self, wrapped: Wrapped) -> Any:
        space, lanes, limit = wrapped.observation_space, wrapped.lanes, _limit(wrapped)
        whole = self._add_clock(space, limit)
        flat = flatten_space(whole) if self.flatten and isinstance(space, Box) else None
        return ClockMemory(
            timesteps=0 if lanes is None else np.zeros(lanes, np.int64),
            _limit=limit,
            _dtype=np.float32 if self.normalize_time else np.int32,
            _kind=next((kind for kind in (Dict, Tuple) if isinstance(space, kind)), Space),
            _whole=whole,
            _flat_box=None if flat is None else (flat.shape[0], flat.dtype),  # type: ignore[index]
        )

    def _add_clock(self, space: Space[Any], limit: int) -> Space[Any]:
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
        memory.timesteps[lanes] = 0
        return self.add_time(memory, lanes, first[0]), first[1]

    def advance(self, memory: Any, lanes: Lanes, step: Step) -> Step:
        memory.timesteps[lanes] += 1
        return self.add_time(memory, lanes, step[0]), *step[1:]

    def add_time(self, memory: Any, lanes: Lanes, observation: Any) -> Any:
        """Add the time to an observation, or to each row its lane's time. Hot."""
        time = memory.timesteps if lanes is None else memory.timesteps[lanes]
        if self.normalize_time:
            time = time / memory._limit
        if memory._flat_box is not None:
            return _flatten_box(memory, observation, time, lanes)
        time = np.array([time], memory._dtype)
        if lanes is not None:
            time = time.T
        if memory._kind is Tuple:
            whole: Any = (*observation, time)
        elif memory._kind is Dict:
            whole = {self.dict_time_key: time, **observation}
        else:
            whole = {"obs": observation, "time": time}
        if not self.flatten:
            return whole
        space = memory._whole
        if lanes is None:
            return flatten(space, whole)
        count = len(memory.timesteps[lanes])
        return gather(flatten_space(space), [flatten(space, one) for one in split(space, whole, count)])


def _flatten_box(memory: Any, observation: Any, time: Any, lanes: Lanes) -> np.ndarray[Any, Any]:
    """What ``flatten`` makes of a Box and the time after it, in a fraction of its time."""
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
    found: set[int | None]
    if wrapped.lanes is None:
        found = {_limit_of(wrapped.env)}
    elif (lanes := getattr(wrapped.env.unwrapped, "envs", None)) is not None:
        found = {_limit_of(lane) for lane in lanes}
    else:
        try:
            found = set(wrapped.env.get_attr("_max_episode_steps"))
        except AttributeError:
            found = {None}
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


class TimeAwareObservation(OneLaneObservation):
    """Observations with the number of steps taken, as is or as a share of ``max_timesteps``; flat by default."""

    flatten: bool = forwarded("_logic", "flatten")
    normalize_time: bool = forwarded("_logic", "normalize_time")
    max_timesteps: int = forwarded("_memory", "_limit")
    timesteps: int = forwarded("_memory", "timesteps")

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
        return self._logic.add_time(self._memory, None, observation)
