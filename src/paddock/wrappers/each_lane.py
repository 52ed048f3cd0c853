"""EachLane: the form for n lanes of a logic that is written for one lane only. Slow, and right for every space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from paddock.core.infos import add_info
from paddock.wrappers.logic import First, Lanes, Logic, Step, Wrapped, writes
from paddock.wrappers.memory import Memory
from paddock.wrappers.rows import gather, members


class EachMemory(Memory):
    """A memory of its own for each lane, and the spaces of one lane on both sides of the wrapper."""

    each: tuple[Any, ...]
    _wrapped: Wrapped
    _seen: Any
    _taken: Any


class EachLane(Logic):
    """``logic`` lane by lane, each with a memory of its own."""

    def __init__(self, logic: Logic) -> None:
        self.logic = logic

    def observation_space(self, wrapped: Wrapped) -> Any:
        return self.logic.observation_space(wrapped)

    def action_space(self, wrapped: Wrapped) -> Any:
        return self.logic.action_space(wrapped)

    def memory(self, wrapped: Wrapped) -> Any:
        assert wrapped.lanes is not None, "one lane needs no rows"
        one = replace(wrapped, lanes=None)
        return EachMemory(
            each=tuple(self.logic.memory(one) for _ in range(wrapped.lanes)),
            _wrapped=wrapped,
            _seen=self.logic.observation_space(wrapped),
            _taken=self.logic.action_space(wrapped),
        )

    def act(self, memory: Any, lanes: Lanes, action: Any) -> Any:
        return self._rows(memory, lanes, action, (memory._taken, memory._wrapped.action_space), self.logic.act)

    def observe(self, memory: Any, lanes: Lanes, observation: Any) -> Any:
        spaces = memory._wrapped.observation_space, memory._seen
        return self._rows(memory, lanes, observation, spaces, self.logic.observe)

    def reward(self, memory: Any, lanes: Lanes, reward: Any) -> Any:
        changed = [self.logic.reward(one, None, reward[row]) for row, one in enumerate(_chosen(memory, lanes))]
        return np.array(changed, np.float64)

    def begin(self, memory: Any, lanes: Lanes, first: First) -> First:
        chosen = _chosen(memory, lanes)
        observations = self._each(memory, first[0], len(chosen))
        firsts = [self.logic.begin(one, None, (observations[row], {})) for row, one in enumerate(chosen)]
        for lane, (_, info) in zip(_numbers(memory, lanes), firsts, strict=True):
            add_info(first[1], info, lane, len(memory.each))
        return self._batch(memory, [observation for observation, _ in firsts]), first[1]

    def advance(self, memory: Any, lanes: Lanes, step: Step) -> Step:
        chosen = _chosen(memory, lanes)
        observations, rewards, terminated, truncated, infos = step
        seen = []
        gained = np.zeros(len(chosen), np.float64)
        each = self._each(memory, observations, len(chosen))
        for row, (lane, one) in enumerate(zip(_numbers(memory, lanes), chosen, strict=True)):
            moved: Step = each[row], rewards[row], bool(terminated[row]), bool(truncated[row]), {}
            observation, gained[row], _, _, info = self.logic.advance(one, None, moved)
            seen.append(observation)
            add_info(infos, info, lane, len(memory.each))
        return self._batch(memory, seen), gained, terminated, truncated, infos

    def _each(self, memory: Any, observations: Any, count: int) -> list[Any]:
        looks = self.logic.looks
        return members(memory._wrapped.observation_space, observations, count) if looks else [None] * count

    def _batch(self, memory: Any, observations: list[Any]) -> Any:
        return gather(memory._seen, observations) if self.logic.looks else None

    def _rows(self, memory: Any, lanes: Lanes, rows: Any, spaces: tuple[Any, Any], change: Callable[..., Any]) -> Any:
        given, wanted = spaces
        chosen = _chosen(memory, lanes)
        each = members(given, rows, len(chosen))
        return gather(wanted, [change(one, None, value) for one, value in zip(chosen, each, strict=True)])


def _numbers(memory: Any, lanes: Lanes) -> list[int]:
    chosen: list[int] = np.arange(len(memory.each))[lanes].tolist()
    return chosen


def _chosen(memory: Any, lanes: Lanes) -> list[Any]:
    return [memory.each[lane] for lane in _numbers(memory, lanes)]


def for_lanes(logic: Logic, wrapped: Wrapped) -> tuple[Logic, set[str]]:
    """The logic with a form for n lanes, and the parts that it writes."""
    parts = {part for part in ("act", "observe", "reward", "begin", "advance") if writes(logic, part)}
    return (logic if logic.batched(wrapped) else EachLane(logic)), parts
