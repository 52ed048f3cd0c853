"""ProcessVectorEnv: lanes in worker processes, several to each, with arrays in shared memory.

One wake-up a worker and step, and no pickle from a worker to this process. Lanes fail alone: see ``faults``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic

import numpy as np

from paddock.core.env import ActType, Env, Info, ObsType
from paddock.core.infos import add_info
from paddock.core.lane_arguments import ended, held_lanes, lane_seeds, one_a_lane, reset_mask
from paddock.core.snapshot import opened
from paddock.core.spec_json import decode_spec
from paddock.core.state import State
from paddock.core.vector_env import AutoresetMode, OnFault, VectorEnv
from paddock.errors import (
    AlreadyPendingCallError,
    ClosedEnvironmentError,
    InvalidLanes,
    NoAsyncCallError,
    PaddockError,
    ResetNeeded,
)
from paddock.hosting import messages as m
from paddock.hosting.client import described_spaces
from paddock.hosting.factories import dumps
from paddock.hosting.launch import Launcher, start_fresh
from paddock.hosting.process_channel import CLOSE_GRACE_S, ProcessChannel
from paddock.hosting.wall_description import checked_spaces, checked_spec
from paddock.hosting.wall_rules import WallRules
from paddock.hosting.wall_spaces import check_size
from paddock.hosting.walled_channel import CLOSE_S, WalledChannel
from paddock.spaces import Space
from paddock.vector.lane_actions import lane_actions
from paddock.vector.lane_snapshots import opened_lanes, sealed_lanes
from paddock.vector.lane_spaces import lane_spaces
from paddock.vector.process_lanes import ProcessLanes

Array = np.ndarray[Any, Any]
Factory = Callable[[], Env[Any, Any]]
Result = tuple[Any, Array, Array, Array, Info]


class ProcessVectorEnv(VectorEnv[ObsType, ActType, Array], Generic[ObsType, ActType]):
    """n environments, made by ``env_fns`` in ``workers`` processes (as many as cores, unless told otherwise).

    ``on_fault`` says what becomes of a lane that raises, dies or takes longer than ``deadline_s`` for a step: "raise",
    "restart" or "mask", see ``faults``. ``max_concurrency``: how many workers may be busy at the same time.
    ``batch_size`` < n: ``recv`` returns the first lanes that are ready, ``info["env_id"]`` says which, and
    ``send(actions, env_id)`` steps those. ``launcher`` starts a worker process.
    With ``wall`` the workers are not believed: what breaks the rules ends the worker and is an EnvironmentViolation of
    that lane. Then ``env_fns`` are what Make takes, plain data instead of functions, and ``deadline_s`` is the rules'.
    rewards: float64[n]; terminations, truncations: bool[n].
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
        if not env_fns:
            raise InvalidLanes("A vector environment needs at least one env function.")
        self.env_fns = env_fns
        self.num_envs = len(env_fns)
        self.copy, self.observation_mode = copy, observation_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.batch_size = _batch_size(batch_size, self.num_envs)
        self._begun = False
        self._held: frozenset[int] = frozenset()
        self._pending: str | None = None  # "reset" or "call"; steps are known by their lanes
        self._rules = wall
        deadline_s = _positive("deadline_s", deadline_s) or (None if wall is None else wall.call_s)
        self._lanes = ProcessLanes(
            _makes(env_fns, plain=wall is not None),
            workers=_at_least_one("workers", workers) or os.cpu_count() or 1,
            open_channel=partial(_open, launcher, wall, deadline_s),
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
        chosen = lane_spaces([one for one, _ in spaces], [one for _, one in spaces], self.observation_mode)
        self.single_observation_space, self.single_action_space = (
            chosen.single_observation_space,
            chosen.single_action_space,
        )
        self.observation_space, self.action_space = chosen.observation_space, chosen.action_space
        self.metadata = {**described[0].metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = described[0].render_mode
        # What makes one lane again. Not `spec`: that one makes all of them, and only who made them knows it.
        if self._rules is not None:
            self.lane_spec = checked_spec(described[0])
            for name in ("observation_space", "action_space"):
                single = getattr(self, f"single_{name}")
                check_size(single, name, limit=self._rules.lanes_bytes, count=self.num_envs)
        else:
            self.lane_spec = None if described[0].spec is None else decode_spec(described[0].spec)
        declared = [one for one, _ in spaces]
        self._lanes.adopt(self.single_observation_space, self.single_action_space, copy=self.copy, declared=declared)

    def _spaces_of(self, lane: int, described: m.Description) -> tuple[Space[Any], Space[Any]]:
        if self._rules is not None:
            return checked_spaces(described, self._rules)
        if described.observation_space is not None and described.action_space is not None:
            return described_spaces(described)
        # A space of the user's own class has no form on the wire. The factory is ours, so ask an environment here.
        make = self.env_fns[lane]
        assert callable(make)
        env = make()
        try:
            return env.observation_space, env.action_space
        finally:
            env.close()

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> tuple[Any, Info]:
        try:
            self._begin_reset(seed, options)
            return self._end_reset(None)
        except BaseException as error:
            self._lanes.forget_if_interrupted(error)
            raise

    def async_reset(self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> None:
        """Begin an episode in every lane; ``recv`` brings the lanes as they are ready, ``batch_size`` at a time."""
        self._begin_reset(seed, options)

    def step(self, actions: Any, *, env_id: Any = None) -> Result:
        try:
            self.send(actions, env_id)
            return self.recv()
        except BaseException as error:
            self._lanes.forget_if_interrupted(error)
            raise

    def send(self, actions: Any, env_id: Any = None) -> None:
        """Begin a step, of all lanes or of those in ``env_id`` with an action each."""
        self._check_free("step", other_steps=True)
        if not self._begun:
            raise ResetNeeded("Cannot step lanes before reset(): call reset() first.")
        lanes = range(self.num_envs) if env_id is None else _lane_numbers(env_id, self.num_envs)
        standing, self._held = self._held, frozenset()
        if self.autoreset_mode is AutoresetMode.DISABLED:
            self._check_none_has_ended(lanes, standing)
        if env_id is None and not standing and self._lanes.begin_step_of_all(actions):
            return
        busy = [lane for lane in lanes if lane in self._lanes.waiting or lane in self._lanes.ready]
        if busy:
            raise AlreadyPendingCallError(f"lane {busy[0]}: its last step has not been received yet.", "step")
        pairs = dict(zip(lanes, lane_actions(self.action_space, actions, len(lanes)), strict=True))
        held = [lane for lane in lanes if lane in standing]
        for lane in held:
            del pairs[lane]
        self._lanes.begin_step(list(pairs), list(pairs.values()))
        self._lanes.rest(held)

    def hold(self, lanes: Array) -> None:
        self._held = held_lanes(lanes, self.num_envs)

    def recv(self) -> Result:
        return self._end_step(None)

    def _begin_reset(self, seed: Any, options: Info | None) -> None:
        seeds = lane_seeds(seed, self.num_envs)
        mask, options = reset_mask(options, self.num_envs, begun=self._begun)
        if self.batch_size < self.num_envs and self._pending is None and mask.all():
            self._lanes.forget()  # lanes that are still under way begin anew like the others
        self._check_free("reset")
        self._held = frozenset()
        self._lanes.begin_reset(np.flatnonzero(mask).tolist(), seeds, options)

    def _end_reset(self, timeout: float | None) -> tuple[Any, Info]:
        lanes, self._pending = self._lanes, None
        count = len(lanes.waiting) + len(lanes.ready)
        lanes.collect(count, timeout)
        lanes.take(count)
        infos = self._infos(range(self.num_envs))  # taken even if something is raised: they are of this reset
        lanes.faults.raise_what_was_reported()
        self._begun = True
        return lanes.observations.batch(), infos

    def _end_step(self, timeout: float | None) -> Result:
        lanes, count = self._lanes, self.batch_size
        if len(lanes.waiting) + len(lanes.ready) < count:
            under_way = len(lanes.waiting) + len(lanes.ready)
            raise NoAsyncCallError(
                f"recv() brings back {count} lanes and {under_way} are under way. Call send(actions) first.", "recv"
            )
        lanes.collect(count, timeout)
        chosen = lanes.take(count)
        self._begun = True
        if count == self.num_envs:
            infos = self._infos(range(count))
            lanes.faults.raise_what_was_reported()
            return (
                lanes.observations.batch(),
                lanes.rewards.copy(),
                lanes.terminations.copy(),
                lanes.truncations.copy(),
                infos,
            )
        failed = lanes.faults.to_raise(chosen)
        if failed is not None:  # the others' results wait for the next recv
            lanes.ready.extendleft(lane for lane in reversed(chosen) if lane != failed[0])
            self._infos([failed[0]])
            raise failed[1]
        infos = self._infos(chosen)
        infos["env_id"] = numbers = np.array(chosen)
        return (
            lanes.observations.some(chosen),
            lanes.rewards[numbers],
            lanes.terminations[numbers],
            lanes.truncations[numbers],
            infos,
        )

    def _infos(self, chosen: Sequence[int]) -> Info:
        """The infos of these lanes as one dict; each is given out once."""
        lanes = self._lanes
        infos: Info = {}
        if lanes.infos:
            for place, lane in enumerate(chosen):
                if (info := lanes.infos.pop(lane, None)) is not None:
                    infos = add_info(infos, info, place, len(chosen))
        if lanes.faults.on_fault == "mask":
            infos["_live"] = lanes.faults.live()[list(chosen)]
        return infos

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError(f"Trying to operate on `{type(self).__name__}`, after a call to `close()`.")

    def _check_free(self, what: str, *, other_steps: bool = False) -> None:
        """That nothing else is under way; with ``other_steps`` lanes may be, for ``send`` to look at one by one."""
        self._check_open()
        pending = self._pending or ("step" if not other_steps and (self._lanes.waiting or self._lanes.ready) else None)
        if pending is not None:
            raise AlreadyPendingCallError(
                f"Calling `{what}` while waiting for a pending call to `{pending}` to complete. Bring that one back "
                f"first (recv() or {pending}_wait()), or close().",
                pending,
            )

    def _check_none_has_ended(self, lanes: Sequence[int], standing: frozenset[int]) -> None:
        """Before anyone moves: a step of lanes of which one has ended is the caller's mistake, and loses nothing."""
        faults = self._lanes.faults
        for lane in lanes:
            over = self._lanes.over[lane] or lane in faults.anew
            if over and lane not in faults.frozen and lane not in standing:
                raise ended(lane)

    def render(self) -> tuple[Any, ...]:
        return self._ask([m.Render(row) for row in self._rows()])

    def state(self) -> tuple[State, ...]:
        return tuple(State(*one) for one in self._ask([m.State(row) for row in self._rows()]))

    def snapshot(self) -> bytes:
        """All lanes as bytes, for ``restore`` of lanes made alike, here or in a loop."""
        return sealed_lanes(self._begun, self._ask([m.Snapshot(row) for row in self._rows()]))

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; anything else is refused. The observations come with the next step."""
        begun, each = opened_lanes(snapshot, self.num_envs)
        self._ask([m.Restore(row, one) for row, one in zip(self._rows(), each, strict=True)])
        self._lanes.over[:] = [opened("lane", one, bool)[0] for one in each]
        self._begun = begun

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Each lane's attribute, called with the arguments if it is callable."""
        return self._ask([m.Call(row, name, list(args), kwargs) for row in self._rows()])

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Each lane's attribute."""
        return self.call(name)

    def set_attr(self, name: str, values: list[Any] | tuple[Any, ...] | Any) -> None:
        """Set an attribute in every lane: one value for all, or a list or tuple with one a lane."""
        each = one_a_lane(values, self.num_envs)
        self._ask([m.Call(row, name, [one], how="set") for row, one in zip(self._rows(), each, strict=True)])

    def _rows(self) -> list[int]:
        """Each lane's number within its worker."""
        return [row for worker in self._lanes.workers for row in range(len(worker.lanes))]

    def _ask(self, requests: Sequence[m.Request]) -> tuple[Any, ...]:
        try:
            self._begin_ask(requests)
            return self._end_ask(None)
        except BaseException as error:
            self._lanes.forget_if_interrupted(error)
            raise

    def _begin_ask(self, requests: Sequence[m.Request]) -> None:
        self._check_free("call")
        self._lanes.begin_ask(dict(enumerate(requests)))

    def _end_ask(self, timeout: float | None) -> tuple[Any, ...]:
        self._pending = None
        self._lanes.collect(self.num_envs, timeout)
        self._lanes.take(self.num_envs)
        answers, self._lanes.answers = self._lanes.answers, {}
        self._lanes.faults.raise_what_was_reported()
        for answer in answers.values():
            if isinstance(answer, PaddockError):
                raise answer
        return tuple(answers[lane] for lane in range(self.num_envs))

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """A copy of each lane's generator: drawing from it leaves the lane alone."""
        return self.get_attr("np_random")

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.get_attr("np_random_seed")

    def close_extras(  # type: ignore[override]
        self, timeout: float | None = None, terminate: bool = False
    ) -> None:
        """Let the environments close, for at most ``timeout`` seconds (5 by default, 1 behind a wall); then end every
        process.
        """
        usual = CLOSE_GRACE_S if self._rules is None else CLOSE_S
        self._lanes.close(0.0 if terminate else usual if timeout is None else timeout)


def _makes(env_fns: Sequence[Factory | dict[str, Any]], *, plain: bool) -> list[dict[str, Any]]:
    """What Make takes for each lane. A function can't cross a wall: it would be code."""
    if not plain:
        return [{"factory": factory} for factory in env_fns]
    for lane, what in enumerate(env_fns):
        if not isinstance(what, dict):
            raise InvalidLanes(f"lane {lane}: behind a wall an environment is made of plain data, got {what!r:.80}.")
    return list(env_fns)  # type: ignore[arg-type]


def _open(launcher: Launcher, wall: WallRules | None, deadline_s: float | None) -> ProcessChannel:
    if wall is not None:
        return WalledChannel(*launcher(), wall)
    return ProcessChannel(*launcher(), pickler=dumps, patience_s=deadline_s)


def _lane_numbers(env_id: Any, num_envs: int) -> list[int]:
    numbers = np.asarray(env_id)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or len(set(numbers.tolist())) != len(numbers):
        raise InvalidLanes(f"env_id={env_id!r}: expected different lane numbers, one an action.")
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() < num_envs):
        raise InvalidLanes(f"env_id={env_id!r}: there are {num_envs} lanes, numbered from 0.")
    return numbers.tolist()  # type: ignore[no-any-return]


def _batch_size(batch_size: int | None, num_envs: int) -> int:
    if batch_size is None:
        return num_envs
    if type(batch_size) is not int or not 1 <= batch_size <= num_envs:
        raise InvalidLanes(f"batch_size={batch_size!r}: expected 1 to {num_envs}, the number of lanes.")
    return batch_size


def _at_least_one(name: str, value: int | None) -> int | None:
    if value is not None and (type(value) is not int or value < 1):
        raise InvalidLanes(f"{name}={value!r}: expected a count, at least 1.")
    return value


def _positive(name: str, value: float | None) -> float | None:
    if value is not None and not (isinstance(value, (int, float)) and value > 0):
        raise InvalidLanes(f"{name}={value!r}: expected a positive number of seconds.")
    return value
