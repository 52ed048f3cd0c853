"""Actions changed on their way in: by a function, clipped to the Box, or now and then the last one again.

StickyAction draws from the environment's own random stream, as in Gymnasium, so a seed decides its draws too.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import InitVar, dataclass, field
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import Env, Info
from paddock.errors import InvalidBound, InvalidProbability, InvalidSpace
from paddock.spaces import Box, Space
from paddock.spaces.batch import create_empty_array
from paddock.wrappers.lanes import Lanes, copy_batch, draw_in_lanes, put, take
from paddock.wrappers.logic import ActionMap, First, Logic, Memory, Wrapped, func_of, of_logic, of_memory
from paddock.wrappers.one_lane import OneLaneAction

Array = np.ndarray[Any, Any]
Duration = int | tuple[int, int]


@dataclass(frozen=True)
class Transform(ActionMap):
    """``func`` of one lane's action, a member of ``offered``; None: the space stays as it is."""

    func: Callable[[Any], Any]
    offered: Space[Any] | None
    space: InitVar[Space[Any]]

    def __post_init__(self, space: Space[Any]) -> None:
        self._set_spaces(space if self.offered is None else self.offered, space)

    def one(self, value: Any) -> Any:
        return self.func(value)


@dataclass(frozen=True)
class Clip(ActionMap):
    """Any action of the Box's shape, moved into its bounds."""

    low: Array = field(init=False, repr=False, compare=False)
    high: Array = field(init=False, repr=False, compare=False)
    space: InitVar[Space[Any]]

    def __post_init__(self, space: Space[Any]) -> None:
        if not isinstance(space, Box):
            raise InvalidSpace(f"ClipAction requires a Box action space, got {type(space)}")
        offered = Box(-np.inf, np.inf, space.shape, space.dtype)
        self._set_spaces(offered, space, low=space.low, high=space.high)

    def one(self, value: Any) -> Any:
        return np.minimum(np.maximum(value, self.low), self.high)  # np.clip's answer, in half its time

    def rows(self, values: Any) -> Any:
        return self.one(values)


class TransformAction(OneLaneAction):
    """The environment gets ``func(action)``; the agent may do ``action_space`` (None: the environment's)."""

    func: Callable[[Any], Any] = func_of("action")
    _shortcut: Callable[[Any], Any]

    def __init__(self, env: Env[Any, Any], func: Callable[[Any], Any], action_space: Space[Any] | None) -> None:
        self._record_arguments(func=func, action_space=action_space)
        self._use(env, Transform(func, action_space, env.action_space))
        self.func = func

    def _use(self, env: Env[Any, Any], logic: ActionMap) -> None:
        OneLaneAction.__init__(self, env, logic)
        self.func = logic.one

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        return self.env.step(self._shortcut(action))

    def action(self, action: Any) -> Any:
        return self.func(action)


class ClipAction(TransformAction):
    """Moves actions outside the Box to its bounds; the agent sees a Box without bounds."""

    def __init__(self, env: Env[Any, Any]) -> None:
        self._use(env, Clip(env.action_space))


class StickyMemory(Memory):
    """The last action and how long it goes on; for n lanes an array of each."""


@dataclass(frozen=True)
class Sticky(Logic):
    """With this probability an action is the last one, for ``repeat_action_duration`` steps (or a range, drawn)."""

    repeat_action_probability: float
    repeat_action_duration: Duration = 1
    looks = False

    def __post_init__(self) -> None:
        if not 0 <= self.repeat_action_probability < 1:
            raise InvalidProbability(
                "`repeat_action_probability` should be in the interval [0,1). "
                f"Received {self.repeat_action_probability}"
            )
        span = self.repeat_action_duration_range
        if not isinstance(span, tuple) or len(span) != 2 or not all(isinstance(n, (int, np.integer)) for n in span):
            raise InvalidBound(f"`repeat_action_duration` should be an integer or a tuple of two. Received {span}")
        if span[0] > span[1]:
            raise InvalidBound(f"`repeat_action_duration` is not a valid bound. Received {span}")
        if span[0] < 1:
            raise InvalidBound(f"`repeat_action_duration` should be larger or equal than 1. Received {span}")

    @property
    def repeat_action_duration_range(self) -> tuple[int, int]:
        """The shortest and the longest repetition. A list, as in JSON, is as good as a tuple."""
        span: Any = self.repeat_action_duration
        if isinstance(span, (int, np.integer)):
            return int(span), int(span)
        return tuple(span) if isinstance(span, list) else span

    def memory(self, wrapped: Wrapped) -> Any:
        lanes, space = wrapped.lanes, wrapped.action_space
        if lanes is None:
            return StickyMemory(
                _env=wrapped.env, last_action=None, is_sticky_actions=False, num_repeats=0, repeats_taken=0
            )
        return StickyMemory(
            _env=wrapped.env,
            _space=space,
            last_action=create_empty_array(space, n=lanes),
            acted=np.zeros(lanes, np.bool_),
            is_sticky_actions=np.zeros(lanes, np.bool_),
            num_repeats=np.zeros(lanes, np.int64),
            repeats_taken=np.zeros(lanes, np.int64),
        )

    def begin(self, memory: Any, lanes: Lanes, first: First) -> First:
        if lanes is None:
            memory.last_action = None
            memory.is_sticky_actions, memory.num_repeats, memory.repeats_taken = False, 0, 0
        else:
            memory.acted[lanes] = memory.is_sticky_actions[lanes] = False
            memory.num_repeats[lanes] = memory.repeats_taken[lanes] = 0
        return first

    def act(self, memory: Any, lanes: Lanes, action: Any) -> Any:
        if lanes is not None:
            return self._act_in_lanes(memory, np.arange(len(memory.acted))[lanes], action)
        if not memory.is_sticky_actions and memory.last_action is not None:
            memory.num_repeats = self._draw_repeats(memory._env.np_random)
            memory.is_sticky_actions = memory.num_repeats > 0
        if memory.is_sticky_actions:
            action = memory.last_action
            memory.repeats_taken += 1
            if memory.repeats_taken >= memory.num_repeats:
                memory.is_sticky_actions, memory.num_repeats, memory.repeats_taken = False, 0, 0
        memory.last_action = action if isinstance(action, (int, np.generic)) else deepcopy(action)
        return action

    def _draw_repeats(self, random: np.random.Generator) -> int:
        """Draw for how many steps the last action goes on; mostly 0."""
        if random.random() >= self.repeat_action_probability:  # the double that uniform() gives, three times faster
            return 0
        low, high = self.repeat_action_duration_range
        return int(random.integers(low, high + 1))

    def _act_in_lanes(self, memory: Any, lanes: np.ndarray[Any, Any], actions: Any) -> Any:
        free = lanes[memory.acted[lanes] & ~memory.is_sticky_actions[lanes]]
        if len(free):
            memory.num_repeats[free] = draw_in_lanes(memory._env, free.tolist(), self._draw_repeats)
            memory.is_sticky_actions[free] = memory.num_repeats[free] > 0
        space = memory._space
        stuck = memory.is_sticky_actions[lanes]
        if stuck.any():
            here, places = lanes[stuck], np.flatnonzero(stuck)
            actions = put(space, copy_batch(space, actions), places, take(space, memory.last_action, here))
            memory.repeats_taken[here] += 1
            done = here[memory.repeats_taken[here] >= memory.num_repeats[here]]
            memory.is_sticky_actions[done] = False
            memory.num_repeats[done] = memory.repeats_taken[done] = 0
        memory.last_action = put(space, memory.last_action, lanes, actions)
        memory.acted[lanes] = True
        return actions


class StickyAction(OneLaneAction):
    """With a probability the environment gets the last action again, for a number of steps or a range of them."""

    repeat_action_probability: float = of_logic()
    repeat_action_duration_range: tuple[int, int] = of_logic()
    last_action: Any = of_memory()
    is_sticky_actions: bool = of_memory()
    num_repeats: int = of_memory()
    repeats_taken: int = of_memory()

    def __init__(
        self, env: Env[Any, Any], repeat_action_probability: float, repeat_action_duration: Duration = 1
    ) -> None:
        super().__init__(env, Sticky(repeat_action_probability, repeat_action_duration))
