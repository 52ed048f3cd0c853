"""rollout(): play tasks with a policy, many at once, and keep the result of each.

One event loop plays them all. A policy that is a coroutine function is awaited in it, and environments of tools without
limits are stepped there; what may block has a thread of its own.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import os
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import TimeoutError as Expired
from contextlib import aclosing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from paddock.agentic.endpoint import ModelEndpoint
from paddock.agentic.env import ToolEnv
from paddock.agentic.rollouts.episode import (
    Episode,
    Job,
    Need,
    OutOfTime,
    Policy,
    Turn,
    list_setups,
    play_here,
)
from paddock.agentic.rollouts.options import Options, Spending, code_of
from paddock.agentic.rollouts.progress import Tally, report_progress
from paddock.agentic.rollouts.results import Failure, Interrupted, Rollout, Rollouts, read_run
from paddock.agentic.threads import CallThread, wake
from paddock.core.env import Env
from paddock.core.problem import kind
from paddock.core.spec import EnvSpec
from paddock.errors import BudgetExceeded, DeadlineExceeded, PaddockError, PlanError
from paddock.hosting.client import HostedEnv
from paddock.hosting.process_channel import ProcessChannel
from paddock.record.trace.writer import Opening, TraceWriter
from paddock.seeding import to_seed

DEFAULT_CONCURRENCY = 64
PROCESSES = 16  # by default, where each environment is a process of its own


def rollout(env_or_id: Any, policy: Policy, tasks: Any = None, **options: Any) -> Rollouts:
    """Play each of the ``tasks``, many at once. The keywords are those of ``Options``.

    ``env_or_id``: an id, a path, a URL, an EnvSpec, a function or class that makes environments, or an environment,
    which plays one rollout at a time.
    ``policy(turn)``, plain or async, returns an action; in an environment of tools also text, or an assistant's message
    with tool calls, each of which is a step. A plain one is called from several threads at once.
    ``tasks``: the name of a split, a count, or a list of indices, of (split, index) or of rows; None for all of the
    first split. For an environment without tasks: a count, or a list of seeds.

    A rollout that fails is kept with its error and without a reward. The same ``seed`` gives the same episodes. Ctrl-C
    is a KeyboardInterrupt whose ``rollouts`` are those that had ended.

    >>> import paddock
    >>> from paddock.agentic import rollout
    >>> done = rollout("CartPole-v1", lambda turn: turn.number % 2, tasks=3, concurrency=2)
    >>> [one.total_return for one in done]
    [39.0, 48.0, 27.0]
    """
    crew = Crew(env_or_id, policy, tasks, Options(**options))
    ended = threading.Event()

    def run() -> None:
        try:
            asyncio.run(crew.finish())
        except BaseException as error:
            crew.fail(error)
        finally:
            ended.set()

    thread = threading.Thread(target=run, name="paddock-rollouts", daemon=True)
    try:
        thread.start()
        while not ended.wait(_POLL_S):  # a signal must get its turn on every platform
            pass
    except KeyboardInterrupt:
        crew.interrupt()
        ended.wait(_CLOSE_S)
        raise Interrupted(crew.rollouts()) from None
    thread.join(_CLOSE_S)
    crew.check()
    return crew.rollouts()


async def arollout(env_or_id: Any, policy: Policy, tasks: Any = None, **options: Any) -> Rollouts:
    """Like ``rollout``, in the loop that awaits it."""
    crew = Crew(env_or_id, policy, tasks, Options(**options))
    await crew.finish()
    crew.check()
    return crew.rollouts()


async def stream(env_or_id: Any, policy: Policy, tasks: Any = None, **options: Any) -> AsyncIterator[Rollout]:
    """Like ``arollout``, but yield each rollout when it ends. Leaving the loop ends the others."""
    crew = Crew(env_or_id, policy, tasks, Options(**options))
    async with aclosing(crew.results()) as results:
        async for one in results:
            yield one
    crew.check()


def _maker(target: Any, options: Options) -> tuple[Callable[[], Env[Any, Any]], str | None]:
    """Return what makes environments, or lends the caller's, and their name in a trace."""
    make_env, concurrency, in_ray = options.make_env, options.concurrency, options.backend == "ray"
    if isinstance(target, Env):
        if concurrency not in (None, 1) or make_env is not None or in_ray:
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
        elif in_ray:
            env = paddock.make(target if named else EnvSpec("rollouts/Env-v0", target), backend="ray")
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


# ── The crew that plays rollouts at the same time ──
#
# It closes what it made. A rollout that is late is an error from then on, whatever comes of it, and its environment, if
# that is busy, is abandoned and replaced.

LOG = logging.getLogger("paddock.agentic")
_CLOSE_S = 30.0  # for environments to close in
_ABANDON_S = 3.0  # and for those that did not answer
_GRACE_S = 0.25  # past its deadline: a policy that looks at the clock itself is left to end itself
_CANCEL_S = 5.0  # for a policy that was cancelled
_POLL_S = 0.5
_TICK_S = 0.1  # between looks at how far it is
# Environments of tools are stepped in the loop as long as that is quick, and in threads for a while after it was not.
_SLOW_S, _SLOW_MEAN_S = 0.1, 0.01
_FIRST_AWHILE, _LONGEST_AWHILE = 50, 100_000  # calls; twice as many each time that it is slow again at once
_AT_ONCE = 20  # calls
_SLICE_S = 0.01  # that a rollout may keep the loop
_MAX_ERROR_CHARS = 2000
_HOLD_BYTES = 1 << 20  # of lines in the trace; each tick writes them, and so does each result
_OBJECTS = 32  # that a rollout makes in a turn or two, and more


# "loop": its code runs there. "any": its code has a thread of its own, so it does not matter. "thread": in one of ours,
# always the same.
Home = Literal["loop", "any", "thread"]


class Crew:
    """Plays jobs with one worker each. ``lent``: the only environment is the caller's, never closed nor replaced."""

    def __init__(self, target: Any, policy: Policy, tasks: Any, options: Options) -> None:
        if not callable(policy):
            raise PlanError(f"policy={policy!r:.80}: expected a function that takes a turn.")
        self.policy, self.options = policy, options
        self._tasks, self._seed = tasks, to_seed(options.seed)
        self.make, self.name = _maker(target, options)
        self.lent, self.lost = isinstance(target, Env), False
        self.awaits = _is_async(policy)
        self.home: Home = "thread"
        self._mean_s, self._awhile, self._in_threads = 0.0, _FIRST_AWHILE, 0
        self._idle: list[CallThread] = []
        self.trace: TraceWriter | None = None
        self.appends = False
        self._active = 0
        self.spending = Spending()
        self._jobs: deque[Job] = deque()
        self._done: dict[int, Rollout] = {}
        self._news: asyncio.Queue[Rollout | None] = asyncio.Queue()
        self._failure: BaseException | None = None
        self._late: list[threading.Thread] = []
        self._playing: set[Episode] = set()
        self._waiting: dict[asyncio.Future[None], float] = {}  # for a rollout each, and until when
        self._alarm: asyncio.TimerHandle | None = None
        self.asker: Worker | None = None  # who asked the policy last
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._interrupted = False
        self.tally = Tally(self.spending)

    def rollouts(self) -> Rollouts:
        """Those that have ended, in order."""
        return Rollouts([self._done[number] for number in sorted(self._done)], seed=self._seed)

    def interrupt(self) -> None:
        """Cancel ``finish``, from another thread, even if it has not begun."""
        self._interrupted = True
        if self._task is not None:
            with suppress(RuntimeError):  # its loop is closed
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    async def finish(self) -> None:
        """Play all jobs."""
        self._task = asyncio.current_task()
        if self._interrupted:
            return
        async with aclosing(self.results()) as results:
            async for _ in results:
                pass

    def check(self) -> None:
        """Raise what ended the whole. Not in ``finish``: a KeyboardInterrupt would break its loop."""
        if self._failure is not None:
            raise self._failure

    async def results(self) -> AsyncGenerator[Rollout, None]:
        """Play all jobs, and yield each result when it has come."""
        self._loop = asyncio.get_running_loop()
        path = self.options.trace
        self.appends = self.options.resume and path is not None and Path(path).exists()
        first, workers = Worker(self), []
        with nullcontext() if path is None else TraceWriter(path, append=self.appends, hold=_HOLD_BYTES) as self.trace:
            try:
                total = await self._plan(first)
                crew = [first, *(Worker(self) for _ in range(min(self._concurrency(first), len(self._jobs)) - 1))]
                self._active = len(crew)
                workers = [asyncio.ensure_future(worker.run()) for worker in crew]
                with _room_for(len(crew)), report_progress(total, self.options.progress) as show:
                    ticker = asyncio.ensure_future(self._tick(show))
                    try:
                        while (one := await self._news.get()) is not None:
                            if self.trace is not None:
                                self.trace.flush()  # whoever has a result finds it in the trace
                            yield one
                    finally:
                        ticker.cancel()
                        self._show(show)
            finally:
                await self._close([] if workers else [first], workers)

    async def _plan(self, first: Worker) -> int:
        """Make the first environment, list the jobs, and take what an earlier run finished. Returns their number."""
        planning = asyncio.ensure_future(first.plan(self._list_jobs))
        done, _ = await asyncio.wait({planning}, timeout=self.options.timeout_s)
        if not done:
            planning.cancel()
            raise DeadlineExceeded(f"The first environment was not ready within {self.options.timeout_s} s.")
        jobs = planning.result()
        before, numbers = read_run(self.options.trace) if self.appends and self.options.trace is not None else ({}, 0)
        for job in jobs:
            one = before.get((job.place, job.attempt))
            if one is None or one.error is not None:
                self._jobs.append(job)
            elif (one.seed, one.task) != (job.setup.seed, job.setup.row):
                raise PlanError(
                    f"{self.options.trace} is of another run: it has {one.name} in the place of {job.setup.name}."
                )
            else:
                self._keep(job, one)
        if self.trace is not None:
            self.trace.reserve(max(numbers, len(jobs)))
        return len(jobs)

    def _list_jobs(self, env: Env[Any, Any]) -> list[Job]:
        attempts = self.options.attempts
        return [
            Job(place * attempts + attempt, place, attempt, setup)
            for place, setup in enumerate(list_setups(env, self._tasks, self._seed))
            for attempt in range(attempts)
        ]

    def _concurrency(self, first: Worker) -> int:
        if self.lent:
            return 1
        channel = getattr(getattr(first.env, "unwrapped", None), "_channel", None)
        apart = isinstance(channel, ProcessChannel) or self.options.backend == "ray"
        usual = PROCESSES if apart else DEFAULT_CONCURRENCY
        return self.options.concurrency or usual

    async def _tick(self, show: Callable[[Tally], None]) -> None:
        while True:
            self._show(show)
            if self.trace is not None:
                try:
                    self.trace.flush()
                except OSError as error:  # a full disk
                    self.fail(error)
                    return
            await asyncio.sleep(_TICK_S)

    def _show(self, show: Callable[[Tally], None]) -> None:
        self.tally.running_turns = sum(episode.turns for episode in self._playing)
        show(self.tally)

    async def _close(self, started: list[Worker], workers: list[asyncio.Task[None]]) -> None:
        self._jobs.clear()
        for task in workers:
            task.cancel()
        closing = [*workers, *(asyncio.ensure_future(worker.close()) for worker in started)]
        if closing:
            await asyncio.wait(closing, timeout=_CLOSE_S)
        if self._alarm is not None:
            self._alarm.cancel()
        for thread in self._idle:
            thread.end()
        if isinstance(self.policy, ModelEndpoint):
            await self.policy.close()
        by_s = time.monotonic() + _ABANDON_S
        while any(thread.is_alive() for thread in self._late) and time.monotonic() < by_s:
            await asyncio.sleep(0.01)

    # ── For the workers ──

    def next_job(self) -> Job | None:
        return self._jobs.popleft() if self._jobs and self._failure is None else None

    def begin(self, job: Job) -> Episode:
        episode = Episode(job, self.options, self.spending)
        self._playing.add(episode)
        return episode

    def drop(self, episode: Episode) -> None:
        """Forget an episode: it is played again, or the whole has failed."""
        self._playing.discard(episode)

    def take(self, episode: Episode, rollout: Rollout) -> None:
        self._playing.discard(episode)
        if rollout.error is not None and rollout.error.code == BudgetExceeded.code:
            self._jobs.clear()
        self._keep(episode.job, rollout)
        self._news.put_nowait(rollout)

    def _keep(self, job: Job, rollout: Rollout) -> None:
        self._done[job.number] = rollout
        self.tally.add(rollout.total_return, rollout.turns)

    async def wait_for(self, playing: asyncio.Task[Any], by_s: float | None) -> bool:
        """Wait for a rollout until the monotonic ``by_s``, and return whether it has ended."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        playing.add_done_callback(lambda _: wake(ended))
        if by_s is not None:
            self._waiting[ended] = by_s
            if self._alarm is None:
                self._alarm = loop.call_later(by_s - time.monotonic(), self._ring)
        try:
            await ended
        finally:
            self._waiting.pop(ended, None)
        return playing.done()

    def _ring(self) -> None:
        """Wake whoever waits for a rollout that is late. One timer does: whoever began first is late first."""
        self._alarm, now = None, time.monotonic()
        for ended, by_s in self._waiting.items():
            if by_s > now:
                self._alarm = asyncio.get_running_loop().call_later(by_s - now, self._ring)
                return
            wake(ended)

    def leave(self) -> None:
        """Note that a worker has ended."""
        self._active -= 1
        if not self._active:
            self._news.put_nowait(None)

    def fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._news.put_nowait(None)

    @property
    def failed(self) -> bool:
        return self._failure is not None

    def wait(self, answer: Awaitable[Any], by_s: float | None) -> Any:
        """Await something in the loop, from a thread that may block. OutOfTime at the monotonic ``by_s``."""

        async def wait() -> Any:
            return await answer  # it may be any awaitable, and the loop takes coroutines only

        assert self._loop is not None
        future = asyncio.run_coroutine_threadsafe(wait(), self._loop)
        try:
            return future.result(None if by_s is None else max(0.0, by_s - time.monotonic()))
        except Expired:
            if future.done():  # the policy's own
                raise
            future.cancel()
            raise OutOfTime from None

    @property
    def steps_in_loop(self) -> bool:
        """Whether the next call may be made in the loop: any thread would do, and earlier ones did not slow it down."""
        self._in_threads -= 1
        return self.home == "any" and self._in_threads < 0

    def note_pace(self, seconds: float) -> None:
        """Note how long a call took that was made in the loop."""
        self._mean_s += (seconds - self._mean_s) / 10
        if seconds > _SLOW_S or self._mean_s > _SLOW_MEAN_S:
            again = self._in_threads > -_AT_ONCE
            self._awhile = min(2 * self._awhile, _LONGEST_AWHILE) if again else _FIRST_AWHILE
            self._in_threads, self._mean_s = self._awhile, 0.0

    def borrow_thread(self) -> CallThread:
        return self._idle.pop() if self._idle else CallThread()

    def give_back(self, thread: CallThread) -> None:
        self._idle.append(thread)

    def abandon(self, env: Env[Any, Any] | None, thread: CallThread | None, *, idle: bool) -> None:
        """End an environment that is not coming back. One in this process that is not idle can only end itself."""
        inner = None if env is None else env.unwrapped
        ends: Callable[[], None] | None = inner.abandon if isinstance(inner, HostedEnv) else None
        if ends is None and idle and env is not None and not self.lent:
            ends = env.close
        if ends is not None:  # in a thread of its own: it may take a while, and others are late too
            late = threading.Thread(target=_quietly, args=(ends,), name="paddock-abandon", daemon=True)
            late.start()
            self._late.append(late)
        if thread is not None:
            if env is not None and not self.lent:
                thread.put(_quietly, env.close)
            thread.end()
            self._late.append(thread.thread)


_ROOM: list[int] = []  # of the runs that are on
_ROOM_LOCK = threading.Lock()


@contextmanager
def _room_for(rollouts: int) -> Iterator[None]:
    """Let the garbage collector wait for what so many rollouts make.

    Otherwise it looks at every object of a thousand rollouts again and again while these wait for their models: a third
    of all time.
    """
    room = _OBJECTS * rollouts

    def change(note: Callable[[int], None]) -> None:
        with _ROOM_LOCK:
            first, *others = gc.get_threshold()
            usual = first - max(_ROOM, default=0)
            note(room)
            if first:  # or someone has turned it off
                gc.set_threshold(usual + max(_ROOM, default=0), *others)

    change(_ROOM.append)
    try:
        yield
    finally:
        change(_ROOM.remove)


class Worker:
    """Plays one rollout after another, with one environment, which is replaced if it fails."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.env: Env[Any, Any] | None = None
        self._thread: CallThread | None = None  # where the environment lives, unless that is the loop
        self._slice_s = 0.0

    async def plan(self, list_jobs: Callable[[Env[Any, Any]], list[Job]]) -> list[Job]:
        """Make the environment and list the jobs, in a thread: both may take long. Decides where environments live."""
        self._thread = thread = CallThread()
        self.env = await self._make_in(thread)
        jobs: list[Job] = await thread.call(list_jobs, self.env)
        if self._crew.awaits:
            self._crew.home = _home_of(self.env)
        if self._crew.home == "any":
            self._crew.give_back(thread)
            self._thread = None
        elif self._crew.home == "loop":
            if not self._crew.lent:
                await thread.call(_quietly, self.env.close)
                self.env = None
            thread.end()
            self._thread = None
        return jobs

    async def _make_in(self, thread: CallThread) -> Env[Any, Any]:
        """Make an environment in its thread. One that comes too late is closed there."""
        making = thread.put(self._crew.make)
        try:
            env: Env[Any, Any] = await thread.wait(making)
            return env
        except asyncio.CancelledError:
            if not self._crew.lent:
                thread.put(lambda: _quietly(making.result.close) if making.result is not None else None)
            raise

    async def run(self) -> None:
        try:
            while (job := self._crew.next_job()) is not None:
                await self._finish(job)
        except BaseException as error:  # a bug, a full disk, KeyboardInterrupt in a policy: all end the whole
            if not isinstance(error, asyncio.CancelledError):
                self._crew.fail(error)
        finally:
            await self.close()
            self._crew.leave()

    async def close(self) -> None:
        env, thread = self.env, self._thread
        self.env = self._thread = None
        if env is not None and not self._crew.lent:
            if thread is None and (self._crew.home == "loop" or self._crew.steps_in_loop):
                _quietly(env.close)
                return
            thread = thread or self._crew.borrow_thread()
            closing = asyncio.ensure_future(thread.call(_quietly, env.close))
            await asyncio.wait({closing}, timeout=_CLOSE_S)
        if thread is not None:
            thread.end()

    async def _finish(self, job: Job) -> None:
        """Play a job, again if its environment failed and another try may help."""
        retry, tries = self._crew.options.retry, 0
        while True:
            episode = self._crew.begin(job)
            episode.retries = tries
            error = await self._play(episode)
            if self._crew.failed:
                self._crew.drop(episode)
                return
            failure = None if error is None else _failure(error, episode)
            if failure is not None:
                episode.end_trace(failure)
            wait_s = None
            if error is not None and failure is not None and failure.where not in ("policy", "trace"):
                wait_s = retry.wait_s(error, tries, failure.code, failure.where)
            if wait_s is None or self._crew.lost:
                self._crew.take(episode, episode.rollout(failure))
                return
            self._crew.drop(episode)
            tries += 1
            await asyncio.sleep(wait_s)

    async def _play(self, episode: Episode) -> BaseException | None:
        """Play within the time, and return the error if there is one."""
        playing = asyncio.ensure_future(
            self._play_in_loop(episode) if self._crew.awaits else self._play_in_thread(episode)
        )
        by_s, grace_s = episode.by_s, 0.0 if self._crew.awaits else _GRACE_S
        try:
            done = await self._crew.wait_for(playing, None if by_s is None else by_s + grace_s)
        except asyncio.CancelledError:  # interrupted: its result is not wanted
            idle = episode.stop()
            if self._crew.awaits:
                playing.cancel()
            await asyncio.wait({playing}, timeout=_ABANDON_S)  # it ends by itself, unless something hangs
            hangs = not playing.done()
            if hangs:
                playing.cancel()
            if hangs or self._crew.awaits:
                self._leave(episode, idle)
            raise
        if done:
            return playing.result()
        idle = episode.stop()
        playing.cancel()
        if idle and self._crew.awaits:  # the policy is late, and the environment as it was
            await asyncio.wait({playing}, timeout=_CANCEL_S)
        else:
            self._leave(episode, idle)
        return OutOfTime()

    def _leave(self, episode: Episode, idle: bool) -> None:
        """Give up the environment and its thread, unless they wait for an async policy."""
        if self._crew.awaits and (idle or self._thread is None):
            return
        self._crew.abandon(self.env, self._thread, idle=idle)
        self._crew.lost = self._crew.lent
        self.env = self._thread = None

    async def _play_in_loop(self, episode: Episode) -> BaseException | None:
        self._slice_s = time.monotonic()
        try:
            if self.env is None:
                await self._make_env()
            env = self.env
            assert env is not None
            await self._drive(episode.play(env, self._begin_trace(env, episode)))
        except BaseException as error:  # SystemExit and CancelledError too: one rollout ends, not all of them
            return await self._judge(error, episode)
        return None

    async def _play_in_thread(self, episode: Episode) -> BaseException | None:
        if self._thread is None:
            self._thread = CallThread()

        def ask(turn: Turn) -> Any:
            answer = self._crew.policy(turn)
            return self._crew.wait(answer, episode.by_s) if isinstance(answer, Awaitable) else answer

        def play() -> BaseException | None:
            try:
                env = self.env
                if env is None:
                    self._check_lost()
                    env = self._crew.make()
                    if not episode.go_on(lambda: setattr(self, "env", env)):
                        _quietly(env.close)
                        return OutOfTime()
                play_here(episode.play(env, self._begin_trace(env, episode)), ask)
            except BaseException as error:
                return error
            return None

        thread = self._thread
        error = await thread.call(play)
        return None if error is None else await self._judge(error, episode)

    async def _make_env(self) -> None:
        self._check_lost()
        if self._crew.home == "loop" or self._crew.steps_in_loop:
            self.env = self._crew.make()
            return
        if self._thread is None:
            self._thread = self._crew.borrow_thread()
        self.env = await self._make_in(self._thread)
        self._give_back()

    def _give_back(self) -> None:
        """Return the thread of a call, if any thread will do for the next one."""
        if self._crew.home == "any" and self._thread is not None:
            self._crew.give_back(self._thread)
            self._thread = None

    def _check_lost(self) -> None:
        if self._crew.lost:
            raise RuntimeError(
                "the environment did not come back from an earlier rollout. Pass an id, or a function that makes "
                "environments, so that another can take its place."
            )

    async def _judge(self, error: BaseException, episode: Episode) -> BaseException | None:
        """Decide what an error means: whether it ends the whole, and whether the environment can go on."""
        if isinstance(error, KeyboardInterrupt) or (episode.where == "trace" and isinstance(error, OSError)):
            self._crew.fail(error)  # a full disk: no rollout's fault, and nothing to go on with
        if isinstance(error, asyncio.CancelledError) and episode.stopped:
            return OutOfTime()
        LOG.info("the rollout %s failed", episode.job.setup.name, exc_info=error)
        environments_fault = episode.where not in ("policy", "trace") and not isinstance(error, OutOfTime)
        usable = isinstance(error, PaddockError) and error.session_alive
        if environments_fault and not usable and not self._crew.lent:
            await self.close()  # the next rollout gets another
        return error

    def _begin_trace(self, env: Env[Any, Any], episode: Episode) -> Any:
        trace, job = self._crew.trace, episode.job
        if trace is None:
            return None
        setup, about = job.setup, {"attempt": job.attempt, "place": job.place}
        opening = Opening.of(
            env, seed=setup.seed, name=self._crew.name, options=setup.options, task=setup.row or None, about=about
        )
        return trace.begin(opening, number=None if self._crew.appends or episode.retries else job.number)

    # ── In the loop ──

    async def _drive(self, playing: Generator[Need, Any, None]) -> None:
        """Play in the loop: await the policy, and call the environment where it lives."""
        crew, here = self._crew, self._crew.home == "loop"
        outcome: Any = None
        error: BaseException | None = None
        while True:
            try:
                need = playing.send(outcome) if error is None else playing.throw(error)
            except StopIteration:
                return
            outcome = error = None
            try:
                if isinstance(need, Turn):
                    now = time.monotonic()
                    if crew.asker is not self:  # the loop goes from one to the other
                        crew.asker, self._slice_s = self, now
                    elif now - self._slice_s > _SLICE_S:
                        await asyncio.sleep(0)
                        self._slice_s = time.monotonic()
                    outcome = await crew.policy(need)
                elif isinstance(need, float):
                    await asyncio.sleep(need)
                elif here:
                    outcome = need()
                elif crew.steps_in_loop:
                    now = time.monotonic()
                    try:
                        outcome = need()
                    finally:
                        crew.note_pace(time.monotonic() - now)
                else:
                    outcome = await self._call_in_thread(need)
            except BaseException as raised:
                error = raised

    async def _call_in_thread(self, function: Callable[[], Any]) -> Any:
        crew = self._crew
        if crew.home == "any":
            self._thread = crew.borrow_thread()
        assert self._thread is not None
        try:
            return await self._thread.call(function)
        finally:
            self._give_back()


def _quietly(function: Callable[[], Any]) -> None:
    with suppress(Exception, SystemExit):
        function()


def _is_async(policy: Any) -> bool:
    """Whether calling the policy returns at once something to await."""
    return any(inspect.iscoroutinefunction(inspect.unwrap(one)) for one in (policy, type(policy).__call__))


def _home_of(env: Env[Any, Any]) -> Home:
    """Where an environment may be stepped while the policy is awaited in the loop."""
    inner = env.unwrapped
    if not isinstance(inner, ToolEnv):
        return "thread"
    rubrics = [] if inner.rubric is None else [inner.rubric, *inner.rubric.rubrics()]
    limits = {tool.options.timeout_s for tool in inner.tools.values()} - {"default"}
    limits |= {inner.timeout_s, inner.begin_timeout_s, inner.rubric_timeout_s if rubrics else None}
    code = [inner.begin, inner.listen]
    code += [*(tool.function for tool in inner.tools.values()), *(one.forward for one in rubrics)]
    waits = any(inspect.iscoroutinefunction(one) for one in code)
    if limits == {None}:
        return "thread" if waits else "loop"
    return "any"  # with limits its code has a thread of its own


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
    return Failure(code_of(error, episode.where), f"{type(error).__name__}: {words}", episode.where, step)


def _timeout_failure(episode: Episode) -> Failure:
    seconds = time.monotonic() - episode.began_s
    message = f"It did not finish within {seconds:.1f} s (stopped in its {episode.where})."
    return Failure(DeadlineExceeded.code, message, "time", len(episode.rewards))
