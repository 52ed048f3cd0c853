"""Frame stacking: the last ``stack_size`` observations as one, padded where an episode is younger than that.

A stack is the agent's to keep and change, so each step makes a new one.
"""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.errors import InvalidSpace
from paddock.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space
from paddock.spaces.batch import batch_space, concatenate, create_empty_array
from paddock.wrappers.logic import First, Lanes, Logic, Step, Wrapped
from paddock.wrappers.memory import Memory
from paddock.wrappers.one_lane import OneLane
from paddock.wrappers.shown import of_logic, of_memory
from paddock.wrappers.zero_array import create_zero_array

_ARRAYS = (Box, Discrete, MultiDiscrete, MultiBinary)


@dataclass(frozen=True)
class FrameStack(Logic):
    """``padding_type``: "reset" pads with the first observation, "zero" with zeros, a member of the space with it."""

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
        kind, value = _padding(self.padding_type, space)
        if not isinstance(space, _ARRAYS):
            return QueueMemory(
                padding_type=kind, padding_value=value, _space=space, obs_queue=deque([value] * size, size)
            )
        if lanes is None:
            return RingMemory(padding_type=kind, padding_value=value, ring=_filled((2 * size,), value, space), at=0)
        return StackMemory(padding_type=kind, padding_value=value, frames=_filled((lanes, size), value, space))

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
            return memory.with_frame(observation), info
        return memory.with_frame(observation, *[padding] * (self.stack_size - 1)), info

    def advance(self, memory: Any, lanes: Lanes, step: Step) -> Step:
        observation, reward, terminated, truncated, info = step
        if lanes is None:
            return memory.with_frame(observation), reward, terminated, truncated, info
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

    def with_frame(self, observation: Any) -> np.ndarray[Any, Any]:
        """Add a frame; the stack, oldest first, as an array of its own."""
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
    """The frames of one lane where they are no arrays."""

    obs_queue: deque[Any]
    _space: Space[Any]

    def with_frame(self, observation: Any, *padding: Any) -> Any:
        """Add the padding and a frame; the stack, oldest first, as a value of its own."""
        self.obs_queue.extend((*padding, deepcopy(observation)))
        return deepcopy(
            concatenate(self._space, self.obs_queue, create_empty_array(self._space, n=len(self.obs_queue)))
        )


def _filled(leading: tuple[int, ...], value: Any, space: Space[Any]) -> np.ndarray[Any, Any]:
    filled = np.zeros((*leading, *space.shape), space.dtype)  # type: ignore[misc]
    filled[:] = value
    return filled


def _padding(padding_type: Any, space: Space[Any]) -> tuple[str, Any]:
    if isinstance(padding_type, str) and padding_type in ("reset", "zero"):
        return padding_type, create_zero_array(space)
    if padding_type in space:
        return "_custom", padding_type
    raise InvalidSpace(
        "Unexpected `padding_type`, expected 'reset', 'zero' or a custom observation space, actual value: "
        f"{padding_type!r} not an instance of env observation ({space})"
    )


class FrameStackObservation(OneLane):
    """The last ``stack_size`` observations as one; ``padding_type`` says what stands before the first."""

    stack_size: int = of_logic()
    padding_type: str = of_memory()
    padding_value: Any = of_memory()
    obs_queue: deque[Any] = of_memory()

    def __init__(self, env: Env[Any, Any], stack_size: int, *, padding_type: Any = "reset") -> None:
        super().__init__(env, FrameStack(stack_size, padding_type))
