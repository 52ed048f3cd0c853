"""LaneWall: the wall for lanes. Every reply of a worker that is not believed passes here before it means anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddock.errors import EnvironmentViolation, PaddockError, WorkerLost
from paddock.hosting import messages as m
from paddock.hosting.wall import Wall
from paddock.hosting.wall_description import checked_description
from paddock.hosting.wall_failure import walled_error
from paddock.hosting.wall_rules import WallRules
from paddock.spaces import Discrete, Space
from paddock.vector.lane_replies import notes_by_row
from paddock.vector.lane_rows import CheckedRows
from paddock.vector.lane_worker import Kind, LaneWorker

_NOTHING = Discrete(1)  # until lanes are made nothing is observed


class Breach(Exception):
    """What a worker said of a row, for which it must be ended."""

    def __init__(self, row: int, error: PaddockError) -> None:
        super().__init__(str(error))
        self.row, self.error = row, error


class LaneWall:
    """The walls of ``num_envs`` lanes, all with the same rules."""

    def __init__(self, rules: WallRules, num_envs: int) -> None:
        self._rules = rules
        self._walls = [Wall(_NOTHING, rules, lane=lane) for lane in range(num_envs)]
        self._rows: dict[int, CheckedRows] = {}  # by the first lane of the worker
        self._modes: dict[int, str | None] = {}

    def adopt(self, declared: Sequence[Space[Any]], single: Space[Any], workers: Sequence[LaneWorker]) -> None:
        """What each lane declared that it observes, and by which space memory is laid out."""
        self._walls = [Wall(space, self._rules, lane=lane) for lane, space in enumerate(declared)]
        self._rows = {worker.lanes[0]: CheckedRows(declared[worker.part], single, self._rules) for worker in workers}

    def error(self, reply: m.Failed, lane: int) -> PaddockError:
        """The error that a failure is."""
        return walled_error(reply, lane=lane)

    def copied(self, worker: LaneWorker) -> CheckedRows:
        """What ``checked`` has copied out of the worker's memory."""
        return self._rows[worker.lanes[0]]

    def checked(self, worker: LaneWorker, kind: Kind, rows: Sequence[int], reply: m.Reply) -> m.Reply:
        """The reply, with text made plain. Breach for a lie, BadFrame for what is no reply."""
        if kind == "step":
            return self._step(worker, rows, reply)
        if not rows:
            return reply
        row = rows[0]
        if isinstance(reply, m.Failed):
            self._refuse_if_out_of_memory(row, reply)
            return reply
        try:
            return m.Done(self._read(worker, worker.lanes[row], kind, reply.value))
        except EnvironmentViolation as error:
            raise Breach(row, error) from None

    def _read(self, worker: LaneWorker, lane: int, kind: Kind, value: Any) -> Any:
        wall, request = self._walls[lane], worker.last_request
        if kind == "make":
            described = checked_description(value, self._rules)
            self._modes[lane] = described.render_mode
            return described
        if kind == "reset":
            return wall.reset(value)
        if isinstance(request, m.Render):
            return wall.render(value, self._modes.get(lane))
        if isinstance(request, m.State):
            return wall.state(value)
        if isinstance(request, m.Snapshot):
            return wall.snapshot(value)
        if isinstance(request, m.Call):
            return wall.value(value, f"set_attr({request.name!r})" if request.how == "set" else request.name)
        return None

    def _step(self, worker: LaneWorker, rows: Sequence[int], reply: m.Reply) -> m.Reply:
        if isinstance(reply, m.Failed):
            self._refuse_if_out_of_memory(rows[0], reply)
            return reply
        block = worker.block
        assert block is not None
        copy = self._rows[worker.lanes[0]]
        copy.copy_results(block)
        if reply.value is None and len(rows) == copy.rows and copy.observations is not None:
            if not copy.all_honest():
                self._accuse(copy, rows)
            return reply
        noted = notes_by_row([] if reply.value is None else reply.value, rows, loose=copy.observations is None)
        notes = [self._note(worker.lanes[row], row, parts) for row, parts in noted.items()]
        # A row that failed has no results; those of rows that were not stepped are nobody's.
        self._accuse(copy, [row for row in rows if row not in noted or not isinstance(noted[row][0], m.Failed)])
        return m.Done(notes)

    def _note(self, lane: int, row: int, parts: tuple[Any, ...]) -> list[Any]:
        info, *observation = parts
        if isinstance(info, m.Failed):
            self._refuse_if_out_of_memory(row, info)
            return [row, info]
        wall = self._walls[lane]
        try:
            return [row, wall.info(info), *(wall.observation(one) for one in observation)]
        except EnvironmentViolation as error:
            raise Breach(row, error) from None

    def _accuse(self, copy: CheckedRows, rows: Sequence[int]) -> None:
        for row in rows:
            error = copy.problem(row)
            if error is not None:
                raise Breach(row, error)

    def _refuse_if_out_of_memory(self, row: int, reply: m.Failed) -> None:
        error = walled_error(reply)
        if isinstance(error, WorkerLost):
            raise Breach(row, error)
