"""The wrappers of n lanes that remember: frames, time, actions, running statistics.

Normalizing has two meanings here. ``shared=True``, as in Gymnasium: all lanes share one running statistic, so what a
lane sees depends on the others. ``shared=False``: one statistic per lane, exactly n single environments.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from paddock.core.env import Info
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.wrappers.episode import EpisodeStatistics, key_exists
from paddock.wrappers.history import Delay, FrameStack, WithTime
from paddock.wrappers.lanes import ALL, NO_LANES, LaneInfos, any_true, lane_numbers, restarted_lanes
from paddock.wrappers.logic import Step, of_logic, of_memory
from paddock.wrappers.many_lanes import ManyLanes, ManyLanesAction, ManyLanesObservation
from paddock.wrappers.normalize import (
    KeepsStatistics,
    LaneStatistics,
    ReturnsMemory,
    RunningMeanStd,
    ScaledReward,
    ScaledTogether,
    Standardized,
    StandardizedTogether,
)
from paddock.wrappers.repeat import Duration, MaxAndSkip, Repeat, Sticky, WindowOfManyLanes

Array = np.ndarray[Any, Any]


class TimeAwareObservation(ManyLanes):
    """Observations with the number of steps that the lane has taken in its episode; flat by default."""

    flatten: bool = of_logic()
    normalize_time: bool = of_logic()
    max_timesteps: int = of_memory("_limit")
    timesteps: Array = of_memory()

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        flatten: bool = True,
        normalize_time: bool = False,
        *,
        dict_time_key: str = "time",
    ) -> None:
        super().__init__(env, WithTime(flatten, normalize_time, dict_time_key))


class DelayObservation(ManyLanes):
    """The agent sees each lane's observations ``delay`` steps late, and zeros before the first."""

    delay: int = of_logic()

    def __init__(self, env: VectorEnv[Any, Any, Any], delay: int) -> None:
        super().__init__(env, Delay(delay))


class NormalizeObservation(KeepsStatistics, ManyLanesObservation):
    """Observations centred and scaled by running statistics, as float32; ``update_running_mean = False`` freezes them.

    ``shared``: one mean and variance for all lanes. Without it ``obs_rms`` has a row per lane.
    """

    obs_rms: RunningMeanStd | LaneStatistics = of_memory("_statistics")
    update_running_mean: bool = of_memory("_updating")
    epsilon: float = of_logic()

    def __init__(self, env: VectorEnv[Any, Any, Any], epsilon: float = 1e-8, *, shared: bool = True) -> None:
        super().__init__(env, StandardizedTogether(epsilon) if shared else Standardized(epsilon))
        self.shared = shared


class NormalizeReward(KeepsStatistics, ManyLanes):
    """Rewards scaled so that discounted returns have about unit variance; ``update_running_mean = False`` freezes it.

    ``shared``: one statistic of all lanes' returns. Without it ``return_rms`` has a row per lane.
    """

    return_rms: RunningMeanStd | LaneStatistics = of_memory("_statistics")
    update_running_mean: bool = of_memory("_updating")
    accumulated_reward: Array = of_memory("returns")
    gamma: float = of_logic()
    epsilon: float = of_logic()

    _memory: ReturnsMemory

    def __init__(
        self, env: VectorEnv[Any, Any, Any], gamma: float = 0.99, epsilon: float = 1e-8, *, shared: bool = True
    ) -> None:
        super().__init__(env, ScaledTogether(gamma, epsilon) if shared else ScaledReward(gamma, epsilon))
        self.shared = shared

    def _advance_step(self, result: Step, begun: Array | None, held: Array | None) -> Step:
        # Twice as fast as taking rows of the lanes that moved, which are most. Its plain twin is the one of ManyLanes.
        if not self.shared:
            return super()._advance_step(result, begun, held)
        observations, rewards, terminations, truncations, infos = result
        resting = begun if held is None else held if begun is None else begun | held
        logic: Any = self._logic
        rewards = logic.scale_moved(self._memory, rewards, None if resting is None else resting.nonzero()[0])
        beginning = restarted_lanes(self._mode, infos) if begun is None else begun
        self._memory.returns[beginning] = 0.0
        return observations, rewards, terminations, truncations, infos

    def normalize(self, reward: Any) -> Any:
        """Scale a reward, or one per lane; the statistics count the running returns once more."""
        logic: Any = self._logic
        return logic.scale(self._memory, ALL, reward, self._memory.returns)


class FrameStackObservation(ManyLanes):
    """The last ``stack_size`` observations of each lane as one: [n, stack_size, …]."""

    def __init__(self, env: VectorEnv[Any, Any, Any], stack_size: int, *, padding_type: Any = "reset") -> None:
        super().__init__(env, FrameStack(stack_size, padding_type))
        self.stack_size = stack_size


class MaxAndSkipObservation(WindowOfManyLanes):
    """Each action is taken ``skip`` times; the observation is the element-wise maximum of a lane's last two."""

    _skip: int = of_logic("skip")

    def __init__(self, env: VectorEnv[Any, Any, Any], skip: int = 4) -> None:
        super().__init__(env, MaxAndSkip(skip))


class StickyAction(ManyLanesAction):
    """Each lane repeats its own last action with a probability, drawn from the lane's random stream."""

    repeat_action_probability: float = of_logic()
    repeat_action_duration_range: tuple[int, int] = of_logic()

    def __init__(
        self, env: VectorEnv[Any, Any, Any], repeat_action_probability: float, repeat_action_duration: Duration = 1
    ) -> None:
        super().__init__(env, Sticky(repeat_action_probability, repeat_action_duration))


class RepeatAction(WindowOfManyLanes):
    """Each action is taken ``num_repeats`` times, in each lane until its episode ends; rewards add up."""

    num_repeats: int = of_logic()

    def __init__(self, env: VectorEnv[Any, Any, Any], num_repeats: int) -> None:
        super().__init__(env, Repeat(num_repeats))


class RecordEpisodeStatistics(ManyLanes):
    """Adds return, length and seconds of an episode to its last infos, under SAME_STEP to final_info as well.

    The queues and the count are of all lanes together.
    """

    episode_count: int = of_memory()
    episode_returns: Array = of_memory()
    episode_lengths: Array = of_memory()
    episode_start_times: Array = of_memory("_started")
    return_queue: deque[float] = of_memory()
    length_queue: deque[int] = of_memory()
    time_queue: deque[float] = of_memory()
    _stats_key: str = of_logic("stats_key")

    _logic: EpisodeStatistics

    def __init__(self, env: VectorEnv[Any, Any, Any], buffer_length: int = 100, stats_key: str = "episode") -> None:
        super().__init__(env, EpisodeStatistics(buffer_length, stats_key))

    def _on_the_way_out(self, result: Step) -> Step:
        # Two thirds of the time of its plain twin, that of ManyLanes, which the rare cases still take.
        if self._held is not None or self._mode is AutoresetMode.SAME_STEP:
            return super()._on_the_way_out(result)
        observations, rewards, terminations, truncations, infos = result
        logic, memory = self._logic, self._memory
        memory.episode_returns += rewards
        memory.episode_lengths += 1
        if self._ended is not None:
            logic.begin(memory, lane_numbers(self._ended), (None, {}))
        self._ended = None
        if any_true(terminations) or any_true(truncations):
            over = terminations | truncations
            self._ended = over if self._tracks else None
            added = LaneInfos(len(over))
            logic.end(memory, lane_numbers(over), added)
            infos = self._add_infos(infos, added, NO_LANES)
        return observations, rewards, terminations, truncations, infos

    def _add_infos(self, infos: Info, added: Info, again: Array) -> Info:
        if added and self._stats_key in infos:
            raise key_exists(self._stats_key, infos)
        return super()._add_infos(infos, added, again)
