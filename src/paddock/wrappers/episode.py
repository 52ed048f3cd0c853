"""Whole episodes: Autoreset begins the next one by itself, RecordEpisodeStatistics counts return, length and seconds.

Seconds are wall time: n lanes and n single environments agree on everything else.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import ActType, Env, Info, ObsType
from paddock.core.state import open_snapshot, seal_snapshot
from paddock.core.wrapper import Wrapper, forwarded
from paddock.errors import InvalidSpec
from paddock.wrappers.logic import First, Lanes, Logic, Memory, OneLane, Step, Wrapped
from paddock.wrappers.many_lanes import add_rows, any_true, lane_numbers


class Autoreset(Wrapper[ObsType, ActType, ObsType, ActType]):
    """A single environment that goes on from episode to episode, as a lane does under ``AutoresetMode.NEXT_STEP``.

    The step after the end begins the next episode: its action is ignored and its reward is 0.
    """

    def __init__(self, env: Env[ObsType, ActType]) -> None:
        super().__init__(env)
        self._record_arguments()
        self.autoreset = False  # the episode has ended: the next step resets

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[ObsType, Info]:
        self.autoreset = False
        return self.env.reset(seed=seed, options=options)

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        if self.autoreset:
            observation, info = self.env.reset()
            self.autoreset = False
            return observation, 0.0, False, False, info
        result = self.env.step(action)
        self.autoreset = result[2] or result[3]
        return result

    def snapshot(self) -> bytes:
        return seal_snapshot("autoreset", bool(self.autoreset), self.env.snapshot())

    def restore(self, snapshot: bytes) -> None:
        autoreset, inner = open_snapshot("autoreset", snapshot, bool)
        self.env.restore(inner)
        self.autoreset = autoreset


class EpisodeMemory(Memory):
    """Return and length so far, for n lanes an array of each, and the latest episodes."""


@dataclass(frozen=True)
class EpisodeStatistics(Logic):
    """``info[stats_key] = {"r": return, "l": length, "t": seconds}``; the last ``buffer_length`` of each are kept."""

    buffer_length: int = 100
    stats_key: str = "episode"
    looks, forgets = False, True

    def memory(self, wrapped: Wrapped) -> Any:
        lanes, length = wrapped.lanes, self.buffer_length
        return EpisodeMemory(
            episode_count=0,
            episode_returns=0.0 if lanes is None else np.zeros(lanes),
            episode_lengths=0 if lanes is None else np.zeros(lanes, np.int64),
            _started=-1.0 if lanes is None else np.zeros(lanes),  # a clock's reading means nothing in another process
            return_queue=deque(maxlen=length),
            length_queue=deque(maxlen=length),
            time_queue=deque(maxlen=length),
        )

    def begin(self, memory: Any, lanes: Lanes, first: First) -> First:
        if lanes is None:
            memory.episode_returns, memory.episode_lengths, memory._started = 0.0, 0, time.perf_counter()
        else:
            memory.episode_returns[lanes], memory.episode_lengths[lanes] = 0.0, 0
            memory._started[lanes] = time.perf_counter()
        return first

    def advance(self, memory: Any, lanes: Lanes, step: Step) -> Step:
        _, reward, terminated, truncated, info = step
        if lanes is None:
            memory.episode_returns += float(reward)  # a float32 of the environment would round every sum
            memory.episode_lengths += 1
            if not (terminated or truncated):
                return step
            if self.stats_key in info:
                raise key_exists(self.stats_key, info)
            seconds = time.perf_counter() - memory._started
            info[self.stats_key] = {"r": memory.episode_returns, "l": memory.episode_lengths, "t": seconds}
            memory.return_queue.append(memory.episode_returns)
            memory.length_queue.append(memory.episode_lengths)
            memory.time_queue.append(seconds)
            memory.episode_count += 1
            memory._started = time.perf_counter()
            return step
        add_rows(memory.episode_returns, lanes, reward)
        add_rows(memory.episode_lengths, lanes, 1)
        if any_true(terminated) or any_true(truncated):
            over = lane_numbers(terminated | truncated)
            self.end(memory, over if isinstance(lanes, slice) else lanes[over], info)
        return step

    def end(self, memory: Any, ended: np.ndarray[Any, Any], info: Any) -> None:
        """Record that the episodes of these lanes are over."""
        returns, lengths = memory.episode_returns[ended], memory.episode_lengths[ended]
        seconds = time.perf_counter() - memory._started[ended]
        info.tell(ended, {self.stats_key: {"r": returns, "l": lengths, "t": seconds}})
        memory.return_queue.extend(returns.tolist())
        memory.length_queue.extend(lengths.tolist())
        memory.time_queue.extend(seconds.tolist())
        memory.episode_count += len(ended)


def key_exists(key: str, info: Info) -> InvalidSpec:
    """The error for infos that have statistics already."""
    return InvalidSpec(
        f"Attempted to add episode stats with key {key!r} but this key already exists in info: {list(info)}. "
        "Wrap once, or pass another stats_key."
    )


class RecordEpisodeStatistics(OneLane):
    """Adds return, length and seconds of an episode to the info of its last step, and keeps the latest of each."""

    episode_count: int = forwarded("_memory", "episode_count")
    episode_returns: float = forwarded("_memory", "episode_returns")
    episode_lengths: int = forwarded("_memory", "episode_lengths")
    episode_start_time: float = forwarded("_memory", "_started")
    return_queue: deque[float] = forwarded("_memory", "return_queue")
    length_queue: deque[int] = forwarded("_memory", "length_queue")
    time_queue: deque[float] = forwarded("_memory", "time_queue")
    _stats_key: str = forwarded("_logic", "stats_key")

    def __init__(self, env: Env[Any, Any], buffer_length: int = 100, stats_key: str = "episode") -> None:
        super().__init__(env, EpisodeStatistics(buffer_length, stats_key))
