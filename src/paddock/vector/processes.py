"""ProcessVectorEnv: lanes in worker processes, several per worker, with arrays in shared memory.

Each step wakes each worker once, and nothing from a worker is unpickled here. Lanes fail alone: see ``faults``.
AsyncVectorEnv is the same with Gymnasium's surface.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, TypeVar

import numpy as np

from paddock.core.env import ActType, Env, Info, ObsType
from paddock.core.lane import lane_seeds, reset_mask, reset_needed, value_per_lane
from paddock.core.state import State, open_snapshot
from paddock.core.vector_env import AutoresetMode, OnFault, add_info
from paddock.errors import (
    AlreadyPendingCallError,
    ClosedEnvironmentError,
    InvalidLanes,
    NoAsyncCallError,
    PaddockError,
    ResetNeeded,
)
from paddock.hosting import messages as m
from paddock.hosting.factories import dumps
from paddock.hosting.judge import WallRules, read_spaces, read_spec
from paddock.hosting.launch import Launcher, start_by, start_fresh
from paddock.hosting.process_channel import CLOSE_GRACE_S, ProcessChannel
from paddock.hosting.untrusted import check_size
from paddock.spaces import Space
from paddock.vector.lanes import SeparateLanes, lane_actions, open_lanes, seal_lanes
from paddock.vector.process_lanes import ProcessLanes, TimedOut

Array = np.ndarray[Any, Any]
Factory = Callable[[], Env[Any, Any]]
Result = tuple[Any, Array, Array, Array, Info]


class ProcessVectorEnv(SeparateLanes[ObsType, ActType]):
    """n environments, made by ``env_fns`` in ``workers`` processes (by default as many as cores).

    ``on_fault`` says what becomes of a lane that raises, dies or takes longer than ``deadline_s`` for a step: "raise",
    "restart" or "mask", see ``faults``. ``max_concurrency``: how many workers may be busy at the same time.
    ``batch_size`` < n: ``recv`` returns the first lanes that are ready, ``info["env_id"]`` says which, and
    ``send(actions, env_id)`` steps those. ``launcher`` starts a worker process.
    With ``wall`` the workers are not trusted: a worker that breaks the rules is killed, and the lane fails with an
    EnvironmentViolation. Then ``env_fns`` are what Make takes, plain data instead of functions, and the rules give the
    deadline. rewards: float64[n]; terminations, truncations: bool[n].
    """

    def __init__(
        self,
        env_fns: Sequence[Factory | dict[str, Any]],
        *,
        workers: int | None = None,
        copy: bool = True,
        observation_mode: str | tuple[Space[Any], Space[Any]] = "same",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        on_fault: OnFault = "raise",
        deadline_s: float | None = None,
        max_concurrency: int | None = None,
        batch_size: int | None = None,
        launcher: Launcher = start_fresh,
        wall: WallRules | None = None,
    ) -> None:
        super().__init__(env_fns, copy, observation_mode, autoreset_mode)
        if batch_size is not None and (type(batch_size) is not int or not 1 <= batch_size <= self.num_envs):
            raise InvalidLanes(f"batch_size={batch_size!r}: expected 1 to {self.num_envs}, the number of lanes.")
        self.batch_size = self.num_envs if batch_size is None else batch_size
        self._pending: str | None = None  # "reset" or "call"; for steps see which lanes are waiting
        self._rules = wall
        deadline_s = _positive("deadline_s", deadline_s) or (None if wall is None else wall.call_s)
        self._lanes = ProcessLanes(
            _makes(env_fns, plain=wall is not None),
            workers=_at_least_one("workers", workers) or os.cpu_count() or 1,
            open_channel=lambda: ProcessChannel(
                *launcher(), wall, pickler=dumps if wall is None else None, patience_s=deadline_s
            ),
            autoreset=self.autoreset_mode.value,
            on_fault=on_fault,
            deadline_s=deadline_s,
            max_concurrency=_at_least_one("max_concurrency", max_concurrency),
            wall=wall,
        )
        try:
            self._adopt(self._lanes.describe())
        except BaseException:
            self.close_extras()
            raise

    def _adopt(self, described: list[m.Description]) -> None:
        spaces = [self._spaces_of(lane, one) for lane, one in enumerate(described)]
        self._adopt_spaces(spaces)
        self.metadata = {**described[0].metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = described[0].render_mode
        # What makes one lane again. Not `spec`: that makes all of them, and only the code that made them knows it.
        self.lane_spec = read_spec(described[0], self._rules)
        if self._rules is not None:
            for name in ("observation_space", "action_space"):
                single = getattr(self, f"single_{name}")
                check_size(single, name, limit=self._rules.lanes_bytes, count=self.num_envs)
        declared = [one for one, _ in spaces]
        self._lanes.adopt(self.single_observation_space, self.single_action_space, declared=declared, copy=self.copy)

    def _spaces_of(self, lane: int, described: m.Description) -> tuple[Space[Any], Space[Any]]:
        if self._rules is not None or (described.observation_space and described.action_space):
            return read_spaces(described, self._rules)
        # A space of the user's own class has no form on the wire. The factory is trusted, so make an environment here.
        make = self.env_fns[lane]
        assert callable(make)
        env = make()
        try:
            return env.observation_space, env.action_space
        finally:
            env.close()

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> tuple[Any, Info]:
        with self._lanes:
            self._begin_reset(seed, options)
            return self._end_reset(None)

    def async_reset(self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> None:
        """Begin an episode in every lane; ``recv`` brings the lanes as they are ready, ``batch_size`` at a time."""
        with self._lanes:
            self._begin_reset(seed, options)

    def step(self, actions: Any, *, env_id: Any = None) -> Result:
        with self._lanes:
            self._begin_step(actions, env_id)
            return self._end_step(None)

    def send(self, actions: Any, env_id: Any = None) -> None:
        """Begin a step of all lanes, or of those in ``env_id`` with one action each."""
        with self._lanes:
            self._begin_step(actions, env_id)

    def recv(self) -> Result:
        with self._lanes:
            return self._end_step(None)

    def _begin_step(self, actions: Any, env_id: Any) -> None:
        self._check_free("step", other_steps=True)
        if not self._begun:
            raise ResetNeeded("Cannot step lanes before reset(): call reset() first.")
        lanes = range(self.num_envs) if env_id is None else _lane_numbers(env_id, self.num_envs)
        standing, self._held = self._held, frozenset()
        if self.autoreset_mode is AutoresetMode.DISABLED:
            self._check_none_has_ended(lanes, standing)
        if env_id is None and not standing and self._lanes.begin_step_of_all(actions):
            return
        results = self._lanes.results
        busy = [lane for lane in lanes if lane in results.waiting or lane in results.ready]
        if busy:
            raise AlreadyPendingCallError(f"lane {busy[0]}: its last step has not been received yet.", "step")
        pairs = dict(zip(lanes, lane_actions(self.action_space, actions, len(lanes)), strict=True))
        held = [lane for lane in lanes if lane in standing]
        for lane in held:
            del pairs[lane]
        self._lanes.begin_step(list(pairs), list(pairs.values()))
        results.skip(held)

    def _begin_reset(self, seed: Any, options: Info | None) -> None:
        seeds = lane_seeds(seed, self.num_envs)
        mask, options = reset_mask(options, self.num_envs, begun=self._begun)
        if self.batch_size < self.num_envs and self._pending is None and mask.all():
            self._lanes.abandon_pending()  # lanes that are still under way begin a new episode like the others
        self._check_free("reset")
        self._held = frozenset()
        self._lanes.begin_reset(np.flatnonzero(mask).tolist(), seeds, options)

    def _end_reset(self, timeout: float | None) -> tuple[Any, Info]:
        results, self._pending = self._lanes.results, None
        count = len(results.waiting) + len(results.ready)
        self._lanes.collect(count, timeout)
        results.take(count)
        infos = self._take_infos(range(self.num_envs))  # even if something is raised: they belong to this reset
        self._lanes.faults.raise_reported()
        self._begun = True
        return results.observations.batch(), infos

    def _end_step(self, timeout: float | None) -> Result:
        results, faults, count = self._lanes.results, self._lanes.faults, self.batch_size
        under_way = len(results.waiting) + len(results.ready)
        if under_way < count:
            raise NoAsyncCallError(
                f"recv() returns {count} lanes and {under_way} are under way. Call send(actions) first.", "recv"
            )
        self._lanes.collect(count, timeout)
        chosen = results.take(count)
        self._begun = True
        if count == self.num_envs:
            infos = self._take_infos(range(count))
            faults.raise_reported()
            return (
                results.observations.batch(),
                results.rewards.copy(),
                results.terminations.copy(),
                results.truncations.copy(),
                infos,
            )
        failed = faults.to_raise(chosen)
        if failed is not None:  # the others' results wait for the next recv
            results.ready.extendleft(lane for lane in reversed(chosen) if lane != failed[0])
            self._take_infos([failed[0]])
            raise failed[1]
        infos = self._take_infos(chosen)
        infos["env_id"] = numbers = np.array(chosen)
        return (
            results.observations.some(chosen),
            results.rewards[numbers],
            results.terminations[numbers],
            results.truncations[numbers],
            infos,
        )

    def _take_infos(self, chosen: Sequence[int]) -> Info:
        """The infos of these lanes as one dict; each is handed out once."""
        by_lane = self._lanes.results.infos
        infos: Info = {}
        if by_lane:
            for place, lane in enumerate(chosen):
                if (info := by_lane.pop(lane, None)) is not None:
                    infos = add_info(infos, info, place, len(chosen))
        return self._lanes.faults.add_live(infos, chosen)

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError(f"Trying to operate on `{type(self).__name__}`, after a call to `close()`.")

    def _check_free(self, what: str, *, other_steps: bool = False) -> None:
        """Raise if something else is under way. With ``other_steps``, ``send`` checks lane by lane instead."""
        self._check_open()
        results = self._lanes.results
        pending = self._pending or ("step" if not other_steps and (results.waiting or results.ready) else None)
        if pending is not None:
            raise AlreadyPendingCallError(
                f"Calling `{what}` while waiting for a pending call to `{pending}` to complete. Receive that one "
                f"first (recv() or {pending}_wait()), or close().",
                pending,
            )

    def _check_none_has_ended(self, lanes: Sequence[int], standing: frozenset[int]) -> None:
        """Raise before any lane moves: stepping a lane that has ended is the caller's mistake, and loses nothing."""
        faults, ended_lanes = self._lanes.faults, self._lanes.results.over
        for lane in lanes:
            over = ended_lanes[lane] or lane in faults.restarting
            if over and lane not in faults.frozen and lane not in standing:
                raise reset_needed(lane)

    def render(self) -> tuple[Any, ...]:
        return self._ask([m.Render(row) for row in self._rows()])

    def state(self) -> tuple[State, ...]:
        return tuple(State(*one) for one in self._ask([m.State(row) for row in self._rows()]))

    def snapshot(self) -> bytes:
        """All lanes as bytes, for ``restore`` of lanes made alike, here or in a loop."""
        return seal_lanes(self._begun, self._ask([m.Snapshot(row) for row in self._rows()]))

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; anything else is refused. The observations come with the next step."""
        begun, each = open_lanes(snapshot, self.num_envs)
        self._ask([m.Restore(row, one) for row, one in zip(self._rows(), each, strict=True)])
        self._lanes.results.over[:] = [open_snapshot("lane", one, bool)[0] for one in each]
        self._begun = begun

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Each lane's attribute, called with the arguments if it is callable."""
        return self._ask([m.Call(row, name, list(args), kwargs) for row in self._rows()])

    def set_attr(self, name: str, values: list[Any] | tuple[Any, ...] | Any) -> None:
        """Set an attribute in every lane: one value for all, or a list or tuple with one per lane."""
        each = value_per_lane(values, self.num_envs)
        self._ask([m.Call(row, name, [one], how="set") for row, one in zip(self._rows(), each, strict=True)])

    def _rows(self) -> list[int]:
        """Each lane's number within its worker."""
        return [row for worker in self._lanes.workers for row in range(len(worker.lanes))]

    def _ask(self, requests: Sequence[m.Request]) -> tuple[Any, ...]:
        with self._lanes:
            self._begin_ask(requests)
            return self._end_ask(None)

    def _begin_ask(self, requests: Sequence[m.Request]) -> None:
        self._check_free("call")
        self._lanes.begin_ask(dict(enumerate(requests)))

    def _end_ask(self, timeout: float | None) -> tuple[Any, ...]:
        self._pending = None
        self._lanes.collect(self.num_envs, timeout)
        self._lanes.results.take(self.num_envs)
        answers, self._lanes.answers = self._lanes.answers, {}
        self._lanes.faults.raise_reported()
        for answer in answers.values():
            if isinstance(answer, PaddockError):
                raise answer
        return tuple(answers[lane] for lane in range(self.num_envs))

    def close_extras(  # type: ignore[override]
        self, timeout: float | None = None, terminate: bool = False
    ) -> None:
        """Let the environments close, within ``timeout`` seconds (5 by default, 1 behind a wall); then kill every
        process.
        """
        self._lanes.close(0.0 if terminate else CLOSE_GRACE_S if timeout is None else timeout)


def _makes(env_fns: Sequence[Factory | dict[str, Any]], *, plain: bool) -> list[dict[str, Any]]:
    """What Make takes for each lane. A function would be code, and code can't cross a wall."""
    if not plain:
        return [{"factory": factory} for factory in env_fns]
    for lane, what in enumerate(env_fns):
        if not isinstance(what, dict):
            raise InvalidLanes(f"lane {lane}: behind a wall an environment is made from plain data, got {what!r:.80}.")
    return list(env_fns)  # type: ignore[arg-type]


def _lane_numbers(env_id: Any, num_envs: int) -> list[int]:
    numbers = np.asarray(env_id)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or len(set(numbers.tolist())) != len(numbers):
        raise InvalidLanes(f"env_id={env_id!r}: expected different lane numbers, one per action.")
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() < num_envs):
        raise InvalidLanes(f"env_id={env_id!r}: there are {num_envs} lanes, numbered from 0.")
    return numbers.tolist()  # type: ignore[no-any-return]


def _at_least_one(name: str, value: int | None) -> int | None:
    if value is not None and (type(value) is not int or value < 1):
        raise InvalidLanes(f"{name}={value!r}: expected a whole number, at least 1.")
    return value


def _positive(name: str, value: float | None) -> float | None:
    if value is not None and not (isinstance(value, (int, float)) and value > 0):
        raise InvalidLanes(f"{name}={value!r}: expected a positive number of seconds.")
    return value


T = TypeVar("T")


class AsyncState(Enum):
    """What an AsyncVectorEnv waits for."""

    DEFAULT = "default"
    WAITING_RESET = "reset"
    WAITING_STEP = "step"
    WAITING_CALL = "call"


class AsyncVectorEnv(ProcessVectorEnv[ObsType, ActType]):
    """ProcessVectorEnv with Gymnasium's surface: one process per lane, unless ``workers`` says otherwise.

    ``context`` is multiprocessing's start method; the default forks on Linux, so that workers know what this process
    has registered. ``shared_memory`` has no effect: values of fixed size are always shared, others travel in frames.
    ``worker`` (Gymnasium's loop over a pipe of pickles) is refused: nothing is pickled on the way back. After a
    timeout, and after a lane has failed, the environment goes on; see ``faults``.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], Env[Any, Any]]],
        shared_memory: bool = True,
        copy: bool = True,
        context: str | None = None,
        daemon: bool = True,
        worker: Callable[..., None] | None = None,
        observation_mode: str | tuple[Space[Any], Space[Any]] = "same",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        max_concurrency: int | None = None,
        *,
        workers: int | None = None,
        on_fault: OnFault = "raise",
        deadline_s: float | None = None,
        batch_size: int | None = None,
    ) -> None:
        if worker is not None:
            raise InvalidLanes(
                "worker= is a loop over Gymnasium's pickles, which paddock's processes do not read. "
                "Put what it does into the environment or into a wrapper."
            )
        self.shared_memory = shared_memory
        super().__init__(
            env_fns,
            workers=len(env_fns) if workers is None else workers,
            copy=copy,
            observation_mode=observation_mode,
            autoreset_mode=autoreset_mode,
            on_fault=on_fault,
            deadline_s=deadline_s,
            max_concurrency=max_concurrency,
            batch_size=batch_size,
            launcher=start_by(context, daemon=daemon),
        )

    @property
    def processes(self) -> list[Any]:
        """The worker processes, as multiprocessing knows them."""
        return [worker.channel.child.process for worker in self._lanes.workers if worker.channel.child is not None]

    @property
    def _state(self) -> AsyncState:
        if self._pending is not None:
            return AsyncState(self._pending)
        results = self._lanes.results
        return AsyncState.WAITING_STEP if results.waiting or results.ready else AsyncState.DEFAULT

    def reset_async(self, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> None:
        """Begin a reset; ``reset_wait`` returns its result."""
        self.async_reset(seed=seed, options=options)
        self._pending = "reset"

    def reset_wait(self, timeout: int | float | None = None) -> tuple[Any, Info]:
        """The result of ``reset_async``. multiprocessing.TimeoutError after ``timeout`` seconds."""
        self._check_waiting(AsyncState.WAITING_RESET, "reset_async", "reset_wait")
        return self._in_time(self._end_reset, timeout, "reset")

    def step_async(self, actions: Any) -> None:
        """Begin a step; ``step_wait`` returns its result."""
        self._check_free("step")
        self.send(actions)

    def step_wait(self, timeout: int | float | None = None) -> Result:
        """The result of ``step_async``. multiprocessing.TimeoutError after ``timeout`` seconds."""
        self._check_waiting(AsyncState.WAITING_STEP, "step_async", "step_wait")
        return self._in_time(self._end_step, timeout, "step")

    def call_async(self, name: str, /, *args: Any, **kwargs: Any) -> None:
        """Begin a call of each lane's attribute; ``call_wait`` returns the results."""
        with self._lanes:
            self._begin_ask([m.Call(row, name, list(args), kwargs) for row in self._rows()])
            self._pending = "call"

    def call_wait(self, timeout: int | float | None = None) -> tuple[Any, ...]:
        """The results of ``call_async``. multiprocessing.TimeoutError after ``timeout`` seconds."""
        self._check_waiting(AsyncState.WAITING_CALL, "call_async", "call_wait")
        return self._in_time(self._end_ask, timeout, "call")

    def _check_waiting(self, state: AsyncState, begin: str, end: str) -> None:
        self._check_open()
        if self._state is not state:
            raise NoAsyncCallError(f"Calling `{end}` without any prior call to `{begin}`.", state.value)

    def _in_time(self, receive: Callable[[float | None], T], timeout: float | None, what: str) -> T:
        try:
            with self._lanes:
                return receive(timeout)
        except TimedOut as error:
            text = f"The call to `{what}_wait` has timed out after {timeout} seconds: {error}"
            raise TimedOut(text, lane=error.lane) from None
