"""ProcessLanes: the engine under vector environments in worker processes. Requests go out by worker, results come back
by lane, and whoever fails is reported without holding up the others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from paddock.core.env import Info
from paddock.core.vector_env import AutoresetMode, OnFault
from paddock.errors import PaddockError, WorkerLost
from paddock.hosting import messages as m
from paddock.hosting.rows import layout
from paddock.hosting.wall_rules import WallRules
from paddock.spaces import Space
from paddock.vector.faults import collateral
from paddock.vector.lane_outcomes import LaneOutcomes
from paddock.vector.lane_wall import Breach, LaneWall
from paddock.vector.lane_worker import Job, LaneWorker, OpenChannel, by_worker, shares
from paddock.vector.timed_out import TimedOut
from paddock.vector.worker_poll import WorkerPoll

# About as long as a quick caller takes from one step to the next. Only where each worker can have a core.
_AWAKE_S = 200e-6
# Deadlines are looked at this often, or when the soonest one is over; looking takes microseconds, as a step may.
_LOOK_S = 0.05


class ProcessLanes(LaneOutcomes):
    """Lanes in ``workers`` processes. After ``collect`` the arrays and dicts hold each lane's newest result.

    ``makes`` says what each lane is, for the ``build`` of the worker's Host. With ``wall`` workers are not believed.
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
        super().__init__(
            len(makes),
            on_fault=on_fault,
            tracks_ends=autoreset == AutoresetMode.DISABLED.value,
            wall=None if wall is None else LaneWall(wall, len(makes)),
        )
        self._deadline_s, self._max_concurrency = deadline_s, max_concurrency
        self._look_s = 0.0  # when to look at deadlines at the latest, by time.monotonic
        self._nap_s = min(_LOOK_S, deadline_s or _LOOK_S)
        self._poll = WorkerPoll()
        self.workers: list[LaneWorker] = []
        try:
            for first, count in shares(self.num_envs, workers):
                part = makes[first : first + count]
                worker = LaneWorker(
                    first, part, open_channel=open_channel, autoreset=autoreset, deadline_s=deadline_s, wall=wall
                )
                self.workers.append(worker)
                self._poll.watch(worker)
                self._send_next(worker)
        except BaseException:
            self.close(0.0)
            raise
        self._worker_of = [worker for worker in self.workers for _ in worker.lanes]

    def describe(self) -> list[m.Description]:
        """What each lane's environment is, once all are made. An environment that can't be made is raised."""
        while len(self.descriptions) < self.num_envs:
            if self._unmade or self._unreported:
                raise min({**self._unmade, **self._unreported}.values(), key=collateral)
            self._wait(None)
        return [self.descriptions[lane] for lane in range(self.num_envs)]

    def adopt(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        *,
        copy: bool,
        declared: Sequence[Space[Any]] = (),
    ) -> None:
        """The spaces of a lane are known: share memory for them. ``declared``: what each lane said that it observes."""
        self.make_room(observation_space, copy=copy)
        if self._wall is not None:
            self._wall.adopt(declared, observation_space, self.workers)
        awake_s = _AWAKE_S if len(self.workers) <= (os.cpu_count() or 1) else 0.0
        for worker in self.workers:
            worker.attach(layout(observation_space), layout(action_space), awake_s=awake_s)
            self._send_next(worker)

    def begin_reset(self, lanes: Sequence[int], seeds: Sequence[int | None], options: Info | None) -> None:
        """Begin an episode in these lanes; a seed for each lane of the batch. Under "restart" it is tried again."""
        self._hear_all(0.0)  # a worker that died meanwhile is no fault of this reset
        self._asked = None
        for worker, rows in by_worker(self._worker_of, lanes):
            resets: dict[int, tuple[int | None, Info | None]] = {}
            for row in rows:
                lane = worker.lanes[row]
                self.infos.pop(lane, None)
                lost = self._unreported.pop(lane, None) is not None
                resets[row] = self.faults.seeded(lane, seeds[lane], lost=lost), options
                self.resetting[lane] = options
            self._submit(worker, Job("reset", (), resets=resets))

    def begin_step_of_all(self, actions: Any) -> bool:
        """The short way for the common case: nobody fails, is busy or is held back. False if it does not apply."""
        if self.faults.anew or self._unreported or self.waiting or self.ready or self._max_concurrency is not None:
            return False
        for worker in self.workers:
            if worker.busy or worker.lost:
                return False
        if not all(worker.fill_actions(actions, self.num_envs) for worker in self.workers):
            return False
        self._asked = None
        self.infos.clear()  # left behind if an error was raised instead of the results
        try:
            self.waiting.update(range(self.num_envs))
            for worker in self.workers:
                try:
                    worker.step_every_row()
                except WorkerLost as error:
                    self._lose(worker, error)
        except BaseException as error:
            self.forget_if_interrupted(error)
            raise
        return True

    def begin_step(self, lanes: Sequence[int], actions: Sequence[Any]) -> None:
        """Step these lanes, an action each. Lanes that failed begin anew instead, frozen ones do nothing."""
        self._asked = None
        action_of = dict(zip(lanes, actions, strict=True))
        for worker, rows in by_worker(self._worker_of, lanes):
            resets: dict[int, tuple[int | None, Info | None]] = {}
            steps: list[int] = []
            for row in rows:
                lane = worker.lanes[row]
                self.infos.pop(lane, None)
                if lane in self.faults.frozen:
                    self.rest([lane])
                elif lane in self._unreported:
                    self._fault(lane, self._unreported.pop(lane))
                elif lane in self.faults.anew:
                    resets[row] = self.faults.next_seed(lane), None
                else:
                    steps.append(row)
            if resets or steps:
                chosen = [action_of[worker.lanes[row]] for row in steps]
                self._submit(worker, Job("step", steps, chosen, resets))

    def begin_ask(self, requests: dict[int, m.Request]) -> None:
        """One request for each of these lanes; ``answers`` will have the values."""
        self._hear_all(0.0)
        self._asked = type(next(iter(requests.values())))
        self.answers.clear()
        for worker, rows in by_worker(self._worker_of, list(requests)):
            asked = [row for row in rows if not self._answer_for(worker.lanes[row])]
            if asked:
                self._submit(worker, Job("ask", asked, requests=[requests[worker.lanes[row]] for row in asked]))

    def _answer_for(self, lane: int) -> bool:
        """Answer for a lane that has no environment to ask: one that was lost, or has no episode to show."""
        if self._asked is m.Restore:  # a restored lane needs no environment but a new one
            return False
        if lane in self._unreported:
            self._fault(lane, self._unreported.pop(lane))
            return True
        if self._asked is m.Render and lane in self.faults.anew:
            self.answers[lane] = None
            self.now_ready(lane)
            return True
        return False

    def collect(self, count: int, timeout: float | None = None) -> None:
        """Wait until ``count`` lanes are ready. TimedOut after ``timeout`` seconds, and all is forgotten."""
        ends_s = None if timeout is None else time.monotonic() + timeout
        try:
            while len(self.ready) < count:
                for worker in self.workers:
                    if worker.jobs:
                        self._run_jobs(worker)
                if len(self.ready) < count and not self._wait(ends_s):
                    late = sorted(self.waiting)
                    self.forget()
                    raise TimedOut(f"lanes {late} did not answer within {timeout} s.", lane=late[0])
        except BaseException as error:
            self.forget_if_interrupted(error)
            raise

    def forget(self) -> None:
        """Nobody waits any more; results that still come are thrown away, never taken for newer ones."""
        for worker in self.workers:
            worker.forget()
        for lane in self.untaken:
            self.faults.take_back(lane)
        self._unreported.update(self.untaken)  # faults are not forgotten: the next step tells of them
        for left in (self.untaken, self.resetting, self.waiting, self.ready, self.infos, self.answers):
            left.clear()

    def forget_if_interrupted(self, error: BaseException) -> None:
        """What Ctrl-C leaves half done is forgotten, so that the next call begins from something known."""
        if not isinstance(error, Exception):
            self.forget()

    def close(self, grace_s: float) -> None:
        """Let every environment close, together for at most ``grace_s`` seconds; then end what still runs."""
        by_s = time.monotonic() + grace_s
        for worker in self.workers:
            worker.begin_close()
        for worker in self.workers:
            worker.end_close(by_s)

    def _submit(self, worker: LaneWorker, job: Job) -> None:
        try:
            self.waiting.update(worker.lanes[row] for row in (*job.rows, *job.resets))
            worker.jobs.append(job)
            self._run_jobs(worker)
            if worker.busy:
                worker.keep_copies()
        except BaseException as error:
            self.forget_if_interrupted(error)
            raise

    def _run_jobs(self, worker: LaneWorker) -> None:
        while worker.jobs and not worker.busy and self._may_run():
            try:
                if worker.lost:
                    worker.start()
                    self._poll.watch(worker)
                worker.run(worker.jobs.popleft())
            except WorkerLost as error:
                self._lose(worker, error)
            self._send_next(worker)

    def _may_run(self) -> bool:
        return self._max_concurrency is None or sum(one.busy for one in self.workers) < self._max_concurrency

    def _send_next(self, worker: LaneWorker) -> None:
        try:
            while not worker.lost and (refused := worker.send_next()) is not None:
                self._take_in(worker, *refused)
        except WorkerLost as error:
            self._lose(worker, error)

    def _wait(self, ends_s: float | None) -> bool:
        """Take in what arrives next. False if the time ``ends_s`` came first."""
        timeout_s = None if self._deadline_s is None else self._nap_s
        if ends_s is not None:
            left_s = max(0.0, ends_s - time.monotonic())
            timeout_s = left_s if timeout_s is None else min(timeout_s, left_s)
        heard = self._hear_all(timeout_s)
        if self._deadline_s is not None:
            now_s = time.monotonic()
            if not heard or now_s >= self._look_s:
                self._end_overdue(now_s)
        return heard or ends_s is None or time.monotonic() < ends_s

    def _hear_all(self, timeout_s: float | None) -> bool:
        heard = self._poll.wait(timeout_s)
        for worker, gone in heard.items():
            self._hear(worker)
            if gone and not worker.lost:  # what it wrote has been read; its socket may live on in a child of its own
                self._lose(worker, worker.channel.lose())
        return bool(heard)

    def _hear(self, worker: LaneWorker) -> None:
        try:
            while (heard := worker.arrived()) is not None:
                self._take_in(worker, *heard)
                if worker.busy:
                    self._send_next(worker)
                if not worker.busy:  # it owes nothing, or is gone: no need to ask the system for more
                    return
        except WorkerLost as error:
            self._lose(worker, error)
        except Breach as breach:
            self._report(worker, worker.end_because(breach.row, breach.error))
        except Exception as error:  # BadFrame, or a reply so odd that nobody thought of it
            self._lose(worker, worker.channel.lose(f"broke the protocol: {error}", cause="protocol"))
        self._send_next(worker)  # also after a reply that nobody wanted

    def _end_overdue(self, now_s: float) -> None:
        """End those whose deadline is over; look again when the next one may be, but not after every step."""
        soonest_s = now_s + min(_LOOK_S, self._deadline_s or _LOOK_S)
        for worker in self.workers:
            expires_s = worker.expires_s()
            if expires_s is None:
                continue
            if now_s >= expires_s:
                self._report(worker, worker.end_overdue())
            else:
                soonest_s = min(soonest_s, expires_s)
        self._look_s, self._nap_s = soonest_s, soonest_s - now_s

    def _lose(self, worker: LaneWorker, error: WorkerLost) -> None:
        self._report(worker, worker.lose(error))

    def _report(self, worker: LaneWorker, errors: dict[int, PaddockError]) -> None:
        self._poll.unwatch(worker)
        for lane, error in errors.items():
            if lane in self.waiting:
                self._fault(lane, error)
            elif lane not in self.faults.anew:  # one that begins anew anyway has nothing to lose
                self._unreported[lane] = error
