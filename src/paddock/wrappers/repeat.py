"""One action for several steps of the environment, seen as one step. A window of steps ends with its episode.

Lanes end at different moments: those that are done are held (``VectorEnv.hold``) while the others finish.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.errors import InvalidBound, InvalidSpace
from paddock.wrappers.logic import First, Lanes, Logic, Step, Wrapped
from paddock.wrappers.many_lanes import ManyLanes
from paddock.wrappers.memory import Memory
from paddock.wrappers.one_lane import OneLane
from paddock.wrappers.rows import some
from paddock.wrappers.shown import of_logic
from paddock.wrappers.told import joined

Array = np.ndarray[Any, Any]


class Window(Logic):
    """``times`` steps with one action: rewards add up, all else is the last step's. ``pools``: so are observations."""

    times: int
    pools = False


@dataclass(frozen=True)
class Repeat(Window):
    """``num_repeats`` steps; the observation is the last one."""

    num_repeats: int

    def __post_init__(self) -> None:
        _check_count("num_repeats", self.num_repeats, "one", 1)

    @property
    def times(self) -> int:  # type: ignore[override]
        """Steps in a window."""
        return self.num_repeats


@dataclass(frozen=True)
class MaxAndSkip(Window):
    """``skip`` steps; the observation is, element by element, the larger of the window's last two (or only) ones."""

    skip: int = 4
    pools = True

    def __post_init__(self) -> None:
        _check_count("skip", self.skip, "two", 2)

    @property
    def times(self) -> int:  # type: ignore[override]
        """Steps in a window."""
        return self.skip

    def memory(self, wrapped: Wrapped) -> Any:
        if wrapped.observation_space.shape is None:
            raise InvalidSpace(f"The observation space must have the shape attribute: {wrapped.observation_space}.")
        return Memory()  # nothing to keep, but of lanes that are left alone it matters what was seen

    def begin(self, memory: Any, lanes: Lanes, first: First) -> First:
        observation, info = first
        return (observation if lanes is None else observation.copy()), info


def _check_count(name: str, value: Any, least_name: str, least: int) -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise InvalidBound(f"The {name} is expected to be an integer, actual type: {type(value)}")
    if value < least:
        raise InvalidBound(f"The {name} value needs to be equal or greater than {least_name}, actual value: {value}")


class WindowOfOneLane(OneLane):
    """A window of steps of one environment."""

    def __init__(self, env: Env[Any, Any], window: Window) -> None:
        super().__init__(env, window)
        self._others, self._pools = range(window.times - 1), window.pools

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
    """A window of steps of n lanes, in each as long as its episode lets it be."""

    _logic: Window

    def __init__(self, env: VectorEnv[Any, Any, Array], window: Window) -> None:
        super().__init__(env, window)
        self._nobody = np.zeros(self.num_envs, np.bool_)
        self._tracks = self._mode is AutoresetMode.NEXT_STEP

    def step(self, actions: Any) -> Step:
        held = self._nobody if self._held is None else self._held
        begun = self._nobody if self._ended is None else self._ended & ~held
        done, terminations, truncations = held, self._nobody, self._nobody
        total, frames = np.zeros(self.num_envs), _LastTwo()
        infos: Info = {}
        for time in range(1, self._logic.times + 1):
            if time > 1 and some(done):
                if done.all():
                    break
                self.env.hold(done)
            observations, rewards, terminated, truncated, told = self.env.step(actions)
            moved = ~done
            total = total + rewards
            terminations, truncations = terminations | terminated, truncations | truncated
            if self._logic.pools:
                told = self._with_frame(frames, observations, moved, told)
            done = done | terminated | truncated | begun
            leaving = moved if time == self._logic.times else moved & done
            if some(leaving):
                infos = told if leaving.all() else joined(infos, told, leaving)
        if self._logic.pools:
            observations = self._pooled(frames, observations, begun, held)
        if self._tracks:
            waiting = self._nobody if self._ended is None else self._ended & held
            self._ended = terminations | truncations | waiting
        self._held = None
        self._remember(observations)
        return observations, total, terminations, truncations, infos

    def _with_frame(self, frames: _LastTwo, observations: Array, moved: Array, told: Info) -> Info:
        lanes = self._began_again(told)
        latest = observations.copy()
        if len(lanes):
            latest[lanes] = self._last_of(told, lanes)
        frames.add(latest, moved)
        frames.fresh[lanes] = True
        return {**told, "final_obs": self._as_finals(frames.pooled()[lanes], lanes)} if len(lanes) else told

    def _pooled(self, frames: _LastTwo, observations: Array, begun: Array, held: Array) -> Array:
        # A first observation is shown as it is, one that the lane was held at as it was shown before.
        seen = frames.pooled()
        first = frames.fresh | begun
        seen[first] = observations[first]
        if held.any():
            seen[held] = self._seen[held]
        return seen


class _LastTwo:
    """The last two observations of each lane within a window; ``fresh``: lanes that have begun anew since."""

    before: Array
    last: Array
    fresh: Array

    def add(self, latest: Array, moved: Array) -> None:
        if not hasattr(self, "last"):
            self.before = self.last = latest
            self.fresh = np.zeros(len(moved), np.bool_)
            return
        rows = moved.reshape(-1, *(1,) * (latest.ndim - 1))
        self.before = np.where(rows, self.last, self.before)
        self.last = np.where(rows, latest, self.last)

    def pooled(self) -> Array:
        """The larger of the two, element by element; of a window of one the only one."""
        larger: Array = np.maximum(self.before, self.last)
        return larger


class RepeatAction(WindowOfOneLane):
    """Each action is taken ``num_repeats`` times, or until the episode ends; rewards add up."""

    num_repeats: int = of_logic()

    def __init__(self, env: Env[Any, Any], num_repeats: int) -> None:
        super().__init__(env, Repeat(num_repeats))


class MaxAndSkipObservation(WindowOfOneLane):
    """Each action is taken ``skip`` times; the observation is the element-wise maximum of the last two."""

    _skip: int = of_logic("skip")

    def __init__(self, env: Env[Any, Any], skip: int = 4) -> None:
        super().__init__(env, MaxAndSkip(skip))
