"""Observations with mean 0 and variance 1, by running statistics of what was seen. What is seen first is far off.

Of n lanes there are two forms: each lane with statistics of its own, as n single environments have, and one for all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.errors import InvalidBound, InvalidSpace
from paddock.spaces import Box, Space
from paddock.wrappers.logic import Lanes, Logic, Wrapped
from paddock.wrappers.one_lane import OneLaneObservation
from paddock.wrappers.running_statistics import (
    FewNumbers,
    KeepsStatistics,
    LaneStatistics,
    RunningMeanStd,
    StatisticsMemory,
    laid_out,
    moments,
    update_mean_var_count_from_moments,
    with_one_more,
)
from paddock.wrappers.shown import of_logic, of_memory


@dataclass(frozen=True)
class Standardized(Logic):
    """Each lane by its own statistics; ``epsilon`` keeps the division from zero."""

    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise InvalidBound(f"`epsilon` should be strictly positive. Received {self.epsilon}")

    def observation_space(self, wrapped: Wrapped) -> Space[Any]:
        return Box(-np.inf, np.inf, _shape(wrapped.observation_space), np.float32)

    def memory(self, wrapped: Wrapped) -> Any:
        shape = _shape(wrapped.observation_space)
        if wrapped.lanes is None:
            few = math.prod(shape) <= FewNumbers.MOST
            return StatisticsMemory(_statistics=FewNumbers(shape) if few else RunningMeanStd(shape=shape))
        return StatisticsMemory(_statistics=LaneStatistics(wrapped.lanes, shape))

    def observe(self, memory: Any, lanes: Lanes, observation: Any) -> Any:
        known = memory._statistics
        if lanes is not None:
            return self._observe_lanes(memory, lanes, observation)
        if memory._updating:
            if type(known) is FewNumbers:
                return known.standardized(observation, self.epsilon)
            known.mean, known.var, known.count, away = with_one_more(known.mean, known.var, known.count, observation)
        else:
            away = observation - known.mean
        return (away / np.sqrt(known.var + self.epsilon)).astype(np.float32)

    def _observe_lanes(self, memory: Any, lanes: Any, rows: Any) -> Any:
        known = memory._statistics
        mean, var, count = known.of(lanes)
        if memory._updating:
            mean, var, count, away = with_one_more(mean, var, count, rows)
            known.put(lanes, (mean, var, count))
        else:
            away = rows - mean
        return (away / np.sqrt(var + self.epsilon)).astype(np.float32)


@dataclass(frozen=True)
class StandardizedTogether(Standardized):
    """All lanes by the same statistics, which learn from each observation once, the last of an episode included."""

    def memory(self, wrapped: Wrapped) -> Any:
        return StatisticsMemory(_statistics=RunningMeanStd(shape=_shape(wrapped.observation_space)))

    def observe(self, memory: Any, lanes: Lanes, observation: Any) -> Any:
        known, (values, axis) = memory._statistics, laid_out(observation)
        shape = np.shape(observation)[1:]
        if memory._updating:
            mean, var = (part.reshape(shape) for part in moments(values, axis))
            known.mean, known.var, known.count = update_mean_var_count_from_moments(
                known.mean, known.var, known.count, mean, var, len(observation)
            )
        beside = (-1, 1) if axis else (1, -1)
        values -= np.reshape(known.mean, beside)
        seen = np.empty(np.shape(observation), np.float32)
        table = seen.reshape(len(seen), -1)
        root = np.sqrt(known.var + self.epsilon).reshape(beside)
        np.divide(values, root, out=table.T if axis else table, casting="same_kind")
        return seen


def _shape(space: Space[Any]) -> tuple[int, ...]:
    if space.shape is None:
        raise InvalidSpace(
            f"NormalizeObservation wrapper requires the observation space to have a shape, got {space}. "
            "FlattenObservation makes one array of a Dict or a Tuple."
        )
    return space.shape


class NormalizeObservation(KeepsStatistics, OneLaneObservation):
    """Observations centred and scaled by running statistics, as float32; ``update_running_mean = False`` freezes them.

    ``obs_rms`` holds mean, var and count, in float64. To share them: ``test.obs_rms = train.obs_rms``.
    """

    obs_rms: RunningMeanStd = of_memory("_statistics")
    update_running_mean: bool = of_memory("_updating")
    epsilon: float = of_logic()

    def __init__(self, env: Env[Any, Any], epsilon: float = 1e-8) -> None:
        super().__init__(env, Standardized(epsilon))
