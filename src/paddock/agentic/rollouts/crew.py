"""Crew: the seats that work at the same time, and who watches the clock. However it ends, it closes what it made.

A seat that is late is given up: its rollout is an error from then on, whatever comes of it, and another seat goes on in
its place with an environment of its own.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from paddock.agentic.rollouts.asking import Asking
from paddock.agentic.rollouts.playing import Job, Playing
from paddock.agentic.rollouts.result import Rollout
from paddock.agentic.rollouts.seat import Seat, Supply, out_of_time
from paddock.core.env import Env
from paddock.errors import DeadlineExceeded
from paddock.record.trace.writer import TraceWriter

_CLOSING_S = 30.0  # for environments to close in
_GIVEN_UP_S = 3.0  # and for those that did not answer
_PATIENCE_S = 0.25  # past its time: whoever looks at the clock itself is left to end itself
_GLANCE_S = 0.5  # between looks at the clock: a signal must get its turn on every platform

Plan = Callable[[Env[Any, Any]], Sequence[Job]]


class Crew:
    """``plan`` says what to do, given the first environment; it is asked in that environment's own thread."""

    def __init__(
        self,
        supply: Supply,
        asking: Asking,
        plan: Plan,
        *,
        concurrency: int,
        timeout_s: float | None,
        max_turns: int | None,
        trace: TraceWriter | None,
        name: str | None,
    ) -> None:
        self._supply, self._asking, self._plan = supply, asking, plan
        self._concurrency, self._timeout_s, self._max_turns = concurrency, timeout_s, max_turns
        self._trace, self._name = trace, name
        self._changed = threading.Condition()
        self._planned: int | None = None
        self._jobs: deque[Job] = deque()
        self._results: dict[int, Rollout] = {}
        self._seats: list[Seat] = []
        self._late: list[threading.Thread] = []
        self._failure: BaseException | None = None
        self._stopping = False

    # What the caller's thread does.

    def gather(self, total: Callable[[int], None], on_result: Callable[[Rollout], None]) -> list[Rollout]:
        """All results, by their numbers. ``total`` hears how many there will be, ``on_result`` each as it comes."""
        heard = 0
        try:
            self._hire()
            planned = self._await_plan()
            total(planned)
            while heard < planned:
                for rollout in self._news(heard):
                    on_result(rollout)
                    heard += 1
            return [self._results[number] for number in sorted(self._results)]
        finally:
            self._dismiss()

    def _news(self, heard: int) -> list[Rollout]:
        """The results after those that were heard of, if there are any soon."""
        with self._changed:
            if self._failure is not None:
                raise self._failure
            if len(self._results) == heard:
                self._man_the_seats()
                self._changed.wait(self._until_the_next())
                self._give_up_the_late()
            return list(self._results.values())[heard:]

    def _await_plan(self) -> int:
        by_s = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        with self._changed:
            while self._planned is None:
                if self._failure is not None:
                    raise self._failure
                if by_s is not None and time.monotonic() >= by_s:
                    raise DeadlineExceeded(f"The first environment was not ready within {self._timeout_s} s.")
                self._changed.wait(_GLANCE_S)
            return self._planned

    def _hire(self) -> None:
        seat = Seat(self, self._supply, self._trace, self._name)
        self._seats.append(seat)
        seat.thread.start()

    def _man_the_seats(self) -> None:
        """As many seats as there is work for. None has ended while there is: it is given up, or goes on."""
        idle = sum(seat.playing is None for seat in self._seats)
        while self._jobs and len(self._seats) < self._concurrency and idle < len(self._jobs):
            self._hire()
            idle += 1

    def _until_the_next(self) -> float:
        ends = [seat.by_s for seat in self._seats if seat.playing is not None and seat.by_s is not None]
        return min([_GLANCE_S, *(max(0.0, end - time.monotonic()) for end in ends)])

    def _give_up_the_late(self) -> None:
        now = time.monotonic()
        for seat in list(self._seats):
            if seat.playing is not None and seat.by_s is not None and now >= seat.by_s:
                self._give_up(seat)

    def _give_up(self, seat: Seat) -> None:
        playing = seat.playing
        assert playing is not None
        seat.given_up = True
        self._seats.remove(seat)
        failure = out_of_time(playing)
        self._results[playing.job.number] = playing.rollout(failure)
        playing.end_episode(failure)
        self._supply.leave_behind()
        self._abandon(seat)

    def _abandon(self, seat: Seat) -> None:
        # In a thread of its own: to end a far environment may take a while, and others are late too.
        thread = threading.Thread(target=seat.abandon, name="paddock-abandon", daemon=True)
        thread.start()
        self._late.append(thread)
        self._late.append(seat.thread)

    def _dismiss(self) -> None:
        with self._changed:
            self._stopping = True
            self._jobs.clear()
            busy = [seat for seat in self._seats if seat.playing is not None]
            for seat in busy:
                seat.given_up = True
            self._changed.notify_all()
        for seat in busy:  # interrupted: nobody wants their results
            self._abandon(seat)
        self._asking.close()
        _join([seat.thread for seat in self._seats if seat not in busy], _CLOSING_S)
        _join(self._late, _GIVEN_UP_S)

    # What the threads of the seats call.

    def prepare(self, seat: Seat) -> None:
        """The first seat finds out what there is to do."""
        if self._planned is not None or self._seats[0] is not seat:
            return
        jobs = self._plan(seat.env())
        with self._changed:
            self._jobs.extend(jobs)
            self._planned = len(jobs)
            self._changed.notify_all()

    def next_job(self, seat: Seat) -> Job | None:
        """The next job, with its time running; None if there is no more."""
        with self._changed:
            if self._stopping or seat.given_up or not self._jobs:
                return None
            job = self._jobs.popleft()
            by_s = None if self._timeout_s is None else time.monotonic() + self._timeout_s
            seat.by_s = None if by_s is None else by_s + _PATIENCE_S
            seat.playing = Playing(job, self._asking, max_turns=self._max_turns, by_s=by_s)
            self._changed.notify_all()
            return job

    def take_result(self, seat: Seat, job: Job, rollout: Rollout) -> bool:
        """Keep a result; False if the seat was given up before."""
        with self._changed:
            if seat.given_up:
                return False
            seat.playing = None
            self._results[job.number] = rollout
            self._changed.notify_all()
            return True

    def fail(self, error: BaseException) -> None:
        """End the whole."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()


def _join(threads: Sequence[threading.Thread], within_s: float) -> None:
    by_s = time.monotonic() + within_s
    for thread in threads:
        thread.join(max(0.0, by_s - time.monotonic()))
