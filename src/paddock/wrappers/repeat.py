"""One action for several steps of the environment, seen as one. A window of steps ends with its episode.

Lanes end at different moments: those that are done are held (``VectorEnv.hold``) while the others finish.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.errors import InvalidBound, InvalidSpace
from paddock.wrappers.lanes import Lanes, any_true, merge_infos
from paddock.wrappers.logic import First, Logic, Memory, Step, Wrapped, of_logic
from paddock.wrappers.many_lanes import ManyLanes
from paddock.wrappers.one_lane import OneLane

Array = np.ndarray[Any, Any]


class Window(Logic):
    """``times`` steps with one action: rewards add up, all else is the last step's.

    With ``pools`` the observation is, element by element, the larger of the last two.
    """

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
    """A window of steps of n lanes, in each until its episode ends."""

    _logic: Window

    def __init__(self, env: VectorEnv[Any, Any, Array], window: Window) -> None:
        super().__init__(env, window)
        self._no_lanes = np.zeros(self.num_envs, np.bool_)
        self._tracks = self._mode is AutoresetMode.NEXT_STEP

    def step(self, actions: Any) -> Step:
        held = self._no_lanes if self._held is None else self._held
        begun = self._no_lanes if self._ended is None else self._ended & ~held
        done, terminations, truncations = held, self._no_lanes, self._no_lanes
        total, frames = np.zeros(self.num_envs), _LastTwo()
        infos: Info = {}
        for time in range(1, self._logic.times + 1):
            if time > 1 and any_true(done):
                if done.all():
                    break
                self.env.hold(done)
            observations, rewards, terminated, truncated, latest = self.env.step(actions)
            moved = ~done
            total = total + rewards
            terminations, truncations = terminations | terminated, truncations | truncated
            if self._logic.pools:
                latest = self._add_frame(frames, observations, moved, latest)
            done = done | terminated | truncated | begun
            leaving = moved if time == self._logic.times else moved & done
            if any_true(leaving):
                infos = latest if leaving.all() else merge_infos(infos, latest, leaving)
        if self._logic.pools:
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
        lanes = self._lanes_restarted(infos)
        latest = observations.copy()
        if len(lanes):
            latest[lanes] = self._final_rows(infos, lanes)
        frames.add(latest, moved)
        frames.restarted[lanes] = True
        return {**infos, "final_obs": self._to_finals(frames.pool()[lanes], lanes)} if len(lanes) else infos


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

    num_repeats: int = of_logic()

    def __init__(self, env: Env[Any, Any], num_repeats: int) -> None:
        super().__init__(env, Repeat(num_repeats))


class MaxAndSkipObservation(WindowOfOneLane):
    """Each action is taken ``skip`` times; the observation is the element-wise maximum of the last two."""

    _skip: int = of_logic("skip")

    def __init__(self, env: Env[Any, Any], skip: int = 4) -> None:
        super().__init__(env, MaxAndSkip(skip))
