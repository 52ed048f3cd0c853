"""LaneResults: each lane's newest result, kept by lane. What a worker wrote is copied here before anyone uses it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from paddock.core.env import Info
from paddock.errors import PaddockError
from paddock.hosting.block import Block
from paddock.spaces import Space
from paddock.vector.lane_observations import LaneObservations

Array = np.ndarray[Any, Any]


class LaneResults:
    """rewards: float64[n]; terminations, truncations: bool[n]; ``infos`` of the lanes that have one.

    A lane is ``waiting`` from the moment something is asked of it until its result is here, then ``ready`` until it
    is taken.
    """

    observations: LaneObservations

    def __init__(self, num_envs: int, *, tracks_ends: bool) -> None:
        self.num_envs = num_envs
        self.rewards: Array = np.zeros(num_envs, dtype=np.float64)
        self.terminations: Array = np.zeros(num_envs, dtype=np.bool_)
        self.truncations: Array = np.zeros(num_envs, dtype=np.bool_)
        self.tracks_ends = tracks_ends
        self.over: Array = np.zeros(num_envs, dtype=np.bool_)  # lanes whose episode has ended, if that is tracked
        self.infos: dict[int, Info] = {}
        self.resetting: dict[int, Info | None] = {}  # lanes that the caller resets, with the options
        self.waiting: set[int] = set()
        self.ready: deque[int] = deque()
        self.untaken: dict[int, PaddockError] = {}  # faults whose lanes are ready, and nobody has taken them yet

    def make_room(self, observation_space: Space[Any], *, copy: bool) -> None:
        """The observations' space is known now."""
        self.observations = LaneObservations(observation_space, self.num_envs, copy=copy)

    def put_part(self, part: slice, block: Block) -> None:
        """A step of all lanes of one worker. Hot."""
        self.observations.put_part(part, block.observations)
        self.rewards[part] = block.rewards
        # Compared and not copied: a byte that is neither 0 nor 1 is no bool.
        np.not_equal(block.terminations, 0, out=self.terminations[part])
        np.not_equal(block.truncations, 0, out=self.truncations[part])
        if self.tracks_ends:
            np.logical_or(self.terminations[part], self.truncations[part], out=self.over[part])

    def put_row(self, lane: int, block: Block, row: int, *observation: Any) -> None:
        """A step of one lane; its observation is in the block unless it is given. An error of NumPy's if it is odd."""
        if observation:
            self.observations.put(lane, observation[0])
        else:
            self.observations.put_row(lane, block.observations, row)
        self.rewards[lane] = block.rewards[row]
        self.terminations[lane], self.truncations[lane] = block.terminations[row] != 0, block.truncations[row] != 0
        self.over[lane] = self.terminations[lane] or self.truncations[lane]

    def put_nothing(self, lane: int, *, truncated: bool = False) -> None:
        """No step was made: reward 0, and the observation stays what it was."""
        self.rewards[lane], self.terminations[lane], self.truncations[lane] = 0.0, False, truncated
        self.over[lane] |= truncated

    def put_info(self, lane: int, info: Info) -> None:
        """Add to what the lane's info says already."""
        if info:
            self.infos[lane] = {**self.infos[lane], **info} if lane in self.infos else info

    def now_ready(self, lane: int, info: Info | None = None) -> None:
        """The lane's result is here."""
        self.put_info(lane, info or {})
        self.resetting.pop(lane, None)
        self.waiting.discard(lane)
        self.ready.append(lane)

    def rest(self, lanes: Sequence[int]) -> None:
        """These lanes do nothing in this step."""
        for lane in lanes:
            self.infos.pop(lane, None)
            self.put_nothing(lane)
            self.now_ready(lane)

    def take(self, count: int) -> list[int]:
        """The lanes that have been ready longest; their results are the caller's now."""
        taken = [self.ready.popleft() for _ in range(count)]
        if self.untaken:
            for lane in taken:
                self.untaken.pop(lane, None)
        return taken
