"""Wrappers of n lanes that remember what has passed: time, delay, running statistics.

Normalizing has two meanings here. ``shared=True``, as in Gymnasium: one running statistic learns from all lanes, so a
lane sees numbers that depend on the others. ``shared=False``: a statistic a lane, exactly n single environments.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.core.vector_env import VectorEnv
from paddock.wrappers.delay import Delay
from paddock.wrappers.logic import ALL, Step
from paddock.wrappers.many_lanes import ManyLanes, ManyLanesObservation
from paddock.wrappers.normalize_observation import Standardized, StandardizedTogether
from paddock.wrappers.normalize_reward import ReturnsMemory, ScaledReward, ScaledTogether
from paddock.wrappers.running_statistics import KeepsStatistics, LaneStatistics, RunningMeanStd
from paddock.wrappers.shown import of_logic, of_memory
from paddock.wrappers.time_aware import WithTime

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
    """The agent sees what was so ``delay`` steps ago in the lane's episode, and zeros before that."""

    delay: int = of_logic()

    def __init__(self, env: VectorEnv[Any, Any, Any], delay: int) -> None:
        super().__init__(env, Delay(delay))


class NormalizeObservation(KeepsStatistics, ManyLanesObservation):
    """Observations centred and scaled by running statistics, as float32; ``update_running_mean = False`` freezes them.

    ``shared``: one mean and variance for all lanes. Without it ``obs_rms`` has a row a lane.
    """

    obs_rms: RunningMeanStd | LaneStatistics = of_memory("_statistics")
    update_running_mean: bool = of_memory("_updating")
    epsilon: float = of_logic()

    def __init__(self, env: VectorEnv[Any, Any, Any], epsilon: float = 1e-8, *, shared: bool = True) -> None:
        super().__init__(env, StandardizedTogether(epsilon) if shared else Standardized(epsilon))
        self.shared = shared


class NormalizeReward(KeepsStatistics, ManyLanes):
    """Rewards scaled so that discounted returns have about unit variance; ``update_running_mean = False`` freezes it.

    ``shared``: one statistic of all lanes' returns. Without it ``return_rms`` has a row a lane.
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

    def _advance(self, result: Step, begun: Array | None, held: Array | None) -> Step:
        # Twice as fast as rows of the lanes that moved, which are most. Its plain twin is the shell's own.
        if not self.shared:
            return super()._advance(result, begun, held)
        observations, rewards, terminations, truncations, infos = result
        resting = begun if held is None else held if begun is None else begun | held
        logic: Any = self._logic
        rewards = logic.scaled_where_moved(self._memory, rewards, None if resting is None else resting.nonzero()[0])
        beginning = self._began_again(infos) if begun is None else begun
        self._memory.returns[beginning] = 0.0
        return observations, rewards, terminations, truncations, infos

    def normalize(self, reward: Any) -> Any:
        """The reward, or a reward a lane, scaled; the statistics learn from the running returns once more."""
        logic: Any = self._logic
        return logic.scaled(self._memory, ALL, reward, self._memory.returns)
