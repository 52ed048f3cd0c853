"""One action for several steps: in a window of steps, seen as one, or now and then again (StickyAction).

A window ends with its episode. Lanes end at different moments: those that are done are held (``VectorEnv.hold``) while
the others finish. StickyAction draws from the environment's own random stream, as in Gymnasium.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.core.wrapper import forwarded
from paddock.errors import InvalidBound, InvalidProbability, InvalidSpace
from paddock.spaces.batch import create_empty_array
from paddock.wrappers.logic import First, Lanes, Logic, Memory, OneLane, OneLaneAction, Step, Wrapped
from paddock.wrappers.many_lanes import (
    ManyLanes,
    any_true,
    copy_batch,
    draw_in_lanes,
    final_rows,
    merge_infos,
    put,
    restarted_lanes,
    take,
    with_final_rows,
)

Array = np.ndarray[Any, Any]
Duration = int | tuple[int, int]


@dataclass(frozen=True)
class Repeat(Logic):
    """``num_repeats`` steps; the observation is the last one."""

    num_repeats: int

    def __post_init__(self) -> None:
        _check_count("num_repeats", self.num_repeats, "one", 1)


@dataclass(frozen=True)
class MaxAndSkip(Logic):
    """``skip`` steps; the observation is, element by element, the larger of the window's last two (or only) ones."""

    skip: int = 4

    def __post_init__(self) -> None:
        _check_count("skip", self.skip, "two", 2)

    def memory(self, wrapped: Wrapped) -> Any:
        if wrapped.observation_space.shape is None:
            raise InvalidSpace(f"The observation space must have the shape attribute: {wrapped.observation_space}.")
        return Memory()  # nothing to remember, but ManyLanes then keeps what the agent saw of held lanes

    def begin(self, memory: Any, lanes: Lanes, first: First) -> First:
        observation, info = first
        return (observation if lanes is None else observation.copy()), info


def _check_count(name: str, value: Any, least_name: str, least: int) -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise InvalidBound(f"The {name} is expected to be an integer, actual type: {type(value)}")
    if value < least:
        raise InvalidBound(f"The {name} value needs to be equal or greater than {least_name}, actual value: {value}")


class WindowOfOneLane(OneLane):
    """``times`` steps with one action: rewards add up, all else is the last step's.

    With ``pools`` the observation is, element by element, the larger of the last two.
    """

    def __init__(self, env: Env[Any, Any], logic: Logic, times: int, pools: bool = False) -> None:
        super().__init__(env, logic)
        self._others, self._pools = range(times - 1), pools

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        step = self.env.step
        observation, reward, terminated, truncated, info = step(action)
        before, total = observation, float(reward)
        for _ in self._others:
            if terminated or truncated:
                break
            before = observation
            observation, reward, terminated, truncated, info = step(action)
            total += float(reward)
        if self._pools:
            observation = np.maximum(before, observation)
        return observation, total, terminated, truncated, info


class WindowOfManyLanes(ManyLanes):
    """The same for n lanes, in each until its episode ends."""

    def __init__(self, env: VectorEnv[Any, Any, Array], logic: Logic, times: int, pools: bool = False) -> None:
        super().__init__(env, logic)
        self._times, self._pools = times, pools
        self._no_lanes = np.zeros(self.num_envs, np.bool_)
        self._tracks = self._mode is AutoresetMode.NEXT_STEP

    def step(self, actions: Any) -> Step:
        held = self._no_lanes if self._held is None else self._held
        begun = self._no_lanes if self._ended is None else self._ended & ~held
        done, terminations, truncations = held, self._no_lanes, self._no_lanes
        total, frames = np.zeros(self.num_envs), _LastTwo()
        infos: Info = {}
        for time in range(1, self._times + 1):
            if time > 1 and any_true(done):
                if done.all():
                    break
                self.env.hold(done)
            observations, rewards, terminated, truncated, latest = self.env.step(actions)
            moved = ~done
            total = total + rewards
            terminations, truncations = terminations | terminated, truncations | truncated
            if self._pools:
                latest = self._add_frame(frames, observations, moved, latest)
            done = done | terminated | truncated | begun
            leaving = moved if time == self._times else moved & done
            if any_true(leaving):
                infos = latest if leaving.all() else merge_infos(infos, latest, leaving)
        if self._pools:
            # A first observation is shown as it is, that of a held lane as it was shown before.
            pooled, first = frames.pool(), frames.restarted | begun
            pooled[first] = observations[first]
            if held.any():
                pooled[held] = self._last_seen[held]
            observations = pooled
        if self._tracks:
            waiting = self._no_lanes if self._ended is None else self._ended & held
            self._ended = terminations | truncations | waiting
        self._held = None
        self._remember(observations)
        return observations, total, terminations, truncations, infos

    def _add_frame(self, frames: _LastTwo, observations: Array, moved: Array, infos: Info) -> Info:
        """Add these observations, the last ones of episodes that ended; infos with pooled ``final_obs``."""
        lanes = restarted_lanes(self._mode, infos)
        latest = observations.copy()
        if len(lanes):
            latest[lanes] = final_rows(self._inner_space, infos, lanes)
        frames.add(latest, moved)
        frames.restarted[lanes] = True
        return with_final_rows(infos, self._inner_space, frames.pool()[lanes], lanes) if len(lanes) else infos


class _LastTwo:
    """The last two observations of each lane within a window; ``restarted``: lanes that have begun again since."""

    before: Array
    last: Array
    restarted: Array

    def add(self, latest: Array, moved: Array) -> None:
        if not hasattr(self, "last"):
            self.before = self.last = latest
            self.restarted = np.zeros(len(moved), np.bool_)
            return
        rows = moved.reshape(-1, *(1,) * (latest.ndim - 1))
        self.before = np.where(rows, self.last, self.before)
        self.last = np.where(rows, latest, self.last)

    def pool(self) -> Array:
        """The larger of the two, element by element; in a window of one, the only one."""
        larger: Array = np.maximum(self.before, self.last)
        return larger


class RepeatAction(WindowOfOneLane):
    """Each action is taken ``num_repeats`` times, or until the episode ends; rewards add up."""

    num_repeats: int = forwarded("_logic", "num_repeats")

    def __init__(self, env: Env[Any, Any], num_repeats: int) -> None:
        super().__init__(env, Repeat(num_repeats), num_repeats)


class MaxAndSkipObservation(WindowOfOneLane):
    """Each action is taken ``skip`` times; the observation is the element-wise maximum of the last two."""

    _skip: int = forwarded("_logic", "skip")

    def __init__(self, env: Env[Any, Any], skip: int = 4) -> None:
        super().__init__(env, MaxAndSkip(skip), skip, pools=True)


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

    repeat_action_probability: float = forwarded("_logic", "repeat_action_probability")
    repeat_action_duration_range: tuple[int, int] = forwarded("_logic", "repeat_action_duration_range")
    last_action: Any = forwarded("_memory", "last_action")
    is_sticky_actions: bool = forwarded("_memory", "is_sticky_actions")
    num_repeats: int = forwarded("_memory", "num_repeats")
    repeats_taken: int = forwarded("_memory", "repeats_taken")

    def __init__(
        self, env: Env[Any, Any], repeat_action_probability: float, repeat_action_duration: Duration = 1
    ) -> None:
        super().__init__(env, Sticky(repeat_action_probability, repeat_action_duration))
