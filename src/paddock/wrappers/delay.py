"""Observations that arrive ``delay`` steps late. Before the first arrives the agent sees zeros, or what is nearest."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import Env, Info
from paddock.errors import InvalidBound
from paddock.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space
from paddock.wrappers.logic import First, Lanes, Logic, Step, Wrapped
from paddock.wrappers.memory import Memory
from paddock.wrappers.one_lane import OneLaneObservation
from paddock.wrappers.rows import gather, members
from paddock.wrappers.shown import of_logic, of_memory
from paddock.wrappers.zero_array import create_zero_array

_ARRAYS = (Box, Discrete, MultiDiscrete, MultiBinary)


class OnTheWay(Memory):
    """The observations that have not arrived yet: of one lane, or of each."""

    observation_queue: deque[Any] | tuple[deque[Any], ...]
    _space: Space[Any]


class RowsOnTheWay(Memory):
    """The same of n lanes: [n, delay, …]. Lane i's next one to arrive is in slot ``at[i]``, where the new one goes."""

    late: np.ndarray[Any, Any]
    at: np.ndarray[Any, Any]
    _zero: Any
    _every: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Delay(Logic):
    """Each observation arrives ``delay`` steps later."""

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
            return OnTheWay(observation_queue=deque(), _space=space)
        if not isinstance(space, _ARRAYS):
            return OnTheWay(observation_queue=tuple(deque() for _ in range(lanes)), _space=space)
        late = np.zeros((lanes, self.delay, *space.shape), space.dtype)  # type: ignore[misc]
        every, at = np.arange(lanes), np.zeros(lanes, np.intp)
        return RowsOnTheWay(late=late, at=at, _zero=create_zero_array(space), _every=every)

    def begin(self, memory: Any, lanes: Lanes, first: First) -> First:
        if lanes is None:
            memory.observation_queue.clear()
        elif type(memory) is RowsOnTheWay:
            memory.late[lanes] = memory._zero
        else:
            for queue in _queues(memory, lanes):
                queue.clear()
        return self.late(memory, lanes, first[0]), first[1]

    def advance(self, memory: Any, lanes: Lanes, step: Step) -> Step:
        return self.late(memory, lanes, step[0]), *step[1:]

    def late(self, memory: Any, lanes: Lanes, observation: Any) -> Any:
        """What arrives now, as this observation sets out."""
        if not self.delay:
            return observation
        if lanes is None:
            return self._sent(memory.observation_queue, memory._space, observation)
        if type(memory) is RowsOnTheWay:
            return self._sent_rows(memory, lanes, observation)
        queues, space = _queues(memory, lanes), memory._space
        each = zip(queues, members(space, observation, len(queues)), strict=True)
        return gather(space, [self._sent(queue, space, one) for queue, one in each])

    def _sent(self, queue: deque[Any], space: Space[Any], observation: Any) -> Any:
        # Not copied: an observation that was handed out is not written to again, which check_env watches.
        queue.append(observation)
        return queue.popleft() if len(queue) > self.delay else create_zero_array(space)

    def _sent_rows(self, memory: Any, lanes: Any, rows: Any) -> Any:
        here, slots = memory._every[lanes], memory.at[lanes]
        arriving = memory.late[here, slots]
        memory.late[here, slots] = rows
        memory.at[lanes] = (slots + 1) % self.delay
        return arriving


def _queues(memory: Any, lanes: Any) -> tuple[deque[Any], ...]:
    queues: tuple[deque[Any], ...] = memory.observation_queue
    return queues[lanes] if isinstance(lanes, slice) else tuple(queues[lane] for lane in lanes.tolist())


class DelayObservation(OneLaneObservation):
    """The agent sees what was so ``delay`` steps ago, and zeros before that."""

    delay: int = of_logic()
    observation_queue: deque[Any] = of_memory()

    _logic: Delay

    def __init__(self, env: Env[Any, Any], delay: int) -> None:
        super().__init__(env, Delay(delay))
        hooked = type(self).observation is not DelayObservation.observation
        self._full = math.inf if hooked else self._logic.delay  # a queue so long has one to give for one it gets

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        self._memory.observation_queue.clear()
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        queue = self._memory.observation_queue
        if len(queue) < self._full:
            return self.observation(observation), reward, terminated, truncated, info
        queue.append(observation)  # `observation`, without its frame: that would take longer than the rest
        return queue.popleft(), reward, terminated, truncated, info

    def observation(self, observation: Any) -> Any:
        queue = self._memory.observation_queue
        queue.append(observation)
        return queue.popleft() if len(queue) > self._logic.delay else create_zero_array(self.observation_space)
