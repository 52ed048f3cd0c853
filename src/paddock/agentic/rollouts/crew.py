"""Crew: the players that work at the same time, and who watches the clock. However it ends, it closes what it made.

A player that is late is given up: its rollout is an error from then on, whatever comes of it, and another goes on in
its place with an environment of its own.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from paddock.agentic.rollouts.asking import Asking
from paddock.agentic.rollouts.player import Player, out_of_time
from paddock.agentic.rollouts.playing import Job, Playing
from paddock.agentic.rollouts.result import Rollout
from paddock.agentic.rollouts.supply import Supply
from paddock.core.env import Env
from paddock.errors import DeadlineExceeded
from paddock.record.trace.writer import TraceWriter

if TYPE_CHECKING:
    from typing_extensions import Self

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
        self._players: list[Player] = []
        self._late: list[threading.Thread] = []
        self._failure: BaseException | None = None
        self._stopping = False

    # What the caller's thread does.

    def begin(self) -> int:
        """Set to work; how many results there will be."""
        self._hire()
        return self._await_plan()

    def results(self) -> Iterator[list[Rollout]]:
        """Those that came since the last look, until all are there; none, now and then, while nothing happens."""
        heard = 0
        while heard < (self._planned or 0):
            news = self._news(heard)
            heard += len(news)
            yield news

    def turns_under_way(self) -> int:
        """Turns so far of the rollouts that have not ended."""
        with self._changed:
            return sum(player.playing.turns for player in self._players if player.playing is not None)

    def in_order(self) -> list[Rollout]:
        """All results so far, by their numbers."""
        return [self._results[number] for number in sorted(self._results)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._dismiss()

    def _news(self, heard: int) -> list[Rollout]:
        """The results after those that were heard of, if there are any soon."""
        with self._changed:
            if self._failure is not None:
                raise self._failure
            if len(self._results) == heard:
                self._hire_enough()
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
        player = Player(self, self._supply, self._trace, self._name)
        self._players.append(player)
        player.thread.start()

    def _hire_enough(self) -> None:
        """As many players as there is work for. None has ended while there is: it is given up, or goes on."""
        idle = sum(player.playing is None for player in self._players)
        while self._jobs and len(self._players) < self._concurrency and idle < len(self._jobs):
            self._hire()
            idle += 1

    def _until_the_next(self) -> float:
        ends = [player.by_s for player in self._players if player.playing is not None and player.by_s is not None]
        return min([_GLANCE_S, *(max(0.0, end - time.monotonic()) for end in ends)])

    def _give_up_the_late(self) -> None:
        now = time.monotonic()
        for player in list(self._players):
            if player.playing is not None and player.by_s is not None and now >= player.by_s:
                self._give_up(player)

    def _give_up(self, player: Player) -> None:
        playing = player.playing
        assert playing is not None
        player.given_up = True
        self._players.remove(player)
        failure = out_of_time(playing)
        self._results[playing.job.number] = playing.rollout(failure)
        playing.end_episode(failure)
        self._supply.leave_behind()
        self._abandon(player)

    def _abandon(self, player: Player) -> None:
        # In a thread of its own: to end a far environment may take a while, and others are late too.
        thread = threading.Thread(target=player.abandon, name="paddock-abandon", daemon=True)
        thread.start()
        self._late.append(thread)
        self._late.append(player.thread)

    def _dismiss(self) -> None:
        with self._changed:
            self._stopping = True
            self._jobs.clear()
            busy = [player for player in self._players if player.playing is not None]
            for player in busy:
                player.given_up = True
            self._changed.notify_all()
        for player in busy:  # interrupted: nobody wants their results
            self._abandon(player)
        self._asking.close()
        _join([player.thread for player in self._players if player not in busy], _CLOSING_S)
        _join(self._late, _GIVEN_UP_S)

    # What the threads of the players call.

    def prepare(self, player: Player) -> None:
        """The first player finds out what there is to do."""
        if self._planned is not None or self._players[0] is not player:
            return
        jobs = self._plan(player.env())
        with self._changed:
            self._jobs.extend(jobs)
            self._planned = len(jobs)
            self._changed.notify_all()

    def next_job(self, player: Player) -> Job | None:
        """The next job, with its time running; None if there is no more."""
        with self._changed:
            if self._stopping or player.given_up or not self._jobs:
                return None
            job = self._jobs.popleft()
            by_s = None if self._timeout_s is None else time.monotonic() + self._timeout_s
            player.by_s = None if by_s is None else by_s + _PATIENCE_S
            player.playing = Playing(job, self._asking, max_turns=self._max_turns, by_s=by_s)
            self._changed.notify_all()
            return job

    def take_result(self, player: Player, job: Job, rollout: Rollout) -> bool:
        """Keep a result; False if the player was given up before."""
        with self._changed:
            if player.given_up:
                return False
            player.playing = None
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
