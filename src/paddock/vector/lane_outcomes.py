"""LaneOutcomes: what replies mean for lanes: results, answers, descriptions and faults. Who sends is ``process_lanes``.

With a wall every reply passes it before anything is made of it, so that a lie leaves nothing half taken in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddock.core.vector_env import OnFault
from paddock.errors import BadFrame, PaddockError
from paddock.hosting import messages as m
from paddock.hosting.block import Block
from paddock.hosting.client import read_description
from paddock.hosting.failure import failed, to_error
from paddock.vector.faults import Faults, is_fault
from paddock.vector.lane_replies import notes_by_row, observation_and_info
from paddock.vector.lane_results import LaneResults
from paddock.vector.lane_wall import LaneWall
from paddock.vector.lane_worker import Job, Kind, LaneWorker

# What NumPy raises for an observation that does not fit its space: a fault of the lane.
_UNFIT = (ValueError, TypeError, KeyError, IndexError)


class LaneOutcomes(LaneResults):
    """The record of lanes whose environments are in workers."""

    _worker_of: list[LaneWorker]

    def __init__(self, num_envs: int, *, on_fault: OnFault, tracks_ends: bool, wall: LaneWall | None) -> None:
        super().__init__(num_envs, tracks_ends=tracks_ends)
        self.faults = Faults(on_fault, num_envs)
        self.answers: dict[int, Any] = {}  # a value, or the error to raise
        self.descriptions: dict[int, m.Description] = {}
        self._wall = wall
        self._asked: type[m.Request] | None = None  # what is asked of lanes, if it is neither reset nor step
        self._unmade: dict[int, PaddockError] = {}  # lanes whose environment could not be made
        self._unreported: dict[int, PaddockError] = {}  # lanes that were lost while nobody waited for them

    def _take_in(self, worker: LaneWorker, kind: Kind, rows: Sequence[int], reply: m.Reply) -> None:
        if self._wall is not None:
            reply = self._wall.checked(worker, kind, rows, reply)
        if kind == "step":
            self._take_steps(worker, rows, reply)
        elif kind == "reset":
            self._take_reset(worker.lanes[rows[0]], reply)
        elif kind == "ask":
            self._take_answer(worker.lanes[rows[0]], reply)
        elif kind == "make":
            self._take_description(worker, rows[0], reply)
        elif isinstance(reply, m.Failed):  # the one to "attach": without shared memory no lane can step
            raise BadFrame(f"attach failed: {reply.message}")

    def _take_answer(self, lane: int, reply: m.Reply) -> None:
        if isinstance(reply, m.Failed):
            self.answers[lane] = self._error(reply, lane)
        else:
            self.answers[lane] = reply.value
            if self._asked is m.Restore:  # it has an episode again, whatever it was before
                self._unreported.pop(lane, None)
                self.faults.begun(lane)
        self.now_ready(lane)

    def _take_description(self, worker: LaneWorker, row: int, reply: m.Reply) -> None:
        lane = worker.lanes[row]
        if isinstance(reply, m.Failed):
            worker.broken.add(row)
            self._unmade[lane] = self._error(reply, lane)
        else:
            self._unmade.pop(lane, None)
            described = reply.value
            self.descriptions[lane] = described if self._wall is not None else read_description(described)

    def _take_reset(self, lane: int, reply: m.Reply) -> None:
        unmade = self._unmade.pop(lane, None)
        if isinstance(reply, m.Failed):
            self._fail(lane, unmade or self._error(reply, lane))
            return
        observation, info = observation_and_info(reply.value)
        try:
            self.observations.put(lane, observation)
        except _UNFIT as error:
            self._fault(lane, to_error(failed(error), lane=lane))
            return
        self.put_nothing(lane)
        self.over[lane] = False
        self.faults.begun(lane)
        self.now_ready(lane, info)

    def _take_steps(self, worker: LaneWorker, rows: Sequence[int], reply: m.Reply) -> None:
        if isinstance(reply, m.Failed):
            for row in rows:
                self._fail(worker.lanes[row], self._error(reply, worker.lanes[row]))
            return
        block: Block | None = worker.block if self._wall is None else self._wall.copied(worker)
        assert block is not None
        notes = reply.value
        loose = block.observations is None
        if notes is None and len(rows) == block.rows and not loose:
            self.put_part(worker.part, block)
            self.waiting.difference_update(worker.lanes)
            self.ready.extend(worker.lanes)
            return
        noted = notes_by_row([] if notes is None else notes, rows, loose=loose)
        for row in rows:
            self._take_row(worker.lanes[row], block, row, *noted.get(row, ({},)))

    def _take_row(self, lane: int, block: Block, row: int, info: Any, *observation: Any) -> None:
        if isinstance(info, m.Failed):
            self._fail(lane, self._error(info, lane))
            return
        try:
            self.put_row(lane, block, row, *observation)
        except _UNFIT as error:
            self._fault(lane, to_error(failed(error), lane=lane))
        else:
            self.now_ready(lane, info)

    def _error(self, reply: m.Failed, lane: int) -> PaddockError:
        return to_error(reply, lane=lane) if self._wall is None else self._wall.error(reply, lane)

    def _fail(self, lane: int, error: PaddockError) -> None:
        if is_fault(error):
            self._fault(lane, error)
        else:
            self.faults.mistake(lane, error)
            self.put_nothing(lane)
            self.now_ready(lane)

    def _fault(self, lane: int, error: PaddockError) -> None:
        worker = self._worker_of[lane]
        row = lane - worker.lanes[0]
        worker.broken.add(row)
        self.answers[lane] = error
        if self._asked is not None and self.faults.on_fault != "raise":
            # Whoever asked gets the error. The episode's end is for the next step to tell.
            if lane not in self.faults.anew:
                self._unreported[lane] = error
            self.now_ready(lane)
            return
        info = self.faults.report(lane, error, beginning=lane in self.resetting)
        if lane in self.resetting and self.faults.tries_again(lane):
            self.infos[lane] = info
            again = self.faults.next_seed(lane), self.resetting[lane]
            worker.jobs.append(Job("reset", (), resets={row: again}))
            return
        self.untaken[lane] = error
        self.put_nothing(lane, truncated=True)
        self.now_ready(lane, info)
