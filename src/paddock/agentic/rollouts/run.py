"""rollout(): play tasks with a policy, several at once, and keep the result of each."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from paddock.agentic.rollouts.episode import Episode, Job, OutOfTime, Policy, PolicyRunner, list_setups
from paddock.agentic.rollouts.results import Failure, Rollout, Rollouts
from paddock.core.env import Env
from paddock.core.problem import kind
from paddock.core.spec import EnvSpec
from paddock.errors import DeadlineExceeded, PaddockError, PlanError
from paddock.hosting.client import HostedEnv
from paddock.record.trace.writer import Opening, TraceWriter
from paddock.seeding import to_seed

if TYPE_CHECKING:
    from typing_extensions import Self


DEFAULT_CONCURRENCY = 8


def rollout(
    env_or_id: Any,
    policy: Policy,
    tasks: Any = None,
    *,
    concurrency: int | None = None,
    attempts: int = 1,
    timeout_s: float | None = 600.0,
    max_turns: int | None = None,
    seed: int = 0,
    trace: str | os.PathLike[str] | None = None,
    progress: bool = True,
    make_env: Callable[[Any], Env[Any, Any]] | None = None,
) -> Rollouts:
    """Play each of the ``tasks`` ``attempts`` times, ``concurrency`` (8) of them at once.

    ``env_or_id``: an id, a path, a URL, an EnvSpec, a function or class that makes environments, or an environment,
    which plays one rollout at a time. ``make_env`` replaces ``paddock.make``.
    ``policy(turn)``, plain or async, returns an action; in an environment of tools also text, or an assistant's message
    with tool calls, each of which is a step. It is called from several threads at once.
    ``tasks``: the name of a split, a count, or a list of indices, of (split, index) or of rows; None for all of the
    first split. For an environment without tasks: a count, or a list of seeds.
    ``timeout_s``: for one rollout; past it, the rollout is an error and its environment is abandoned and replaced.
    ``max_turns``: how often the policy may act in one rollout; None for no limit, so that a policy that repeats a
    mistake goes on until ``timeout_s``. ``trace``: where to record all steps, as JSON lines.
    ``progress``: a bar on stderr; a line every 10 seconds if that is not a terminal.

    A rollout that fails is kept with its error and without a reward. The same ``seed`` gives the same episodes.

    >>> import paddock
    >>> from paddock.agentic import rollout
    >>> done = rollout("CartPole-v1", lambda turn: turn.number % 2, tasks=3, concurrency=2)
    >>> [one.total_return for one in done]
    [39.0, 48.0, 27.0]
    """
    _check(policy, attempts=attempts, timeout_s=timeout_s, max_turns=max_turns, concurrency=concurrency)
    make, name = _maker(env_or_id, make_env, concurrency)
    lent = isinstance(env_or_id, Env)
    workers = 1 if lent else DEFAULT_CONCURRENCY if concurrency is None else concurrency
    plan = partial(_plan_jobs, tasks=tasks, seed=to_seed(seed), attempts=attempts)
    tally = Tally()
    with (
        nullcontext() if trace is None else TraceWriter(trace) as writer,
        Pool(make, lent, PolicyRunner(policy), plan, workers, timeout_s, max_turns, writer, name) as pool,
        report_progress(pool.begin(), progress) as show,
    ):
        for new in pool.results():
            for one in new:
                tally.add(one.total_return, one.turns)
            tally.running_turns = pool.running_turns()
            show(tally)
    return Rollouts(pool.in_order(), seed=seed)


def _plan_jobs(env: Env[Any, Any], *, tasks: Any, seed: int, attempts: int) -> list[Job]:
    return [
        Job(place * attempts + attempt, place, attempt, setup)
        for place, setup in enumerate(list_setups(env, tasks, seed))
        for attempt in range(attempts)
    ]


def _maker(target: Any, make_env: Any, concurrency: int | None) -> tuple[Callable[[], Env[Any, Any]], str | None]:
    """Return what makes environments, or lends the caller's, and their name in a trace."""
    if isinstance(target, Env):
        if concurrency not in (None, 1) or make_env is not None:
            raise PlanError(
                f"concurrency={concurrency}: one environment plays one rollout at a time. Pass concurrency=1, or its "
                f"id or a function that makes such environments."
            )
        return lambda: target, None
    named = isinstance(target, (str, os.PathLike, EnvSpec))
    if not named and not callable(target):
        raise PlanError(
            f"{type(target).__name__} is not an environment. Expected an id, a path, a URL, an EnvSpec, a function "
            f"that makes environments, or an environment."
        )

    def make() -> Env[Any, Any]:
        import paddock  # the public door: it leads to a layer above this one

        if make_env is not None:
            env = make_env(target)
        else:
            env = paddock.make(target) if named else target()
        if not isinstance(env, Env):
            raise PlanError(f"The function that makes environments returned {kind(env)}; expected a paddock.Env.")
        return env

    return make, _trace_name(target) if named else None


def _trace_name(target: Any) -> str | None:
    """Name the target in a trace, without the token that a URL may hold and without this machine's folders."""
    if isinstance(target, EnvSpec):
        return target.id
    text = str(target)
    if "://" in text:
        parts = urlsplit(text)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return Path(text).name if isinstance(target, os.PathLike) or text.startswith((".", "/", "~")) else text


def _check(policy: Any, *, timeout_s: float | None, **counts: int | None) -> None:
    if not callable(policy):
        raise PlanError(f"policy={policy!r:.80}: expected a function that takes a turn.")
    if timeout_s is not None and not (isinstance(timeout_s, (int, float)) and 0 < timeout_s < float("inf")):
        raise PlanError(f"timeout_s={timeout_s!r}: expected a positive number of seconds, or None.")
    for name, count in counts.items():
        optional = count is None and name != "attempts"
        if not optional and (type(count) is not int or count < 1):
            raise PlanError(f"{name}={count!r}: expected a count of 1 or more.")


# ── Progress: a bar on a terminal, otherwise a line now and then ──

_REDRAW_S = 0.1
LINE_S = 10.0


class Tally:
    """The rollouts so far. ``running_turns``: turns of rollouts that have not ended."""

    def __init__(self) -> None:
        self.done = self.failed = self.turns = self.running_turns = 0
        self.total = 0.0

    def add(self, total_return: float | None, turns: int) -> None:
        """Count one more rollout; its return is None if it failed."""
        self.done += 1
        self.turns += turns
        if total_return is None:
            self.failed += 1
        else:
            self.total += total_return

    def words(self) -> str:
        scored, turns = self.done - self.failed, self.turns + self.running_turns
        mean = f"mean return {self.total / scored:.3f}" if scored else "no return yet"
        errors = f", {self.failed} error{'s' * (self.failed != 1)}" if self.failed else ""
        return f"{turns} turn{'s' * (turns != 1)}, {mean}{errors}"


@contextmanager
def report_progress(
    total: int, enabled: bool, *, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[Tally], None]]:
    """Yield a function that shows a tally on stderr. Call it often: it decides by ``clock`` when to write."""
    if not enabled or sys.stderr is None:
        yield lambda tally: None
    elif not sys.stderr.isatty():
        yield _lines(total, clock)
    else:
        with _bar(total, clock) as show:
            yield show


def _lines(total: int, clock: Callable[[], float]) -> Callable[[Tally], None]:
    """Write a line every LINE_S, for a log, and one more at the end of a run that had any."""
    began = clock()
    due, written = began + LINE_S, -1

    def show(tally: Tally) -> None:
        nonlocal due, written
        now = clock()
        if now >= due or (written not in (-1, total) and tally.done >= total):
            due, written = now + LINE_S, tally.done
            with suppress(OSError, ValueError):  # rollouts must not be lost because a log is full or closed
                rollouts = f"{tally.done} of {total} rollout{'s' * (total != 1)}"
                sys.stderr.write(f"{rollouts}, {tally.words()}, {now - began:.0f} s\n")
                sys.stderr.flush()

    return show


@contextmanager
def _bar(total: int, clock: Callable[[], float]) -> Iterator[Callable[[Tally], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(file=sys.stderr, markup=False, emoji=False, highlight=False)
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    # Not redirected: Rich would read the colour codes that an environment prints.
    drawn = Progress(
        *columns, TimeRemainingColumn(), console=console, redirect_stdout=False, redirect_stderr=False, transient=True
    )
    line = drawn.add_task("", total=total)
    due = 0.0

    def show(tally: Tally) -> None:
        nonlocal due
        if clock() >= due or tally.done >= total:
            due = clock() + _REDRAW_S
            drawn.update(line, completed=tally.done, description=tally.words())

    with drawn:
        yield show


# ── The threads that play rollouts at the same time, and the caller who watches the clock ──
#
# They close what they made. A worker that is late is abandoned: its rollout is an error from then on, whatever comes of
# it, and another worker takes its place with an environment of its own.

LOG = logging.getLogger("paddock.agentic")
_CLOSE_S = 30.0  # for environments to close in
_ABANDON_S = 3.0  # and for those that did not answer
_GRACE_S = 0.25  # past its deadline: a policy that looks at the clock itself is left to end itself
_POLL_S = 0.5  # between looks at the clock: a signal must get its turn on every platform
_MAX_ERROR_CHARS = 2000

Plan = Callable[[Env[Any, Any]], Sequence[Job]]


@dataclass(eq=False)
class Pool:
    """``plan`` lists the jobs, given the first environment; it is called in that environment's own thread.

    ``lent``: the only environment is the caller's, and is never closed here, nor replaced.
    """

    make: Callable[[], Env[Any, Any]]
    lent: bool
    policy: PolicyRunner
    plan: Plan
    concurrency: int
    timeout_s: float | None
    max_turns: int | None
    trace: TraceWriter | None
    name: str | None

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._planned: int | None = None
        self._jobs: deque[Job] = deque()
        self._results: dict[int, Rollout] = {}
        self._workers: list[Worker] = []
        self._late: list[threading.Thread] = []
        self._failure: BaseException | None = None
        self._stopping = False
        self.lost = False  # a worker did not come back with the environment that was lent

    # ── In the caller's thread ──

    def begin(self) -> int:
        """Start the first worker, and return how many results there will be once it has planned them."""
        self._start_worker()
        by_s = None if self.timeout_s is None else time.monotonic() + self.timeout_s
        with self._changed:
            while self._planned is None:
                if self._failure is not None:
                    raise self._failure
                if by_s is not None and time.monotonic() >= by_s:
                    raise DeadlineExceeded(f"The first environment was not ready within {self.timeout_s} s.")
                self._changed.wait(_POLL_S)
            return self._planned

    def results(self) -> Iterator[list[Rollout]]:
        """Yield the new results until all have come; now and then an empty list, while nothing happens."""
        count = 0
        while count < (self._planned or 0):
            with self._changed:
                if self._failure is not None:
                    raise self._failure
                if len(self._results) == count:
                    self._start_enough_workers()
                    busy = [worker.by_s for worker in self._workers if worker.episode is not None]
                    waits = (max(0.0, by_s - time.monotonic()) for by_s in busy if by_s is not None)
                    self._changed.wait(min([_POLL_S, *waits]))
                    for worker in list(self._workers):
                        if worker.is_late():
                            self._give_up(worker)
                new = list(self._results.values())[count:]
            count += len(new)
            yield new

    def running_turns(self) -> int:
        with self._changed:
            return sum(worker.episode.turns for worker in self._workers if worker.episode is not None)

    def in_order(self) -> list[Rollout]:
        return [self._results[number] for number in sorted(self._results)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        with self._changed:
            self._stopping = True
            self._jobs.clear()
            busy = [worker for worker in self._workers if worker.episode is not None]
            for worker in busy:
                worker.given_up = True
            self._changed.notify_all()
        for worker in busy:  # interrupted: their results are not wanted
            self._abandon(worker)
        self.policy.close()
        _join([worker.thread for worker in self._workers if worker not in busy], _CLOSE_S)
        _join(self._late, _ABANDON_S)

    def _start_worker(self) -> None:
        worker = Worker(self)
        self._workers.append(worker)
        worker.thread.start()

    def _start_enough_workers(self) -> None:
        # No worker ends while there is work: it is given up, or goes on.
        idle = sum(worker.episode is None for worker in self._workers)
        while self._jobs and len(self._workers) < self.concurrency and idle < len(self._jobs):
            self._start_worker()
            idle += 1

    def _give_up(self, worker: Worker) -> None:
        episode = worker.episode
        assert episode is not None
        worker.given_up = True
        self._workers.remove(worker)
        failure = _timeout_failure(episode)
        self._results[episode.job.number] = episode.rollout(failure)
        episode.end_trace(failure)
        self.lost = self.lent
        self._abandon(worker)

    def _abandon(self, worker: Worker) -> None:
        # In a thread of its own: to end a remote environment may take a while, and other workers are late too.
        thread = threading.Thread(target=worker.abandon, name="paddock-abandon", daemon=True)
        thread.start()
        self._late += [thread, worker.thread]

    # ── In the workers' threads ──

    def plan_jobs(self, worker: Worker) -> None:
        if self._planned is not None or self._workers[0] is not worker:
            return
        jobs = self.plan(worker.env())
        with self._changed:
            self._jobs.extend(jobs)
            self._planned = len(jobs)
            self._changed.notify_all()

    def next_episode(self, worker: Worker) -> Episode | None:
        """Start the clock of the next job; None if there are no more."""
        with self._changed:
            if self._stopping or worker.given_up or not self._jobs:
                return None
            job = self._jobs.popleft()
            by_s = None if self.timeout_s is None else time.monotonic() + self.timeout_s
            worker.by_s = None if by_s is None else by_s + _GRACE_S
            worker.episode = Episode(job, self.policy, max_turns=self.max_turns, by_s=by_s)
            self._changed.notify_all()
            return worker.episode

    def take_result(self, worker: Worker, job: Job, rollout: Rollout) -> bool:
        """Keep a result; False if the worker was given up before."""
        with self._changed:
            if worker.given_up:
                return False
            worker.episode = None
            self._results[job.number] = rollout
            self._changed.notify_all()
            return True

    def fail(self, error: BaseException) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()


def _join(threads: Sequence[threading.Thread], within_s: float) -> None:
    by_s = time.monotonic() + within_s
    for thread in threads:
        thread.join(max(0.0, by_s - time.monotonic()))


class Worker:
    """One thread with one environment, for one rollout after another. No other thread calls the environment.

    Except to end it: if the thread waits for a remote environment in vain, ending that ends the waiting. The pool sets
    ``given_up``, under its lock: from then on this worker's results don't count.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._env: Env[Any, Any] | None = None
        self.episode: Episode | None = None
        self.by_s: float | None = None
        self.given_up = False
        self.thread = threading.Thread(target=self._run, name="paddock-rollout", daemon=True)

    def env(self) -> Env[Any, Any]:
        if self._env is None:
            if self._pool.lost:
                raise RuntimeError(
                    "the environment did not come back from an earlier rollout. Pass an id, or a function that makes "
                    "environments, so that another can take its place."
                )
            self._env = self._pool.make()
        return self._env

    def is_late(self) -> bool:
        return self.episode is not None and self.by_s is not None and time.monotonic() >= self.by_s

    def abandon(self) -> None:
        """End the environment from outside. One in this process that is not idle can only end itself."""
        env, episode = self._env, self.episode
        idle = episode is not None and episode.stop()
        inner = None if env is None else env.unwrapped
        if isinstance(inner, HostedEnv):
            inner.abandon()
        elif idle:
            self._close(env)

    def _run(self) -> None:
        try:
            self._pool.plan_jobs(self)
            while (episode := self._pool.next_episode(self)) is not None:
                rollout = self._play(episode)
                if not self._pool.take_result(self, episode.job, rollout):
                    break
        except BaseException as error:  # a bug, a full disk, KeyboardInterrupt in a policy: all end the whole
            self._pool.fail(error)
        finally:
            self._close_env()

    def _close_env(self) -> None:
        env, self._env = self._env, None
        self._close(env)

    def _close(self, env: Env[Any, Any] | None) -> None:
        if env is not None and not self._pool.lent:
            with suppress(Exception, SystemExit):
                env.close()

    def _play(self, episode: Episode) -> Rollout:
        try:
            env = self.env()
            trace = self._pool.trace
            episode.run(env, None if trace is None else self._begin_trace(env, episode.job, trace))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit and CancelledError too: one rollout ends, not all of them
            if episode.where == "trace" and isinstance(error, OSError):
                raise  # a full disk: no rollout's fault, and nothing to go on with
            LOG.info("the rollout %s failed", episode.job.setup.name, exc_info=error)
            failure = _failure(error, episode)
            environments_fault = episode.where not in ("policy", "trace") and not isinstance(error, OutOfTime)
            usable = isinstance(error, PaddockError) and error.session_alive
            if environments_fault and not usable and not self._pool.lent:
                self._close_env()  # the next rollout gets another
            episode.end_trace(failure)
            return episode.rollout(failure)
        return episode.rollout()

    def _begin_trace(self, env: Env[Any, Any], job: Job, trace: TraceWriter) -> Any:
        setup, about = job.setup, {"attempt": job.attempt, "place": job.place}
        opening = Opening.of(
            env, seed=setup.seed, name=self._pool.name, options=setup.options, task=setup.row or None, about=about
        )
        return trace.begin(opening, number=job.number)


def _failure(error: BaseException, episode: Episode) -> Failure:
    """Turn an error into the form that a rollout keeps."""
    if isinstance(error, OutOfTime):
        return _timeout_failure(episode)
    try:
        words = str(error)[:_MAX_ERROR_CHARS]
    except Exception:  # __str__ is someone else's code
        words = "(its message can't be shown)"
    step = len(episode.rewards)
    if isinstance(error, PaddockError):
        return Failure(error.code, words, episode.where, step)
    code = "POLICY_ERROR" if episode.where == "policy" else "ENV_ERROR"
    return Failure(code, f"{type(error).__name__}: {words}", episode.where, step)


def _timeout_failure(episode: Episode) -> Failure:
    seconds = time.monotonic() - episode.began_s
    message = f"It did not finish within {seconds:.1f} s (stopped in its {episode.where})."
    return Failure(DeadlineExceeded.code, message, "time", len(episode.rewards))
