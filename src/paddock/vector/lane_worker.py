"""LaneWorker: one worker process and the lanes in it. It sends requests and keeps count; ProcessLanes reads replies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

from paddock.core.env import Info
from paddock.errors import (
    BadFrame,
    ClosedEnvironmentError,
    DeadlineExceeded,
    EnvironmentViolation,
    NotTransferable,
    PaddockError,
    WorkerLost,
)
from paddock.hosting import messages as m
from paddock.hosting.failures import to_failed
from paddock.hosting.judge import WallRules
from paddock.hosting.layout import Block, StepLayout
from paddock.hosting.process_channel import ProcessChannel
from paddock.spaces.rows import fill, put_exactly

OpenChannel = Callable[[], ProcessChannel]
Kind = Literal["make", "attach", "reset", "step", "ask"]
Answer = tuple[Kind, Sequence[int], m.StepReply]  # what was asked, of which rows, and the reply

_MAKE_S = 60.0  # making may take longer than a step: imports, downloads


@dataclass
class Job:
    """What a worker does next: step rows, reset rows, or send one request per row. A step resets first."""

    kind: Literal["reset", "step", "ask"]
    rows: Sequence[int]
    actions: list[Any] | None = None  # step: one per row; None if they are in the block already
    resets: dict[int, tuple[int | None, Info | None]] = field(default_factory=dict)  # row: seed and options
    requests: Sequence[m.Request] = ()


@dataclass(frozen=True)
class _Sent:
    """A request and the rows that it is about; no request and no rows for "attach"."""

    kind: Kind
    rows: Sequence[int]
    request: m.Request | None = None


_ATTACH = _Sent("attach", ())
_STEP_ALL = m.StepRows()


class LaneWorker:
    """The lanes from ``first`` on, one for each of ``makes``. A row is a lane's number within this worker."""

    def __init__(
        self,
        first: int,
        makes: Sequence[dict[str, Any]],
        *,
        open_channel: OpenChannel,
        autoreset: str,
        deadline_s: float | None,
        wall: WallRules | None = None,
    ) -> None:
        self.lanes = range(first, first + len(makes))
        self.part = slice(first, first + len(makes))
        self._makes, self._open_channel, self._autoreset = makes, open_channel, autoreset
        self._deadline_s = deadline_s
        self._start_s = max(deadline_s or 0.0, _MAKE_S) if wall is None else wall.start_s
        # An untrusted worker can't buy time by claiming that it has come to the next row.
        self._times_rows = wall is None
        self._layout: StepLayout | None = None
        self._awake_s = 0.0
        self._step_of_all = _Sent("step", range(len(makes)), _STEP_ALL)
        self._unsent: deque[_Sent] = deque()
        self.block: Block | None = None
        self.jobs: deque[Job] = deque()
        self.broken: set[int] = set()  # rows whose environment must be made again before it is used
        self.lost = True
        self.start()

    def start(self) -> None:
        """Launch the process and have it make all its environments; the replies come later."""
        try:
            self.channel = self._open_channel()
        except OSError as error:
            raise WorkerLost(f"A worker process could not be started: {error}.") from error
        self.fd = self.channel.fileno()
        self.process_fd = None if self.channel.child is None else self.channel.child.fd
        self.output_fd = self.channel.output_fd
        self.lost = False
        self.broken.clear()
        self._unsent.clear()
        self._last = _ATTACH
        for row in range(len(self.lanes)):
            self._make(row)
        if self._layout is not None:
            self._unsent.append(_ATTACH)

    def attach(self, layout: StepLayout, *, awake_s: float) -> None:
        """Share memory with the process, now and after each start."""
        self._layout, self._awake_s = layout, awake_s
        self._unsent.append(_ATTACH)

    def _make(self, row: int) -> None:
        self.broken.discard(row)
        self._unsent.append(_Sent("make", [row], m.Make(row, self._makes[row], self._autoreset)))

    @property
    def busy(self) -> bool:
        """Whether replies are owed, abandoned ones included."""
        return not self.lost and (self.channel.pending or bool(self._unsent))

    def run(self, job: Job) -> None:
        """Queue a job's requests; ``send_next`` sends them."""
        for row, (seed, options) in job.resets.items():
            if row in self.broken:
                self._make(row)
            self._unsent.append(_Sent("reset", [row], m.Reset(row, seed, options)))
        if job.kind == "step" and job.rows:
            self._unsent.append(_Sent("step", job.rows, self._step(job)))
        elif job.kind == "ask":
            for row, request in zip(job.rows, job.requests, strict=True):
                if row in self.broken and isinstance(request, m.Restore):
                    self._make(row)
                self._unsent.append(_Sent("ask", [row], request))

    def _step(self, job: Job) -> m.StepRows:
        assert self.block is not None
        rows, actions, shared = job.rows, job.actions, self.block.actions
        if actions is not None and shared is not None:
            exact = all(put_exactly(shared, row, action) for row, action in zip(rows, actions, strict=True))
            actions = None if exact else actions
        return m.StepRows(list(rows), actions)

    def keep_copies(self) -> None:
        """Copy what waits to be sent: the caller may write into its arrays before its turn comes."""
        for job in self.jobs:
            job.actions, job.requests = copy_if_possible(job.actions), copy_if_possible(job.requests)
            job.resets = {row: (seed, copy_if_possible(options)) for row, (seed, options) in job.resets.items()}
        self._unsent = deque(
            sent if sent.kind in ("make", "attach") else replace(sent, request=copy_if_possible(sent.request))
            for sent in self._unsent
        )

    def send_next(self) -> Answer | None:
        """Send the next request, unless a reply is owed. WorkerLost if the process is gone.

        One at a time: if both ends wrote more than a socket holds, each would wait for the other to read. A request
        that can't cross is answered here with NotTransferable and never reaches the process.
        """
        while self._unsent and not self.channel.pending:
            self._last = sent = self._unsent.popleft()
            try:
                if sent.request is None:
                    assert self._layout is not None
                    self.block = self.channel.share(self._layout, awake_s=self._awake_s)
                else:
                    self.channel.send(sent.request)
            except (NotTransferable, BadFrame) as error:
                return sent.kind, sent.rows, to_failed(error)
        return None

    def fill_actions(self, batch: Any, num_envs: int) -> bool:
        """Put its part of a batch of actions into shared memory; False if that would change one."""
        assert self.block is not None
        return self.block.actions is not None and fill(self.block.actions, batch, self.part, num_envs)

    def step_every_row(self) -> None:
        """Begin a step of all its lanes with the actions in shared memory. Hot: for a worker that is not busy."""
        self._last = self._step_of_all
        self.channel.send(_STEP_ALL)

    @property
    def last_request(self) -> m.Request | None:
        """The request that the next reply answers."""
        return self._last.request

    def poll(self) -> Answer | None:
        """The next wanted reply that is here, with what it answers; never waits. WorkerLost if the process is gone."""
        reply = self.channel.poll()
        return None if reply is None else (self._last.kind, self._last.rows, reply)

    def abandon_pending(self) -> None:
        """Throw away the reply to what was asked when it comes, and drop what was not asked yet."""
        self.jobs.clear()
        self._unsent = deque(sent for sent in self._unsent if sent.kind in ("make", "attach"))
        if self.channel.pending and self._last.kind == "make":
            self.broken.update(self._last.rows)  # its reply, which would say whether it succeeded, is thrown away
        self.channel.abandon()

    def expires_s(self) -> float | None:
        """When the deadline of its current request is over, by time.monotonic; None without a deadline."""
        if self._deadline_s is None or self.lost or not self.channel.pending:
            return None
        heard = self.channel.heard_s
        if self._last.kind in ("make", "attach"):  # a new process attaches, and it may still be starting
            return heard + self._start_s
        if self._last.kind != "step" or self.block is None:
            return heard + self._deadline_s
        row, since = self.block.running()
        # What the worker claims counts only within what its rows can take together.
        latest = heard + self._deadline_s * (len(self._last.rows) if self._times_rows else 1)
        return latest if row is None else min(max(since, heard) + self._deadline_s, latest)

    def kill_overdue(self) -> dict[int, PaddockError]:
        """Kill the process because its deadline is over. Returns the error of each lane."""
        limit_s = self._start_s if self._last.kind in ("make", "attach") else self._deadline_s
        culprit = self._working_row()
        self.channel.kill(f"was ended: no answer within {limit_s} s", cause="timeout")
        return self._errors(culprit, DeadlineExceeded(f"no answer within {limit_s} s.{self.channel.last_output()}"))

    def kill_because(self, row: int, error: PaddockError) -> dict[int, PaddockError]:
        """Kill the process because of what it said about this row. Returns the error of each lane."""
        self.channel.kill(f"was ended: lane {self.lanes[row]}: {error}", cause=getattr(error, "cause", "ended"))
        return self._errors(row, error)

    def mark_lost(self, cause: WorkerLost) -> dict[int, PaddockError]:
        """Note that the process is gone. Returns the error of each lane."""
        return self._errors(self._working_row(), cause)

    def _errors(self, culprit: int | None, cause: PaddockError) -> dict[int, PaddockError]:
        self.lost, self.block = True, None
        self.jobs.clear()
        self._unsent.clear()
        text = str(cause)
        errors: dict[int, PaddockError] = {}
        for row, lane in enumerate(self.lanes):
            if culprit is None or row == culprit:
                errors[lane] = _of_lane(cause, lane)
            else:
                shared = f"lane {lane}: lost with lane {self.lanes[culprit]}, which shares its worker: {text}"
                errors[lane] = WorkerLost(shared, lane=lane)
        return errors

    def _working_row(self) -> int | None:
        """The row that the process works on, if any; during a step that is the worker's own claim."""
        if self.lost or not self.channel.pending:
            return None
        if self._last.kind != "step":
            return self._last.rows[0] if self._last.rows else None
        row = None if self.block is None else self.block.running()[0]
        return row if row in self._last.rows else None

    def begin_close(self) -> None:
        """Let its environments close, without waiting for it."""
        if not self.lost:
            self.channel.abandon()
            with suppress(WorkerLost, ClosedEnvironmentError):
                self.channel.send(m.Close())

    def close(self, grace_s: float) -> None:
        """Wait until they have closed, for up to ``grace_s`` seconds; then kill the process."""
        self.channel.close(grace_s)
        self.block = None  # a mapping holds a descriptor


def _of_lane(error: PaddockError, lane: int) -> PaddockError:
    text = f"lane {lane}: {error}"
    if isinstance(error, EnvironmentViolation):
        return EnvironmentViolation(text, path=error.path, lane=lane, rule=error.rule)
    if isinstance(error, WorkerLost):
        return WorkerLost(text, lane=lane, cause=error.cause)
    return DeadlineExceeded(text, lane=lane)


def copy_if_possible(value: Any) -> Any:
    """A deep copy; the value itself if it can't be copied."""
    try:
        return deepcopy(value)
    except Exception:  # an argument of the user's own class: sent as it is
        return value


def split_lanes(lanes: int, workers: int) -> list[tuple[int, int]]:
    """The first lane and the number of lanes of each worker, as even as possible."""
    workers = min(workers, lanes)
    bounds = [lanes * number // workers for number in range(workers + 1)]
    return [(first, end - first) for first, end in pairwise(bounds)]


def by_worker(worker_of: Sequence[LaneWorker], lanes: Sequence[int]) -> list[tuple[LaneWorker, list[int]]]:
    """The workers of these lanes, each with the rows in question."""
    chosen: dict[int, tuple[LaneWorker, list[int]]] = {}
    for lane in lanes:
        worker = worker_of[lane]
        chosen.setdefault(worker.lanes[0], (worker, []))[1].append(lane - worker.lanes[0])
    return list(chosen.values())
