"""One rollout, from reset to its end, in an environment that is ready for it. All errors are raised.

``where`` says whose code runs, so that whoever catches an error knows whose it is.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import msgspec
import numpy as np

from paddock.agentic.chat import ACTIONS, Conversation, StepRequest, refusal_text, to_dict
from paddock.agentic.rollouts.options import Options, Spending, code_of
from paddock.agentic.rollouts.results import Failure, Rollout, Where
from paddock.agentic.tasks import Task, task_name
from paddock.core.env import Env, Info
from paddock.errors import InvalidTask, ModelReplyCutOff, PaddockError
from paddock.record.model_call import ModelCall
from paddock.record.trace.writer import EpisodeWriter
from paddock.seeding import derived_seed, to_seed
from paddock.spaces import Space

Policy = Callable[[Any], Any]


@dataclass(frozen=True)
class Job:
    """An attempt at a task; ``number`` is its place among the results."""

    number: int
    place: int
    attempt: int
    setup: Setup


# What a rollout asks for: an answer to a turn, a call of its environment, or seconds in which nothing happens.
Need: TypeAlias = "Turn | partial[Any] | float"


class Episode:
    """What happened so far in one rollout."""

    def __init__(self, job: Job, options: Options, spending: Spending) -> None:
        self.job, self._options, self._all_spending = job, options, spending
        self.where: Where = "making"
        self.began_s = time.monotonic()
        self.by_s = None if options.timeout_s is None else self.began_s + options.timeout_s
        self.rewards: list[float] = []
        self.calls: list[ModelCall] = []
        self.spending = Spending()
        self.turns = self.retries = 0
        self.over = (False, False)
        self.info: Info = {}
        self._trace: EpisodeWriter | None = None
        self._conversation: Conversation | None = None
        self._lock = threading.Lock()
        self._stopped = False

    def play(self, env: Env[Any, Any], trace: EpisodeWriter | None) -> Generator[Need, Any, None]:
        """Play to the end: yield what is needed, and get the outcome sent or its error thrown.

        Raises whatever policy, environment or trace raise, and OutOfTime. Whoever drives it may await or block.
        """
        setup, self._trace = self.job.setup, trace
        streams = Streams(env, setup.seed, self.job.attempt)
        self._conversation = conversation = Conversation(env)
        self._enter("reset")
        observation, self.info = yield partial(env.reset, seed=setup.seed, options=setup.options)
        if trace is not None:
            self.where = "trace"
            trace.reset(observation, self.info)
        self._observation, reward = conversation.begin(observation), None
        while not (self.over[0] or self.over[1]) and not self._is_used_up():
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
                record=self.record_call,
                streams=streams,
            )
            requests = conversation.read_answer((yield from self._ask(turn)))
            self.turns += 1
            before = len(self.rewards)
            for request in requests:
                yield from self._carry_out(env, conversation, request)
            reward = float(sum(self.rewards[before:]))
        self._end(None)

    def _is_used_up(self) -> bool:
        """Whether the rollout has had its turns, or what its budget allows. BudgetExceeded if the whole run's is."""
        options = self._options
        if options.max_turns is not None and self.turns >= options.max_turns:
            return True
        options.run_budget.check(self._all_spending)
        return options.budget.is_used_up(self.spending)

    def _ask(self, turn: Turn) -> Generator[Need, Any, Any]:
        """Ask the policy, again if it fails and that may help. The environment waits as it is."""
        tries = 0
        while True:
            count = len(self.calls)
            try:
                answer = yield turn
                if len(self.calls) == count and _is_response(answer):
                    request = {"messages": turn.messages, **({"tools": turn.tools} if turn.tools else {})}
                    self.record_call(ModelCall(request, to_dict(answer)))
                if (
                    len(self.calls) > count and self.calls[-1].error is not None
                ):  # cut off, and that counts as a failure
                    raise ModelReplyCutOff(self.calls[-1].error[1], call=self.calls[-1])
                return answer
            except Exception as error:
                wait_s = self._options.retry.wait_s(error, tries, code_of(error, "policy"), "policy")
                if wait_s is None or (self.by_s is not None and time.monotonic() + wait_s >= self.by_s):
                    raise
            tries += 1
            self.retries += 1
            yield wait_s
            self._enter("policy")

    def stop(self) -> bool:
        """Let nothing more of this rollout begin, and return whether its environment is idle. From any thread."""
        with self._lock:
            self._stopped = True
            return self.where == "policy"

    @property
    def stopped(self) -> bool:
        return self._stopped

    def go_on(self, note: Callable[[], None]) -> bool:
        """Call ``note`` unless the rollout was stopped, and return whether it was called."""
        with self._lock:
            if not self._stopped:
                note()
            return not self._stopped

    def _enter(self, where: Where) -> None:
        """Note whose code runs from here on; OutOfTime if the rollout was stopped or its time is over."""
        with self._lock:
            if self._stopped or (self.by_s is not None and time.monotonic() >= self.by_s):
                raise OutOfTime
            self.where = where

    def _carry_out(
        self, env: Env[Any, Any], conversation: Conversation, request: StepRequest
    ) -> Generator[Need, Any, None]:
        if self.over[0] or self.over[1]:
            conversation.reply(request, "The episode is over.")
            return
        if request.call is not None and request.call.problem is not None:
            conversation.reply(request, request.call.problem)
            return
        self._enter("step")
        try:
            observation, reward, terminated, truncated, info = yield partial(env.step, request.action)
        except Exception as error:
            if (words := refusal_text(error)) is None:
                raise
            self.where = "policy"
            if request.call is None:
                raise
            conversation.reply(request, f"Error: {words}")  # a model wrote the arguments: it may try again
            return
        self.over, self.info = (bool(terminated), bool(truncated)), info
        if self._trace is not None:
            self.where = "trace"
            self._trace.step(request.action, observation, reward, terminated, truncated, info)
        self.rewards.append(float(reward))
        self._observation = conversation.add_observation(request, observation)

    def record_call(self, call: ModelCall) -> None:
        """Keep a call of a model, and write it into the trace."""
        error = call.error
        if error is None and call.cut_off and self._options.cut_off == "fail":
            words = f"The reply was cut off after {call.completion_tokens} tokens. Raise max_tokens, or pass "
            error = ModelReplyCutOff.code, f"{words}cut_off='grade' to go on with what is there."
        retry = 0
        for before in reversed(self.calls):
            if before.turn != self.turns:
                break
            retry += before.error is not None
        call = replace(call, error=error, turn=self.turns, retry=retry)
        self.calls.append(call)
        self.spending.add(call)
        self._all_spending.add(call)
        if self._trace is not None:
            where, self.where = self.where, "trace"
            self._trace.call(call)
            self.where = where

    def end_trace(self, failure: Failure) -> None:
        """Write into the trace that the rollout failed, unless its end is already written."""
        with suppress(PaddockError):
            self._end(failure)

    def _end(self, failure: Failure | None) -> None:
        if self._trace is None:
            return
        if failure is None:
            self.where = "trace"
        messages = [] if self._conversation is None else list(self._conversation.messages)
        where = None if failure is None else failure.where
        seconds = time.monotonic() - self.began_s
        self._trace.rollout(messages, turns=self.turns, seconds=seconds, where=where, retries=self.retries)
        self._trace.end(None if failure is None else (failure.code, failure.message))

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
            retries=self.retries,
            error=error,
            seconds=time.monotonic() - self.began_s,
        )


class Streams:
    """The random streams of one rollout's policy, made when they are first used."""

    def __init__(self, env: Env[Any, Any], seed: int, attempt: int) -> None:
        self._env, self._seed, self._attempt = env, seed, attempt

    @cached_property
    def action_space(self) -> Space[Any]:
        actions = deepcopy(self._env.action_space)  # environments of a kind may share one, and its stream
        actions.seed(derived_seed(self._seed, self._attempt * 2))
        return actions

    @cached_property
    def np_random(self) -> np.random.Generator:
        return np.random.default_rng(derived_seed(self._seed, self._attempt * 2 + 1))


class Turn(msgspec.Struct, frozen=True):
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
    record: Callable[[ModelCall], None]
    streams: Streams

    def __repr__(self) -> str:
        values = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__[:-2])  # not record and streams
        return f"Turn({', '.join(values)})"

    @property
    def action_space(self) -> Space[Any]:
        return self.streams.action_space

    @property
    def np_random(self) -> np.random.Generator:
        return self.streams.np_random


class OutOfTime(Exception):
    """A rollout took longer than it may."""


def play_here(playing: Generator[Need, Any, None], ask: Callable[[Turn], Any]) -> None:
    """Play in this thread, which may block."""
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
                outcome = ask(need)
            elif isinstance(need, float):
                time.sleep(need)
            else:
                outcome = need()
        except BaseException as raised:
            error = raised


def _is_response(answer: Any) -> bool:
    """Whether an answer is the whole response of a chat-completions API."""
    if isinstance(answer, ACTIONS):
        return False
    return bool(answer.get("choices") if isinstance(answer, Mapping) else getattr(answer, "choices", None))


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
