"""ProcessLanes: the engine under vector environments in worker processes.

Requests go out per worker, results come back per lane, and a lane that fails is reported without holding up the
others. A worker writes its shared memory at any time: results are copied into LaneResults before anything uses them.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import inf
from types import TracebackType
from typing import Any

import numpy as np

from paddock.core.env import Info
from paddock.core.vector_env import AutoresetMode, OnFault
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
from paddock.hosting.failures import to_error, to_failed, walled_error
from paddock.hosting.frames import count_cores
from paddock.hosting.judge import Breach, Judge, RowJudge, WallRules, read_notes
from paddock.hosting.layout import Block, StepLayout
from paddock.hosting.process_channel import Arrivals, ProcessChannel
from paddock.spaces import Space
from paddock.spaces.rows import fill, layout, put_exactly
from paddock.vector.faults import Faults, is_collateral, is_fault
from paddock.vector.lanes import LaneObservations

Array = np.ndarray[Any, Any]
OpenChannel = Callable[[], ProcessChannel]

_MAKE_S = 60.0  # making may take longer than a step: imports, downloads
# About as long as a quick caller takes from one step to the next. Only where each worker can have a core.
_AWAKE_S = 200e-6
# How often deadlines are checked, unless one is over sooner: the check takes microseconds, and so may a step.
_CHECK_S = 0.05
# What NumPy raises for an observation that does not fit its space: a fault of the lane.
_UNFIT = (ValueError, TypeError, KeyError, IndexError)


class TimedOut(DeadlineExceeded, multiprocessing.TimeoutError):
    """The caller's time limit for lanes was over before they answered; late answers are thrown away."""

    code = "TIMED_OUT"
    session_alive = True


@dataclass
class Ask:
    """A request to a worker about these of its rows. Actions of a step are put into shared memory when it is sent."""

    rows: Sequence[int]
    request: m.Request
    actions: list[Any] | None = None


class LaneWorker:
    """One worker process with the lanes from ``first`` on, one for each of ``makes``: what it was asked, and is next.

    A row is a lane's number within this worker.
    """

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
        self._step_of_all = Ask(range(len(makes)), m.StepRows())
        self.layout: StepLayout | None = None  # of the memory to share, and
        self.awake_s = 0.0  # how long the worker may spin for the next step, both known when all lanes are made
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
        self.lost = False
        self.broken.update(range(len(self.lanes)))
        makes = [self._make(row) for row in range(len(self.lanes))]
        self.last = makes[0]  # what the next reply answers
        self.asks.extendleft(reversed(makes))

    def _make(self, row: int) -> Ask:
        return Ask([row], m.Make(row, self._makes[row], self._autoreset))

    @property
    def busy(self) -> bool:
        """Whether replies are owed, abandoned ones included."""
        return not self.lost and self.channel.pending

    def keep_copies(self) -> None:
        """Copy what waits to be sent: the caller may write into its arrays before its turn comes."""
        for ask in self.asks:
            if type(ask.request) is not m.Make:
                ask.request, ask.actions = copy_if_possible(ask.request), copy_if_possible(ask.actions)

    def send_next(self) -> m.Failed | None:
        """Send the next request, to a worker that owes no reply. WorkerLost if the process is gone.

        One at a time: if both ends wrote more than a socket holds, each would wait for the other to read. A request
        that can't cross is answered here with NotTransferable and never reaches the process.
        """
        self.last = ask = self.asks.popleft()
        if ask.rows[0] in self.broken and isinstance(ask.request, (m.Reset, m.Restore)):
            self.asks.appendleft(ask)
            self.last = ask = self._make(ask.rows[0])
        try:
            making = type(ask.request) is m.Make
            if self.block is None and self.layout is not None and not making:
                self.block = self.channel.share(self.layout, awake_s=self.awake_s)
            if ask.actions is not None:
                self._put_actions(ask, ask.actions)
            self.channel.send(ask.request)
            if making:  # only now: Ctrl-C may come before
                self.broken.discard(ask.rows[0])
        except (NotTransferable, BadFrame) as error:
            return to_failed(error)
        return None

    def _put_actions(self, ask: Ask, actions: list[Any]) -> None:
        assert self.block is not None
        shared = self.block.actions
        if shared is None or not all(map(partial(put_exactly, shared), ask.rows, actions)):
            ask.request = m.StepRows(list(ask.rows), actions)  # they would be changed there

    def fill_actions(self, batch: Any, num_envs: int) -> bool:
        """Put its part of a batch of actions into shared memory; False if that would change one."""
        assert self.block is not None
        return self.block.actions is not None and fill(self.block.actions, batch, self.part, num_envs)

    def step_every_row(self) -> None:
        """Begin a step of all its lanes with the actions in shared memory. Hot: for a worker that is not busy."""
        self.last = self._step_of_all
        self.channel.send(self.last.request)

    def abandon_pending(self) -> None:
        """Throw away the reply to what was asked when it comes, and drop what was not asked yet."""
        self.asks = deque(ask for ask in self.asks if type(ask.request) is m.Make)
        if self.channel.pending and type(self.last.request) is m.Make:
            self.broken.update(self.last.rows)  # its reply, which would say whether it succeeded, is thrown away
        self.channel.abandon()

    def expires_s(self) -> float:
        """When the deadline of its current request is over, by time.monotonic."""
        if self._deadline_s is None or not self.busy:
            return inf
        heard, kind = self.channel.heard_s, type(self.last.request)
        if kind is m.Make:
            return heard + self._start_s
        if kind is not m.StepRows or self.block is None:
            return heard + self._deadline_s
        row, since = self.block.running()
        # What the worker claims counts only within what its rows can take together.
        latest = heard + self._deadline_s * (len(self.last.rows) if self._times_rows else 1)
        return latest if row is None else min(max(since, heard) + self._deadline_s, latest)

    def kill_overdue(self) -> dict[int, PaddockError]:
        """Kill the process because its deadline is over. Returns the error of each lane."""
        limit_s = self._start_s if type(self.last.request) is m.Make else self._deadline_s
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
        errors: dict[int, PaddockError] = {}
        for row, lane in enumerate(self.lanes):
            if culprit is None or row == culprit:
                errors[lane] = _of_lane(cause, lane)
            else:
                shared = f"lane {lane}: lost with lane {self.lanes[culprit]}, which shares its worker: {cause}"
                errors[lane] = WorkerLost(shared, lane=lane)
        return errors

    def _working_row(self) -> int | None:
        """The row that the process works on, if any; during a step that is the worker's own claim."""
        if not self.busy:
            return None
        if type(self.last.request) is not m.StepRows:
            return self.last.rows[0]
        row = None if self.block is None else self.block.running()[0]
        return row if row in self.last.rows else None

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


class LaneResults:
    """Each lane's newest result. rewards: float64[n]; terminations, truncations: bool[n]; infos by lane, if any.

    A lane is ``waiting`` from the moment something is asked of it until its result is here, then ``ready`` until
    ``take`` hands it out.
    """

    observations: LaneObservations  # set by ``make_room``

    def __init__(self, num_envs: int, *, tracks_ends: bool) -> None:
        self.num_envs = num_envs
        self.rewards: Array = np.zeros(num_envs, dtype=np.float64)
        self._flags: Array = np.zeros((2, num_envs), dtype=np.bool_)
        self.terminations, self.truncations = self._flags
        self.tracks_ends = tracks_ends
        self.over: Array = np.zeros(num_envs, dtype=np.bool_)  # lanes whose episode has ended, if that is tracked
        self.infos: dict[int, Info] = {}
        self.resetting: dict[int, Info | None] = {}  # lanes that the caller resets, with the options
        self.waiting: set[int] = set()
        self.ready: deque[int] = deque()
        self.untaken: dict[int, PaddockError] = {}  # faults of lanes that are ready and not yet taken

    def make_room(self, observation_space: Space[Any], *, copy: bool) -> None:
        """Allocate the observations, now that their space is known."""
        self.observations = LaneObservations(observation_space, self.num_envs, copy=copy)

    def put_part(self, part: slice, block: Block) -> None:
        """Copy a step of all lanes of one worker. Hot."""
        self.observations.put_part(part, block.observations)
        self.rewards[part] = block.rewards
        # Compared and not copied: a byte that is neither 0 nor 1 is not a bool.
        np.not_equal(block.flags, 0, out=self._flags[:, part])
        if self.tracks_ends:
            np.logical_or(self.terminations[part], self.truncations[part], out=self.over[part])

    def put_row(self, lane: int, block: Block, row: int, *observation: Any) -> None:
        """Copy a step of one lane; pass its observation if it is not in the block. NumPy raises if it does not fit."""
        if observation:
            self.observations.put(lane, observation[0])
        else:
            self.observations.put_row(lane, block.observations, row)
        self.rewards[lane] = block.rewards[row]
        self.terminations[lane], self.truncations[lane] = block.terminations[row] != 0, block.truncations[row] != 0
        self.over[lane] = self.terminations[lane] or self.truncations[lane]

    def put_nothing(self, lane: int, *, truncated: bool = False) -> None:
        """Record that no step was made: reward 0, and the observation stays what it was."""
        self.rewards[lane], self.terminations[lane], self.truncations[lane] = 0.0, False, truncated
        self.over[lane] |= truncated

    def finish(self, lane: int, info: Info | None = None) -> None:
        """Move the lane from waiting to ready. ``info`` adds to what its info says already."""
        if info:
            self.infos[lane] = {**self.infos[lane], **info} if lane in self.infos else info
        self.resetting.pop(lane, None)
        self.waiting.discard(lane)
        self.ready.append(lane)

    def skip(self, lanes: Iterable[int]) -> None:
        """Let these lanes do nothing in this step."""
        for lane in lanes:
            self.infos.pop(lane, None)
            self.put_nothing(lane)
            self.finish(lane)

    def take(self, count: int) -> list[int]:
        """Hand out the lanes that have been ready longest; their results are the caller's now."""
        taken = [self.ready.popleft() for _ in range(count)]
        if self.untaken:
            for lane in taken:
                self.untaken.pop(lane, None)
        return taken

    def clear_pending(self) -> None:
        """Drop everything that was asked or is ready."""
        for pending in (self.untaken, self.resetting, self.waiting, self.ready, self.infos):
            pending.clear()


class ProcessLanes:
    """Lanes in ``workers`` processes. After ``collect``, ``results`` holds each lane's newest result.

    ``makes`` says what each lane is, for the ``build`` of the worker's Host. With ``wall`` every reply is judged before
    anything is made of it, so that a lie leaves nothing half done. Used as a context, it abandons what Ctrl-C leaves
    half done, so that the next call begins from a known state.
    """

    def __init__(
        self,
        makes: Sequence[dict[str, Any]],
        *,
        workers: int,
        open_channel: OpenChannel,
        autoreset: str,
        on_fault: OnFault,
        deadline_s: float | None,
        max_concurrency: int | None,
        wall: WallRules | None = None,
    ) -> None:
        self.num_envs = len(makes)
        self.results = LaneResults(self.num_envs, tracks_ends=autoreset == AutoresetMode.DISABLED.value)
        self.faults = Faults(on_fault, self.num_envs)
        self.answers: dict[int, Any] = {}  # by lane: a value, or the error to raise
        self._rules = wall
        self._judges = [Judge(rules=wall, lane=lane) for lane in range(self.num_envs)]
        self._row_judges: dict[int, RowJudge] = {}  # by the first lane of the worker
        self._descriptions: dict[int, m.Description] = {}
        self._request_kind: type[m.Request] | None = None  # of what lanes are asked, if it is neither reset nor step
        self._unmade: dict[int, PaddockError] = {}  # lanes whose environment could not be made
        self._unreported: dict[int, PaddockError] = {}  # lanes that were lost while no call waited for them
        self._deadline_s, self._max_concurrency = deadline_s, max_concurrency
        self._check_by_s = inf if deadline_s is None else 0.0  # when to check deadlines, by time.monotonic
        self._arrivals = Arrivals()
        self._worker_by_fd: dict[int, LaneWorker] = {}
        self.workers: list[LaneWorker] = []
        workers = min(workers, self.num_envs)
        bounds = [self.num_envs * number // workers for number in range(workers + 1)]
        try:
            for first, end in pairwise(bounds):
                part = makes[first:end]
                worker = LaneWorker(
                    first, part, open_channel=open_channel, autoreset=autoreset, deadline_s=deadline_s, wall=wall
                )
                self.workers.append(worker)
                self._watch(worker)
                self._advance(worker)
        except BaseException:
            self.close(0.0)
            raise
        self._worker_of = [worker for worker in self.workers for _ in worker.lanes]

    def _watch(self, worker: LaneWorker) -> None:
        self._worker_by_fd[worker.fd] = worker
        self._arrivals.watch(worker.fd, worker.channel.child)

    def describe(self) -> list[m.Description]:
        """Wait until every environment is made, and return what each is. Raises if one can't be made."""
        while len(self._descriptions) < self.num_envs:
            if self._unmade or self._unreported:
                raise min({**self._unmade, **self._unreported}.values(), key=is_collateral)
            self._wait()
        return [self._descriptions[lane] for lane in range(self.num_envs)]

    def adopt(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        *,
        declared: Sequence[Space[Any]],
        copy: bool,
    ) -> None:
        """Share memory for these spaces of one lane. ``declared``: the observation space that each lane declared."""
        self.results.make_room(observation_space, copy=copy)
        for judge, space in zip(self._judges, declared, strict=True):
            judge.observe(space)
        awake_s = _AWAKE_S if len(self.workers) <= count_cores() else 0.0
        for worker in self.workers:
            rows = StepLayout(layout(observation_space), layout(action_space), len(worker.lanes))
            self._row_judges[worker.lanes[0]] = RowJudge(rows, self._judges[worker.part])
            worker.layout, worker.awake_s = rows, awake_s

    # Asking

    def _by_worker(self, lanes: Iterable[int]) -> list[tuple[LaneWorker, list[int]]]:
        """The workers of these lanes, each with the rows in question."""
        chosen: dict[int, tuple[LaneWorker, list[int]]] = {}
        for lane in lanes:
            worker = self._worker_of[lane]
            chosen.setdefault(worker.lanes[0], (worker, []))[1].append(lane - worker.lanes[0])
        return list(chosen.values())

    def begin_reset(self, lanes: Sequence[int], seeds: Sequence[int | None], options: Info | None) -> None:
        """Begin an episode in these lanes, with a seed for each lane of the batch. Under "restart" it is retried."""
        self._read_all(0.0)  # a worker that died meanwhile is not a fault of this reset
        self._request_kind = None
        for worker, rows in self._by_worker(lanes):
            asks: list[Ask] = []
            for row in rows:
                lane = worker.lanes[row]
                self.results.infos.pop(lane, None)
                lost = self._unreported.pop(lane, None) is not None
                seed = self.faults.choose_seed(lane, seeds[lane], lost=lost)
                asks.append(Ask([row], m.Reset(row, seed, options)))
                self.results.resetting[lane] = options
            self._submit(worker, asks)

    def begin_step_of_all(self, actions: Any) -> bool:
        """The fast way for the common case: no lane fails, is busy or is held back. False if it does not apply."""
        results = self.results
        if self.faults.restarting or self._unreported or results.waiting or results.ready:
            return False
        if self._max_concurrency is not None:
            return False
        for worker in self.workers:
            if worker.lost or worker.asks or worker.channel.pending:
                return False
        if not all(worker.fill_actions(actions, self.num_envs) for worker in self.workers):
            return False
        self._request_kind = None
        results.infos.clear()  # left behind if an error was raised instead of the results
        results.waiting.update(range(self.num_envs))
        for worker in self.workers:
            try:
                worker.step_every_row()
            except WorkerLost as error:
                self._report_lost(worker, error)
        return True

    def begin_step(self, lanes: Sequence[int], actions: Sequence[Any]) -> None:
        """Step these lanes, one action each. A lane that failed begins a new episode instead; a frozen one skips."""
        self._request_kind = None
        action_of = dict(zip(lanes, actions, strict=True))
        for worker, rows in self._by_worker(lanes):
            asks: list[Ask] = []
            steps: list[int] = []
            for row in rows:
                lane = worker.lanes[row]
                self.results.infos.pop(lane, None)
                if lane in self.faults.frozen:
                    self.results.skip([lane])
                elif lane in self._unreported:
                    self._fault(lane, self._unreported.pop(lane))
                elif lane in self.faults.restarting:
                    asks.append(Ask([row], m.Reset(row, self.faults.next_seed(lane))))
                else:
                    steps.append(row)
            if steps:
                asks.append(Ask(steps, m.StepRows(steps), [action_of[worker.lanes[row]] for row in steps]))
            self._submit(worker, asks)

    def begin_ask(self, requests: dict[int, m.Request]) -> None:
        """Send one request to each of these lanes; ``answers`` will have the values."""
        self._read_all(0.0)
        self._request_kind = type(next(iter(requests.values())))
        self.answers.clear()
        for worker, rows in self._by_worker(requests):
            wanted = [row for row in rows if not self._answer_without_env(worker.lanes[row])]
            self._submit(worker, [Ask([row], requests[worker.lanes[row]]) for row in wanted])

    def _answer_without_env(self, lane: int) -> bool:
        """Answer for a lane that has no environment to ask: one that was lost, or has no episode to show."""
        if self._request_kind is m.Restore:  # a restored lane needs no environment but a new one
            return False
        if lane in self._unreported:
            self._fault(lane, self._unreported.pop(lane))
            return True
        if self._request_kind is m.Render and lane in self.faults.restarting:
            self.answers[lane] = None
            self.results.finish(lane)
            return True
        return False

    def _submit(self, worker: LaneWorker, asks: Sequence[Ask]) -> None:
        self.results.waiting.update(worker.lanes[row] for ask in asks for row in ask.rows)
        worker.asks.extend(asks)
        self._advance(worker)
        worker.keep_copies()

    def _advance(self, worker: LaneWorker) -> None:
        """Send the worker's next request, unless it owes a reply or enough others are busy; start it if it is gone."""
        while worker.asks and not worker.busy:
            starts, most = type(worker.asks[0].request) is m.Make, self._max_concurrency
            if most is not None and not starts and sum(one.busy for one in self.workers) >= most:
                return
            try:
                if worker.lost:
                    worker.start()
                    self._watch(worker)
                refused = worker.send_next()
            except WorkerLost as error:
                self._report_lost(worker, error)
                return  # ``collect`` starts it again, once all that came from the old process was read
            if refused is not None:
                self._dispatch(worker, refused)

    # Collecting

    def collect(self, count: int, timeout: float | None = None) -> None:
        """Wait until ``count`` lanes are ready. After ``timeout`` seconds, abandon what is pending: TimedOut."""
        ready = self.results.ready
        ends_s = inf if timeout is None else time.monotonic() + timeout
        while len(ready) < count:
            for worker in self.workers:
                if worker.asks:
                    self._advance(worker)
            if len(ready) < count and not self._wait(ends_s):
                late = sorted(self.results.waiting)
                self.abandon_pending()
                raise TimedOut(f"lanes {late} did not answer within {timeout} s.", lane=late[0])

    def _wait(self, ends_s: float = inf) -> bool:
        """Read what arrives next. False if the time ``ends_s`` came first."""
        came = self._read_all(min(ends_s, self._check_by_s) - time.monotonic())
        now_s = time.monotonic()
        if now_s >= self._check_by_s:
            self._kill_overdue(now_s)
        return came or now_s < ends_s

    def _read_all(self, timeout_s: float) -> bool:
        heard = self._arrivals.wait(timeout_s)
        for fd, gone in heard.items():
            worker = self._worker_by_fd[fd]
            self._read_replies(worker)
            if gone and not worker.lost:  # what it wrote has been read; its socket may live on in a child of its own
                self._report_lost(worker, worker.channel.kill())
        return bool(heard)

    def _read_replies(self, worker: LaneWorker) -> None:
        try:
            while (reply := worker.channel.poll()) is not None:
                self._dispatch(worker, reply)
                if worker.asks and not worker.lost:
                    self._advance(worker)
                if not worker.busy:  # no need to ask the system for more
                    return
        except WorkerLost as error:
            self._report_lost(worker, error)
        except Breach as breach:
            self._report(worker, worker.kill_because(breach.row, breach.error))
        except Exception as error:  # BadFrame, or a reply odder than anything expected here
            self._report_lost(worker, worker.channel.kill(f"broke the protocol: {error}", cause="protocol"))
        if not worker.lost:
            self._advance(worker)  # also after a reply that was abandoned

    def _dispatch(self, worker: LaneWorker, reply: m.StepReply) -> None:
        rows, request = worker.last.rows, worker.last.request
        if type(request) is m.StepRows:
            self._finish_steps(worker, rows, reply)
            return
        lane, found = worker.lanes[rows[0]], self._read(worker, rows[0], reply)
        failed = isinstance(found, PaddockError)
        if type(request) is m.Reset:
            self._finish_reset(lane, found)
        elif type(request) is not m.Make:
            self.answers[lane] = found
            if not failed and type(request) is m.Restore:  # it has an episode again, whatever it was before
                self._unreported.pop(lane, None)
                self.faults.mark_begun(lane)
            self.results.finish(lane)
        elif failed:
            worker.broken.add(rows[0])
            self._unmade[lane] = found
        else:
            self._unmade.pop(lane, None)
            self._descriptions[lane] = found

    def _read(self, worker: LaneWorker, row: int, reply: m.StepReply) -> Any:
        """What the reply to the worker's last request says, or the error; Breach for a lie."""
        if type(reply) is m.Failed:
            return self._error(worker, row, reply)
        try:
            return self._judges[worker.lanes[row]].read(worker.last.request, reply)
        except EnvironmentViolation as error:
            raise Breach(row, error) from None

    def _finish_reset(self, lane: int, found: Any) -> None:
        unmade = self._unmade.pop(lane, None)
        if isinstance(found, PaddockError):
            self._fail(lane, unmade or found)
            return
        observation, info = found
        try:
            self.results.observations.put(lane, observation)
        except _UNFIT as error:
            self._fault(lane, to_error(to_failed(error), lane=lane))
            return
        self.results.put_nothing(lane)
        self.results.over[lane] = False
        self.faults.mark_begun(lane)
        self.results.finish(lane, info)

    def _finish_steps(self, worker: LaneWorker, rows: Sequence[int], reply: m.StepReply) -> None:
        if type(reply) is m.Failed:
            for row in rows:
                self._fail(worker.lanes[row], self._error(worker, row, reply))
            return
        block, judge, results = worker.block, self._row_judges[worker.lanes[0]], self.results
        if type(reply) is not m.Rows or block is None:
            raise BadFrame("Step: the reply is not rows.")
        loose = block.observations is None
        if reply.notes is None and len(rows) == block.rows and not loose:  # hot
            results.put_part(worker.part, judge.read(block, rows))
            results.waiting.difference_update(worker.lanes)
            results.ready.extend(worker.lanes)
            return
        notes = read_notes([] if reply.notes is None else reply.notes, rows, loose=loose)
        failed = {
            row: self._error(worker, row, note[0]) for row, note in notes.items() if isinstance(note[0], m.Failed)
        }
        read = {row: self._read_note(worker, row, note) for row, note in notes.items() if row not in failed}
        # A row that failed has no results, and those of rows that were not stepped do not count.
        block = judge.read(block, [row for row in rows if row not in failed])
        for row in rows:
            lane = worker.lanes[row]
            if row in failed:
                self._fail(lane, failed[row])
                continue
            info, *observation = read.get(row, ({},))
            try:
                results.put_row(lane, block, row, *observation)
            except _UNFIT as error:
                self._fault(lane, to_error(to_failed(error), lane=lane))
            else:
                results.finish(lane, info)

    def _read_note(self, worker: LaneWorker, row: int, note: tuple[Any, ...]) -> list[Any]:
        judge = self._judges[worker.lanes[row]]
        try:
            return [judge.info(note[0]), *map(judge.observation, note[1:])]
        except EnvironmentViolation as error:
            raise Breach(row, error) from None

    # What fails

    def _error(self, worker: LaneWorker, row: int, reply: m.Failed) -> PaddockError:
        """The error that a failure stands for; Breach if an untrusted worker has run out of memory."""
        error = self._judges[worker.lanes[row]].failure(reply)
        if self._rules is not None and isinstance(error, WorkerLost):
            raise Breach(row, walled_error(reply))
        return error

    def _fail(self, lane: int, error: PaddockError) -> None:
        if is_fault(error):
            self._fault(lane, error)
        else:
            self.faults.mistake(lane, error)
            self.results.put_nothing(lane)
            self.results.finish(lane)

    def _fault(self, lane: int, error: PaddockError) -> None:
        worker, results = self._worker_of[lane], self.results
        row = lane - worker.lanes[0]
        worker.broken.add(row)
        self.answers[lane] = error
        if self._request_kind is not None and self.faults.on_fault != "raise":
            # The caller who asked gets the error. The next step reports the end of the episode.
            if lane not in self.faults.restarting:
                self._unreported[lane] = error
            results.finish(lane)
            return
        info = self.faults.report(lane, error, beginning=lane in results.resetting)
        if lane in results.resetting and self.faults.tries_again(lane):
            results.infos[lane] = info
            again = m.Reset(row, self.faults.next_seed(lane), results.resetting[lane])
            worker.asks.append(Ask([row], again))
            return
        results.untaken[lane] = error
        results.put_nothing(lane, truncated=True)
        results.finish(lane, info)

    def _kill_overdue(self, now_s: float) -> None:
        """Kill workers whose deadline is over; check again when the next one may be, but not after every step."""
        self._check_by_s = now_s + min(_CHECK_S, self._deadline_s or _CHECK_S)
        for worker in self.workers:
            expires_s = worker.expires_s()
            if now_s >= expires_s:
                self._report(worker, worker.kill_overdue())
            else:
                self._check_by_s = min(self._check_by_s, expires_s)

    def _report_lost(self, worker: LaneWorker, error: WorkerLost) -> None:
        self._report(worker, worker.mark_lost(error))

    def _report(self, worker: LaneWorker, errors: dict[int, PaddockError]) -> None:
        if self._worker_by_fd.pop(worker.fd, None) is not None:
            self._arrivals.unwatch(worker.fd, worker.channel.child)
        for lane, error in errors.items():
            if lane in self.results.waiting:
                self._fault(lane, error)
            elif lane not in self.faults.restarting:  # one that restarts anyway has nothing to lose
                self._unreported[lane] = error

    # Ending

    def abandon_pending(self) -> None:
        """Stop waiting: results that still come are thrown away, never taken for newer ones."""
        for worker in self.workers:
            worker.abandon_pending()
        for lane in self.results.untaken:
            self.faults.take_back(lane)
        self._unreported.update(self.results.untaken)  # faults are not forgotten: the next step reports them
        self.results.clear_pending()
        self.answers.clear()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self.abandon_pending()
            self._watch_again()

    def _watch_again(self) -> None:
        """Watch the workers from scratch, and report those that Ctrl-C has ended: their descriptors may be reused."""
        self._arrivals, self._worker_by_fd = Arrivals(), {}
        for worker in self.workers:
            if worker.lost:
                continue
            if worker.channel.fileno() == -1:
                self._report_lost(worker, worker.channel.kill())
            else:
                self._watch(worker)

    def close(self, grace_s: float) -> None:
        """Let every environment close, all within ``grace_s`` seconds; then kill what still runs."""
        by_s = time.monotonic() + grace_s
        for worker in self.workers:
            worker.begin_close()
        for worker in self.workers:
            worker.close(by_s - time.monotonic())
