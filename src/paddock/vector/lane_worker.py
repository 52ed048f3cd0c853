"""LaneWorker: one worker process and the lanes in it. It sends requests and keeps count; ProcessLanes reads replies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal

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
class Ask:
    """What a worker is asked next: a request about these rows, none of them for "attach".

    A step has no request until it is sent: its actions, one per row, go into shared memory then.
    """

    kind: Kind
    rows: Sequence[int]
    request: m.Request | None = None
    actions: list[Any] | None = None


_ATTACH = Ask("attach", ())
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
        self._step_of_all = Ask("step", range(len(makes)), _STEP_ALL)
        self.asks: deque[Ask] = deque()  # what was not sent yet
        self.block: Block | None = None
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
        self._last = _ATTACH
        makes = [self._make(row) for row in range(len(self.lanes))]
        self.asks.extendleft(reversed(makes if self._layout is None else [*makes, _ATTACH]))

    def attach(self, layout: StepLayout, *, awake_s: float) -> None:
        """Share memory with the process, now and after each start."""
        self._layout, self._awake_s = layout, awake_s
        self.asks.append(_ATTACH)

    def _make(self, row: int) -> Ask:
        return Ask("make", [row], m.Make(row, self._makes[row], self._autoreset))

    @property
    def busy(self) -> bool:
        """Whether replies are owed, abandoned ones included, or will be."""
        return not self.lost and (self.channel.pending or bool(self.asks))

    @property
    def starts(self) -> bool:
        """Whether its next request is about its start."""
        return bool(self.asks) and self.asks[0].kind in ("make", "attach")

    def keep_copies(self) -> None:
        """Copy what waits to be sent: the caller may write into its arrays before its turn comes."""
        for ask in self.asks:
            if ask.kind not in ("make", "attach"):
                ask.request, ask.actions = copy_if_possible(ask.request), copy_if_possible(ask.actions)

    def send_next(self) -> Answer | None:
        """Send the next request, unless a reply is owed. WorkerLost if the process is gone.

        One at a time: if both ends wrote more than a socket holds, each would wait for the other to read. A request
        that can't cross is answered here with NotTransferable and never reaches the process.
        """
        ask = self.asks.popleft()
        if ask.rows and ask.rows[0] in self.broken and isinstance(ask.request, (m.Reset, m.Restore)):
            self.asks.appendleft(ask)
            ask = self._make(ask.rows[0])
        self._last = ask
        try:
            if ask.kind == "attach":
                assert self._layout is not None
                self.block = self.channel.share(self._layout, awake_s=self._awake_s)
            else:
                self.channel.send(self._step(ask) if ask.request is None else ask.request)
        except (NotTransferable, BadFrame) as error:
            return ask.kind, ask.rows, to_failed(error)
        if ask.kind == "make":
            self.broken.discard(ask.rows[0])
        return None

    def _step(self, ask: Ask) -> m.StepRows:
        assert self.block is not None
        assert ask.actions is not None
        actions, shared = ask.actions, self.block.actions
        exact = shared is not None and all(map(partial(put_exactly, shared), ask.rows, actions))
        return m.StepRows(list(ask.rows), None if exact else actions)

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
        self.asks = deque(ask for ask in self.asks if ask.kind in ("make", "attach"))
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
        self.asks.clear()
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
