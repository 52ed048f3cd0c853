"""LaneWorker: one worker process and the lanes in it. It sends and keeps count; what replies mean is for the engine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

from paddock.core.env import Info
from paddock.errors import (
    BadFrame,
    DeadlineExceeded,
    EnvironmentViolation,
    NotTransferable,
    PaddockError,
    WorkerLost,
)
from paddock.hosting import messages as m
from paddock.hosting.block import Block
from paddock.hosting.failure import failed
from paddock.hosting.frames import SameFrame
from paddock.hosting.process_channel import ProcessChannel
from paddock.hosting.rows import Layout, fill, put_exactly
from paddock.hosting.wall_rules import WallRules

OpenChannel = Callable[[], ProcessChannel]
Kind = Literal["make", "attach", "reset", "step", "ask"]
Heard = tuple[Kind, Sequence[int], m.Reply]

_MAKE_S = 60.0  # making may take longer than a step: imports, downloads


@dataclass
class Job:
    """What a worker is to do next: rows to step or to reset, or one request for each row. A step resets first."""

    kind: Literal["reset", "step", "ask"]
    rows: Sequence[int]
    actions: list[Any] | None = None  # step: one a row; None if they lie in the block already
    resets: dict[int, tuple[int | None, Info | None]] = field(default_factory=dict)  # row: seed and options
    requests: Sequence[m.Request] = ()


@dataclass(frozen=True)
class _Sent:
    """A request and the rows that it is about; neither for sharing memory."""

    kind: Kind
    rows: Sequence[int]
    request: m.Request | None = None


_ATTACH = _Sent("attach", ())


class LaneWorker:
    """The lanes from ``first`` on, one for each of ``makes``. Rows are their numbers within this worker."""

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
        # One that is not believed can't buy time by saying that it has come to the next row.
        self._times_rows = wall is None
        self._layouts: tuple[Layout, Layout] | None = None
        self._awake_s = 0.0
        self._every_row = m.Step(list(range(len(makes))))
        self._step_of_all = _Sent("step", self._every_row.envs)
        self._unsent: deque[_Sent] = deque()
        self._every_row_frame = SameFrame(self._every_row)
        self.block: Block | None = None
        self.jobs: deque[Job] = deque()
        self.broken: set[int] = set()  # rows whose environment must be made anew before it is used
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
        if self._layouts is not None:
            self._unsent.append(_ATTACH)

    def attach(self, observations: Layout, actions: Layout, *, awake_s: float) -> None:
        """Share memory with the process, now and after each start."""
        self._layouts, self._awake_s = (observations, actions), awake_s
        self._unsent.append(_ATTACH)

    def _make(self, row: int) -> None:
        self.broken.discard(row)
        self._unsent.append(_Sent("make", [row], m.Make(row, self._makes[row], self._autoreset)))

    @property
    def busy(self) -> bool:
        """Whether replies are owed, those that nobody wants any more among them."""
        return not self.lost and (self.channel.busy or bool(self._unsent))

    def run(self, job: Job) -> None:
        """Take a job on; ``send_next`` sends its requests."""
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

    def _step(self, job: Job) -> m.Step:
        assert self.block is not None
        rows, actions, shared = job.rows, job.actions, self.block.actions
        if actions is not None and shared is not None:
            exact = all(put_exactly(shared, row, action) for row, action in zip(rows, actions, strict=True))
            actions = None if exact else actions
        if actions is None and len(rows) == len(self.lanes):
            return self._every_row
        return m.Step(list(rows), actions)

    def keep_copies(self) -> None:
        """Of what waits to be sent: the caller may write into its arrays before its turn comes."""
        for job in self.jobs:
            job.actions, job.requests = owned(job.actions), owned(job.requests)
            job.resets = {row: (seed, owned(options)) for row, (seed, options) in job.resets.items()}
        self._unsent = deque(
            sent if sent.kind in ("make", "attach") else replace(sent, request=owned(sent.request))
            for sent in self._unsent
        )

    def send_next(self) -> Heard | None:
        """Send the next request, unless a reply is owed. WorkerLost if the process is gone.

        One at a time: if both ends wrote more than a socket holds, each would wait for the other to read. A request
        that can't cross is answered here, by NotTransferable, and the process never hears of it.
        """
        while self._unsent and not self.channel.busy:
            self._last = sent = self._unsent.popleft()
            try:
                if sent.request is None:
                    assert self._layouts is not None
                    self.block = self.channel.attach(len(self.lanes), *self._layouts, awake_s=self._awake_s)
                else:
                    self.channel.send(sent.request)
            except (NotTransferable, BadFrame) as error:
                return sent.kind, sent.rows, failed(error)
        return None

    def fill_actions(self, batch: Any, num_envs: int) -> bool:
        """Put its part of a batch of actions into shared memory; False if that would change one."""
        assert self.block is not None
        return self.block.actions is not None and fill(self.block.actions, batch, self.part, num_envs)

    def step_every_row(self) -> None:
        """Begin a step of all its lanes with the actions in shared memory. Hot: for a worker that is not busy."""
        self._last = self._step_of_all
        self.channel.send_same(self._every_row_frame)

    @property
    def last_request(self) -> m.Request | None:
        """What the reply that arrives next answers."""
        return self._last.request

    def arrived(self) -> Heard | None:
        """The next reply that is here and wanted, with what it answers. WorkerLost if the process is gone."""
        reply = self.channel.arrived()
        return None if reply is None else (self._last.kind, self._last.rows, reply)

    def forget(self) -> None:
        """Let the reply to what was asked be thrown away when it comes, and drop what was not asked yet."""
        self.jobs.clear()
        self._unsent = deque(sent for sent in self._unsent if sent.kind in ("make", "attach"))
        if self.channel.busy and self._last.kind == "make":
            self.broken.update(self._last.rows)  # nobody will hear whether it succeeded
        self.channel.forget()

    def expires_s(self) -> float | None:
        """When the deadline of what it works on now is over, by time.monotonic; None without a deadline."""
        if self._deadline_s is None or self.lost or not self.channel.busy:
            return None
        heard = self.channel.heard_s
        if self._last.kind in ("make", "attach"):  # a new process attaches, and it may still be starting
            return heard + self._start_s
        if self._last.kind != "step" or self.block is None:
            return heard + self._deadline_s
        row, since = self.block.running()
        # The worker's word counts only within what its rows can take together.
        latest = heard + self._deadline_s * (len(self._last.rows) if self._times_rows else 1)
        return latest if row is None else min(max(since, heard) + self._deadline_s, latest)

    def end_overdue(self) -> dict[int, PaddockError]:
        """End the process because of its deadline. The error of each lane: one was too slow, the others lost theirs."""
        limit_s = self._start_s if self._last.kind in ("make", "attach") else self._deadline_s
        culprit = self._at_work()
        self.channel.lose(f"was ended: no answer within {limit_s} s", cause="timeout")
        return self._errors(culprit, DeadlineExceeded(f"no answer within {limit_s} s.{self.channel.last_output()}"))

    def end_because(self, row: int, error: PaddockError) -> dict[int, PaddockError]:
        """End the process because of what it said of this row. The error of each lane."""
        self.channel.lose(f"was ended: lane {self.lanes[row]}: {error}", cause=getattr(error, "cause", "ended"))
        return self._errors(row, error)

    def lose(self, cause: WorkerLost) -> dict[int, PaddockError]:
        """Take the process as gone. The error of each lane."""
        return self._errors(self._at_work(), cause)

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

    def _at_work(self) -> int | None:
        """The row that the process works on, if it works on one; in a step that is the worker's word."""
        if self.lost or not self.channel.busy:
            return None
        if self._last.kind != "step":
            return self._last.rows[0] if self._last.rows else None
        row = None if self.block is None else self.block.running()[0]
        return row if row in self._last.rows else None

    def begin_close(self) -> None:
        if not self.lost:
            self.channel.begin_close()

    def end_close(self, by_s: float) -> None:
        self.channel.end_close(by_s)
        self.block = None  # a mapping holds a descriptor


def _of_lane(error: PaddockError, lane: int) -> PaddockError:
    text = f"lane {lane}: {error}"
    if isinstance(error, EnvironmentViolation):
        return EnvironmentViolation(text, path=error.path, lane=lane, rule=error.rule)
    if isinstance(error, WorkerLost):
        return WorkerLost(text, lane=lane, cause=error.cause)
    return DeadlineExceeded(text, lane=lane)


def owned(value: Any) -> Any:
    """A copy, where there can be one."""
    try:
        return deepcopy(value)
    except Exception:  # an argument of the user's own class: it goes as it is
        return value


def shares(lanes: int, workers: int) -> list[tuple[int, int]]:
    """The first lane and the number of lanes of each worker, as even as can be."""
    workers = min(workers, lanes)
    bounds = [lanes * number // workers for number in range(workers + 1)]
    return [(first, end - first) for first, end in pairwise(bounds)]


def by_worker(worker_of: Sequence[LaneWorker], lanes: Sequence[int]) -> list[tuple[LaneWorker, list[int]]]:
    """The workers of these lanes, each with the rows that are meant."""
    chosen: dict[int, tuple[LaneWorker, list[int]]] = {}
    for lane in lanes:
        worker = worker_of[lane]
        chosen.setdefault(worker.lanes[0], (worker, []))[1].append(lane - worker.lanes[0])
    return list(chosen.values())
