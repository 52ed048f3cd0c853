"""One rollout, from reset to its end, in an environment that is ready for it. All errors are raised.

``where`` says whose code runs, so that whoever catches an error knows whose it is.
"""

from __future__ import annotations

import inspect
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from paddock.agentic.chat import Conversation, StepRequest, refusal_text
from paddock.agentic.endpoint import ModelEndpoint
from paddock.agentic.rollouts.results import Failure, Rollout, Where
from paddock.agentic.tasks import Task, task_name
from paddock.core.env import Env, Info
from paddock.errors import InvalidTask, PaddockError
from paddock.record.model_call import ModelCall
from paddock.record.trace.writer import EpisodeWriter
from paddock.seeding import derived_seed, to_seed
from paddock.spaces import Space

if TYPE_CHECKING:
    import asyncio


@dataclass(frozen=True)
class Job:
    """An attempt at a task; ``number`` is its place among the results."""

    number: int
    place: int
    attempt: int
    setup: Setup


class Episode:
    """What happened so far in one rollout."""

    def __init__(self, job: Job, policy: PolicyRunner, *, max_turns: int | None, by_s: float | None) -> None:
        self.job, self._policy, self._max_turns, self._by_s = job, policy, max_turns, by_s
        self.where: Where = "making"
        self.began_s = time.monotonic()
        self.rewards: list[float] = []
        self.calls: list[ModelCall] = []
        self.turns = 0
        self.over = (False, False)
        self.info: Info = {}
        self._trace: EpisodeWriter | None = None
        self._conversation: Conversation | None = None
        self._lock = threading.Lock()
        self._stopped = False

    def run(self, env: Env[Any, Any], trace: EpisodeWriter | None) -> None:
        """Play to the end. Raises whatever policy, environment or trace raise, and OutOfTime."""
        setup, self._trace = self.job.setup, trace
        action_seed, policy_seed = (derived_seed(setup.seed, self.job.attempt * 2 + stream) for stream in (0, 1))
        actions = deepcopy(env.action_space)  # environments of a kind may share one, and its stream
        actions.seed(action_seed)
        np_random = np.random.default_rng(policy_seed)
        self._conversation = conversation = Conversation(env)
        self._enter("reset")
        observation, self.info = env.reset(seed=setup.seed, options=setup.options)
        self._record(lambda into: into.reset(observation, self.info))
        self._observation, reward = conversation.begin(observation), None
        while not any(self.over) and (self._max_turns is None or self.turns < self._max_turns):
            self._enter("policy")
            turn = Turn(
                observation=self._observation,
                messages=list(conversation.messages),
                tools=list(conversation.tools),
                task=setup.row,
                number=self.turns,
                step=len(self.rewards),
                info=self.info,
                reward=reward,
                attempt=self.job.attempt,
                action_space=actions,
                np_random=np_random,
                record=self.record_call,
            )
            requests = conversation.read_answer(self._policy.ask(turn, self._by_s))
            self.turns += 1
            before = len(self.rewards)
            for request in requests:
                self._carry_out(env, conversation, request)
            reward = float(sum(self.rewards[before:]))
        self._end(None)

    def stop(self) -> bool:
        """Let nothing more of this rollout begin, and return whether its environment is idle. From any thread."""
        with self._lock:
            self._stopped = True
            return self.where == "policy"

    def _enter(self, where: Where) -> None:
        """Note whose code runs from here on; OutOfTime if the rollout was stopped or its time is over."""
        with self._lock:
            if self._stopped or (self._by_s is not None and time.monotonic() >= self._by_s):
                raise OutOfTime
            self.where = where

    def _carry_out(self, env: Env[Any, Any], conversation: Conversation, request: StepRequest) -> None:
        if any(self.over):
            conversation.reply(request, "The episode is over.")
            return
        if request.call is not None and request.call.problem is not None:
            conversation.reply(request, request.call.problem)
            return
        self._enter("step")
        try:
            observation, reward, terminated, truncated, info = env.step(request.action)
        except Exception as error:
            if (words := refusal_text(error)) is None:
                raise
            self.where = "policy"
            if request.call is None:
                raise
            conversation.reply(request, f"Error: {words}")  # a model wrote the arguments: it may try again
            return
        self.over, self.info = (bool(terminated), bool(truncated)), info
        self._record(lambda into: into.step(request.action, observation, reward, terminated, truncated, info))
        self.rewards.append(float(reward))
        self._observation = conversation.add_observation(request, observation)

    def record_call(self, call: ModelCall) -> None:
        """Keep a call of a model, and write it into the trace."""
        retry = sum(before.turn == self.turns and before.error is not None for before in self.calls)
        call = replace(call, turn=self.turns, retry=retry)
        self.calls.append(call)
        if self._trace is not None:
            self._trace.call(call)

    def _record(self, write: Callable[[EpisodeWriter], None]) -> None:
        if self._trace is not None:
            self.where = "trace"
            write(self._trace)

    def end_trace(self, failure: Failure) -> None:
        """Write into the trace that the rollout failed, unless its end is already written."""
        if self._trace is not None:
            with suppress(PaddockError):
                self._end(failure)

    def _end(self, failure: Failure | None) -> None:
        def write(into: EpisodeWriter) -> None:
            messages = [] if self._conversation is None else list(self._conversation.messages)
            seconds = time.monotonic() - self.began_s
            into.rollout(messages, turns=self.turns, seconds=seconds, where=None if failure is None else failure.where)
            into.end(None if failure is None else (failure.code, failure.message))

        self._record(write)

    def rollout(self, error: Failure | None = None) -> Rollout:
        setup = self.job.setup
        return Rollout(
            place=self.job.place,
            name=setup.name,
            task=setup.row,
            attempt=self.job.attempt,
            seed=setup.seed,
            rewards=tuple(self.rewards),
            terminated=self.over[0],
            truncated=self.over[1],
            turns=self.turns,
            messages=[] if self._conversation is None else list(self._conversation.messages),
            info=self.info,
            calls=tuple(self.calls),
            error=error,
            seconds=time.monotonic() - self.began_s,
        )


@dataclass(frozen=True)
class Turn:
    """Everything that a policy may look at before it acts.

    ``messages`` and ``tools`` are in the form of chat-completions APIs, and empty for environments without tools.
    ``number`` counts the policy's turns and ``step`` the environment's steps, both from 0. ``reward`` is that of the
    last turn, None in the first. ``np_random`` and the stream behind ``action_space.sample()`` belong to this rollout
    alone and start from its seed, so a random policy repeats itself however many rollouts run at once. A policy gives
    each call of a model that it makes to ``record``.
    """

    observation: Any
    messages: Sequence[dict[str, Any]]
    tools: Sequence[dict[str, Any]]
    task: dict[str, Any]
    number: int
    step: int
    info: Info
    reward: float | None
    attempt: int
    action_space: Space[Any] = field(repr=False)
    np_random: np.random.Generator = field(repr=False)
    record: Callable[[ModelCall], None] = field(repr=False, default=lambda call: None)


Policy = Callable[[Any], Any]
_CANCEL_S = 5.0


class OutOfTime(Exception):
    """A rollout took longer than it may."""


class PolicyRunner:
    """Calls a policy, plain or async, from any thread.

    Everything async runs in one loop, so that all turns share a client's connections. The loop starts with the first
    answer that must be awaited.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def ask(self, turn: Any, by_s: float | None) -> Any:
        """Return the policy's answer; OutOfTime if it must be awaited and has not come at the monotonic ``by_s``."""
        answer = self._policy(turn)
        if not inspect.isawaitable(answer):
            return answer
        import asyncio
        from concurrent.futures import TimeoutError as Expired

        async def wait() -> Any:
            return await answer  # it may be any awaitable, and the loop takes coroutines only

        future = asyncio.run_coroutine_threadsafe(wait(), self._running_loop())
        try:
            return future.result(None if by_s is None else max(0.0, by_s - time.monotonic()))
        except Expired:
            if future.done():  # the policy's own
                raise
            future.cancel()
            raise OutOfTime from None

    def close(self) -> None:
        """Cancel what is still awaited, and end the loop. Safe to call twice."""
        with self._lock:
            self._closed = True
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is None or thread is None:
            return
        import asyncio

        async def stop() -> None:
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            if others:
                await asyncio.wait(others, timeout=_CANCEL_S)
            if isinstance(self._policy, ModelEndpoint):
                await self._policy.close()
            loop.stop()

        asyncio.run_coroutine_threadsafe(stop(), loop)
        thread.join(2 * _CANCEL_S)
        if not thread.is_alive():
            loop.close()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        import asyncio

        with self._lock:
            if self._closed:
                raise RuntimeError("the rollouts have ended")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="paddock-policy", daemon=True)
                self._thread.start()
            return self._loop


# ── Which episodes to play: tasks of the environment, or seeds if it has none ──
#
# The same list gives the same seeds. A task without a seed of its own gets one from its split and index, so it begins
# the same way in any list.

_MAX_EPISODES = 1_000_000
_ROWS_PER_CALL = 100


@dataclass(frozen=True)
class Setup:
    """The arguments of ``reset``. ``row`` is the task's public row with its split and index, empty without a task."""

    seed: int
    options: dict[str, Any] | None
    row: dict[str, Any]

    @property
    def name(self) -> str:
        return task_name(self.row, self.seed)


def list_setups(env: Env[Any, Any], tasks: Any, seed: int) -> list[Setup]:
    """List what ``tasks`` names; see :func:`rollout`. Asks the environment's Task API if it has one."""
    splits = env.metadata.get("splits")
    if isinstance(splits, (list, tuple)) and splits:
        return _TaskBook(env, seed).setups(tasks)
    if tasks is None:
        tasks = 1
    if isinstance(tasks, (int, np.integer)):
        tasks = range(seed, seed + _count(tasks))
    if isinstance(tasks, (str, bytes, Mapping)) or not isinstance(tasks, Sequence):
        raise InvalidTask(f"tasks={tasks!r:.80}: this environment has no tasks. Expected a count, or a list of seeds.")
    setups = []
    for item in tasks:
        start, options = (item.get("seed"), item.get("options")) if isinstance(item, Mapping) else (item, None)
        setups.append(Setup(to_seed(start), None if options is None else dict(options), {}))
    return setups


def _count(tasks: Any) -> int:
    if not 0 <= tasks <= _MAX_EPISODES:
        raise InvalidTask(f"tasks={tasks}: expected a count of 0 to {_MAX_EPISODES}.")
    return int(tasks)


class _TaskBook:
    """The tasks of one environment, here or remote, read through its Task API."""

    def __init__(self, env: Env[Any, Any], seed: int) -> None:
        self._ask = env.get_wrapper_attr("task")
        self._seed = seed
        self._first = str(env.metadata["splits"][0]["name"])
        self._rows: dict[tuple[str, int], dict[str, Any]] = {}

    def setups(self, tasks: Any) -> list[Setup]:
        if tasks is None:
            return self._split(self._first, None)
        if isinstance(tasks, str):
            return self._split(tasks, None)
        if isinstance(tasks, (int, np.integer)):
            return self._split(self._first, _count(tasks))
        if isinstance(tasks, (Mapping, Task)) or not isinstance(tasks, Sequence):
            raise InvalidTask(
                f"tasks={tasks!r:.80}: expected the name of a split, a count, or a list of indices, (split, index) or "
                f"rows of tasks."
            )
        return [self._one(item) for item in tasks]

    def _split(self, split: str, count: int | None) -> list[Setup]:
        """The first ``count`` tasks of a split, or all of them."""
        try:
            size = int(self._ask("num_tasks", split))
        except NotImplementedError:  # endless
            if count is None:
                raise InvalidTask(
                    f"The split {split!r} is endless. Say how many: tasks=100, or a list of indices."
                ) from None
        else:
            if count is not None and count > size:
                raise InvalidTask(f"tasks={count}: the split {split!r} has {size}. Use attempts= to try each again.")
            count = size if count is None else count
        for begin in range(0, count, _ROWS_PER_CALL):  # for servers; if it fails, _task asks for each row and says why
            with suppress(PaddockError, NotImplementedError):
                rows = self._ask("get_task_range", split, begin, min(begin + _ROWS_PER_CALL, count))
                self._rows.update({(split, index): dict(row) for index, row in enumerate(rows, begin)})
        return [self._task(split, index) for index in range(count)]

    def _one(self, item: Any) -> Setup:
        if isinstance(item, Task):
            raise InvalidTask(
                "A Task by itself has no place in a split. Pass its index, (split, index), or the row in info['task']."
            )
        seed = None
        if isinstance(item, Mapping):
            if "index" not in item:
                raise InvalidTask(f"{dict(item)!r:.80} does not name a task: it has no 'index' (and 'split').")
            split, index, seed = item.get("split", self._first), item["index"], item.get("seed")
        elif isinstance(item, (tuple, list)) and len(item) == 2:
            split, index = item
        else:
            split, index = self._first, item
        if not isinstance(split, str) or isinstance(index, bool) or not isinstance(index, (int, np.integer)):
            raise InvalidTask(f"{item!r:.80} does not name a task. Expected an index, (split, index) or a task's row.")
        return self._task(split, int(index), seed)

    def _task(self, split: str, index: int, seed: int | None = None) -> Setup:
        key = split, index
        if key not in self._rows:
            self._rows[key] = dict(self._ask("get_task", split, index))
        row = self._rows[key]
        seed = row.get("seed") if seed is None else seed
        if seed is None:
            seed = derived_seed(self._seed, zlib.crc32(split.encode()) << 32 | index)
        return Setup(to_seed(seed), {"split": split, "index": index}, {**row, "split": split, "index": index})
