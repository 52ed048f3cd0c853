"""Rewards divided by the running standard deviation of discounted returns. Their mean stays: shifting changes the task.

A return belongs to one episode: the last step's reward is part of it, and the next episode begins at zero, however
the one before ended.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.errors import InvalidBound
from paddock.wrappers.logic import First, Lanes, Logic, Step, Wrapped
from paddock.wrappers.one_lane import OneLane
from paddock.wrappers.running_statistics import (
    KeepsStatistics,
    LaneStatistics,
    RunningMeanStd,
    StatisticsMemory,
    update_mean_var_count_from_moments,
    with_one_more,
)
from paddock.wrappers.shown import of_logic, of_memory


class ReturnsMemory(StatisticsMemory):
    """Statistics of returns, and the return of the running episode (of each lane)."""

    returns: Any


@dataclass(frozen=True)
class ScaledReward(Logic):
    """Each lane by its own statistics of returns, discounted by ``gamma``."""

    gamma: float = 0.99
    epsilon: float = 1e-8
    looks = False

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1:
            raise InvalidBound(f"`gamma` should be in the interval [0, 1]. Received {self.gamma}")
        if not self.epsilon > 0:
            raise InvalidBound(f"`epsilon` should be strictly positive. Received {self.epsilon}")

    def memory(self, wrapped: Wrapped) -> Any:
        if wrapped.lanes is None:
            return ReturnsMemory(_statistics=RunningMeanStd(), returns=0.0)
        return ReturnsMemory(_statistics=LaneStatistics(wrapped.lanes), returns=np.zeros(wrapped.lanes))

    def begin(self, memory: Any, lanes: Lanes, first: First) -> First:
        if lanes is None:
            memory.returns = 0.0
        else:
            memory.returns[lanes] = 0.0
        return first

    def advance(self, memory: Any, lanes: Lanes, step: Step) -> Step:
        observation, reward, terminated, truncated, info = step
        if lanes is not None:
            return observation, self._scaled_rows(memory, lanes, reward), terminated, truncated, info
        known, reward = memory._statistics, float(reward)
        memory.returns = returns = memory.returns * self.gamma + reward
        if memory._updating:
            known.mean, known.var, known.count, _ = with_one_more(known.mean, known.var, known.count, returns)
        return observation, reward / math.sqrt(known.var + self.epsilon), terminated, truncated, info

    def _scaled_rows(self, memory: Any, lanes: Any, rewards: Any) -> Any:
        memory.returns[lanes] = returns = memory.returns[lanes] * self.gamma + rewards
        return self.scaled(memory, lanes, rewards, returns)

    def scaled(self, memory: Any, lanes: Any, rewards: Any, returns: Any) -> Any:
        """The rewards of these lanes, after the statistics have learned from their returns."""
        known = memory._statistics
        mean, var, count = known.of(lanes)
        if memory._updating:
            mean, var, count, _ = with_one_more(mean, var, count, returns)
            known.put(lanes, (mean, var, count))
        return rewards / np.sqrt(var + self.epsilon)


@dataclass(frozen=True)
class ScaledTogether(ScaledReward):
    """All lanes by the same statistics of returns; each lane has a return of its own."""

    def memory(self, wrapped: Wrapped) -> Any:
        return ReturnsMemory(_statistics=RunningMeanStd(), returns=np.zeros(wrapped.lanes or 1))

    def scaled(self, memory: Any, lanes: Any, rewards: Any, returns: Any) -> Any:
        self._learn(memory, returns, None)
        return rewards / math.sqrt(memory._statistics.var + self.epsilon)

    def scaled_where_moved(self, memory: Any, rewards: Any, resting: np.ndarray[Any, Any] | None) -> Any:
        """``advance`` of all lanes but those that rest, which are few: all at once, and these put right afterwards."""
        returns = memory.returns * self.gamma
        returns += rewards
        if resting is None:
            memory.returns = returns
            return self.scaled(memory, None, rewards, returns)
        returns[resting] = 0.0
        self._learn(memory, returns, resting)
        scaled = rewards / math.sqrt(memory._statistics.var + self.epsilon)
        scaled[resting] = rewards[resting]
        returns[resting] = memory.returns[resting]
        memory.returns = returns
        return scaled

    def _learn(self, memory: Any, returns: Any, resting: np.ndarray[Any, Any] | None) -> None:
        """Add these returns to the statistics, without the lanes that rest: there they must be 0."""
        count = len(returns) if resting is None else len(returns) - len(resting)
        if not memory._updating or not count:
            return
        mean = np.add.reduce(returns) / count
        away = returns - mean
        if resting is not None:
            away[resting] = 0.0
        away *= away
        var = np.add.reduce(away) / count
        known = memory._statistics
        known.mean, known.var, known.count = update_mean_var_count_from_moments(
            known.mean, known.var, known.count, mean, var, count
        )


class NormalizeReward(KeepsStatistics, OneLane):
    """Rewards scaled so that discounted returns have about unit variance.

    ``update_running_mean = False`` freezes the scale. ``return_rms`` holds mean, var and count of the returns.
    """

    return_rms: RunningMeanStd = of_memory("_statistics")
    update_running_mean: bool = of_memory("_updating")
    gamma: float = of_logic()
    epsilon: float = of_logic()

    _memory: ReturnsMemory

    def __init__(self, env: Env[Any, Any], gamma: float = 0.99, epsilon: float = 1e-8) -> None:
        super().__init__(env, ScaledReward(gamma, epsilon))

    @property
    def discounted_reward(self) -> np.ndarray[Any, Any]:
        """The return of the running episode: float64[1]."""
        return np.array([self._memory.returns])

    @discounted_reward.setter
    def discounted_reward(self, value: Any) -> None:
        self._memory.returns = float(np.asarray(value).reshape(()))
