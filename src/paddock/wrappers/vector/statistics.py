"""Episode statistics of n lanes; the queues and the count are of all lanes together."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from paddock.core.env import Info
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.wrappers.logic import Step
from paddock.wrappers.many_lanes import NOBODY, ManyLanes
from paddock.wrappers.rows import numbers, some
from paddock.wrappers.shown import of_logic, of_memory
from paddock.wrappers.statistics import EpisodeStatistics, taken
from paddock.wrappers.told import Told

Array = np.ndarray[Any, Any]


class RecordEpisodeStatistics(ManyLanes):
    """Adds return, length and seconds of an episode to its last infos, under SAME_STEP to final_info as well."""

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
        # Two thirds of the time of its plain twin, the shell's own, which the rare cases still take.
        if self._held is not None or self._mode is AutoresetMode.SAME_STEP:
            return super()._on_the_way_out(result)
        observations, rewards, terminations, truncations, infos = result
        logic, memory = self._logic, self._memory
        memory.episode_returns += rewards
        memory.episode_lengths += 1
        if self._ended is not None:
            logic.begin(memory, numbers(self._ended), (None, {}))
        self._ended = None
        if some(terminations) or some(truncations):
            over = terminations | truncations
            self._ended = over if self._tracks else None
            told = Told(len(over))
            logic.end(memory, numbers(over), told)
            infos = self._with_told(infos, told, NOBODY)
        return observations, rewards, terminations, truncations, infos

    def _with_told(self, infos: Info, told: Info, again: Array) -> Info:
        if told and self._stats_key in infos:
            raise taken(self._stats_key, infos)
        return super()._with_told(infos, told, again)
