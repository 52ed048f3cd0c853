"""ThreadVectorEnv: lanes shared by threads of this process, for simulators that release the interpreter's lock.

Each lane stays an environment of its own in its guard. Where a task is known well enough, a common step bypasses both:
threads run nothing but the simulator, and observations, rewards and infos of all lanes are computed at once. Everything
else (a lane's first step, its last before the limit, an autoreset, a doubtful action) is left to the environment.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.vector_env import AutoresetMode, OnFault, add_info
from paddock.spaces import Box, Space
from paddock.vector.loop import SyncVectorEnv
from paddock.wrappers.guard import Guard

Array = np.ndarray[Any, Any]


class Outcome(NamedTuple):
    """What a step of k lanes returned. observations: float64[k, …]; rewards, terminations and infos: one per lane."""

    observations: Array
    rewards: Array
    terminations: Array
    infos: dict[str, Array]


class Simulation(Protocol):
    """Lanes whose simulators can be stepped separately from what is computed from them."""

    def begin(self, lanes: Sequence[int], actions: Array) -> None:
        """Note the state of these lanes, and the action of every lane."""

    def simulate(self, lane: int) -> None:
        """Run one lane's simulator for a step; in any thread."""

    def outcome(self, lanes: Sequence[int]) -> tuple[Array, Array, Array, dict[str, Array]]:
        """The ``Outcome`` of these lanes: exactly what each environment's own step would have returned."""


# From all lanes' environments, and a function that makes another one: how to step them together, if at all.
Recogniser = Callable[[Sequence[Env[Any, Any]], Callable[[], Env[Any, Any]]], "Simulation | None"]


class ThreadVectorEnv(SyncVectorEnv[Any, Any]):
    """SyncVectorEnv, with the same results lane by lane, stepped by ``threads`` threads (by default as many as cores).

    ``recogniser`` finds lanes that can be stepped together; the others are stepped by their own ``step``, where threads
    gain only as much as that releases the interpreter's lock.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], Env[Any, Any]]],
        copy: bool = True,
        observation_mode: str | tuple[Space[Any], Space[Any]] = "same",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        *,
        on_fault: OnFault = "raise",
        threads: int | None = None,
        recogniser: Recogniser | None = None,
    ) -> None:
        super().__init__(env_fns, copy, observation_mode, autoreset_mode, on_fault=on_fault)
        self._threads = StepThreads(min(usable_cores() if threads is None else threads, self.num_envs))
        self._recogniser = recogniser
        self._stepped: list[Info] = [{}] * self.num_envs
        self._broken: dict[int, Exception] = {}
        try:
            self.look_at_lanes()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        threads = f", threads={self._threads.threads}" if hasattr(self, "_threads") else ""
        return f"{super().__repr__()[:-1]}{threads})"

    def look_at_lanes(self) -> None:
        """Decide again how to step the lanes: their environments may have changed."""
        guards = [env for env in self.envs if type(env) is Guard]
        self._guards: list[Guard[Any, Any]] = guards
        self._simulation: Simulation | None = None
        if self._recogniser is not None and len(guards) == self.num_envs and type(self.single_action_space) is Box:
            self._simulation = self._recogniser(self.envs, self.env_fns[0])
            self._bounded = any(guard.checks_bounds for guard in guards)

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> tuple[Any, Info]:
        self._check_open()
        if options is None or "reset_mask" not in options:
            self.look_at_lanes()
        return super().reset(seed=seed, options=options)

    def send(self, actions: Any) -> None:
        space = self.action_space
        # Whether each guard would let its row pass unchanged.
        if (
            self._simulation is not None
            and isinstance(space, Box)
            and type(actions) is np.ndarray
            and actions.dtype == space.dtype
            and actions.shape == space.shape
            and (not self._bounded or space._within(actions))
        ):
            self._check_open()
            self._sent = actions.copy()
        else:
            super().send(actions)

    def _step_lanes(self, sent: Sequence[Any], held: frozenset[int]) -> Info:
        self._broken.clear()  # of a step that was interrupted
        together, apart, restarting = self._group(sent, held)
        jobs: list[Job] = [(self._step_apart, (lane, sent[lane])) for lane in apart]
        if together:
            assert self._simulation is not None
            assert isinstance(sent, np.ndarray)
            self._simulation.begin(together, sent)
            jobs += [(self._simulate, lane) for lane in together]
        if jobs:
            self._threads.run(jobs)
        infos = self._take_outcome(together) if together else {}
        # Environments are made in the caller's thread; last, because the lanes may no longer be alike afterwards.
        for lane in restarting:
            self._step_apart((lane, sent[lane]))
        for lane in sorted((*apart, *restarting, *self._broken)):
            error = self._broken.pop(lane, None)
            info = self._stepped[lane] if error is None else self._record_failure(lane, error)
            infos = self._add_info(infos, info, lane)
        return infos

    def _group(self, sent: Sequence[Any], held: frozenset[int]) -> tuple[list[int], list[int], list[int]]:
        """The lanes to step together, those to step each by itself, and those that failed and restart."""
        quick = self._simulation is not None and isinstance(sent, np.ndarray)
        if quick and not held and not self._faults.restarting:
            lanes = range(self.num_envs)
            in_stride = list(map(self._in_stride, lanes))
            if all(in_stride):
                return list(lanes), [], []
            return [at for at in lanes if in_stride[at]], [at for at in lanes if not in_stride[at]], []
        groups: tuple[list[int], list[int], list[int]] = ([], [], [])
        for lane in range(self.num_envs):
            if lane in held:
                self._put_nothing(lane)
            elif lane in self._faults.restarting:
                groups[2].append(lane)
            else:
                groups[0 if quick and self._in_stride(lane) else 1].append(lane)
        return groups

    def _in_stride(self, lane: int) -> bool:
        return self._guards[lane].in_stride and not self._lanes[lane].ended

    def _step_apart(self, lane_and_action: tuple[int, Any]) -> None:
        lane, action = lane_and_action
        self._stepped[lane] = self._step_lane(lane, action)

    def _simulate(self, lane: int) -> None:
        assert self._simulation is not None
        try:
            self._simulation.simulate(lane)
        except Exception as error:  # the lane's fault; reported when all have moved
            self._broken[lane] = error

    def _take_outcome(self, lanes: list[int]) -> Info:
        """Store the results of lanes that were stepped together as if each had been stepped alone."""
        assert self._simulation is not None
        if self._broken:
            lanes = [lane for lane in lanes if lane not in self._broken]
            if not lanes:
                return {}
        outcome = Outcome(*self._simulation.outcome(lanes))
        whole = len(lanes) == self.num_envs
        place: Any = slice(None) if whole else lanes
        self._rewards[place], self._terminations[place] = outcome.rewards, outcome.terminations
        self._truncations[place] = False
        if whole:
            self._observations.put_part(slice(0, self.num_envs), outcome.observations)
        else:
            for lane, observation in zip(lanes, outcome.observations, strict=True):
                self._observations.put(lane, observation)
        over = outcome.terminations
        for lane, ended in zip(lanes, over.tolist(), strict=True):
            if ended:  # before its guard knows: after Ctrl-C in between, the lane still begins a new episode
                self._lanes[lane].ended = True
            self._guards[lane].count_step(ended=ended)
        infos = self._spread(outcome.infos, lanes, over)
        if self.autoreset_mode is not AutoresetMode.SAME_STEP or not over.any():
            return infos
        for row in np.flatnonzero(outcome.terminations).tolist():
            lane = lanes[row]
            info = {key: column[row] for key, column in outcome.infos.items()}
            result = outcome.observations[row].copy(), outcome.rewards[row], True, False, info
            try:
                observation, _, _, _, first_info = self._lanes[lane]._ending(result)
                self._observations.put(lane, observation)
            except Exception as error:
                first_info = self._record_failure(lane, error)
            infos = add_info(infos, first_info, lane, self.num_envs)
        return infos

    def _spread(self, columns: dict[str, Array], lanes: list[int], over: Array) -> Info:
        """The batch of infos. Left out: lanes that end and begin a new episode in this step, whose info is another."""
        mask = np.zeros(self.num_envs, np.bool_)
        mask[lanes] = ~over if self.autoreset_mode is AutoresetMode.SAME_STEP else True
        infos: Info = {}
        if mask.all():
            for key, column in columns.items():
                infos[key], infos[f"_{key}"] = column.copy(), mask.copy()
        elif mask.any():
            kept = mask[lanes]
            for key, column in columns.items():
                rows = np.zeros((self.num_envs, *column.shape[1:]), column.dtype)
                rows[mask] = column[kept]
                infos[key], infos[f"_{key}"] = rows, mask.copy()
        return infos

    def _replace_env(self, number: int) -> None:
        super()._replace_env(number)
        self.look_at_lanes()

    def restore(self, snapshot: bytes) -> None:
        self._check_open()
        try:
            super().restore(snapshot)
        finally:  # settings are part of a snapshot
            self.look_at_lanes()

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        try:
            return super().call(name, *args, **kwargs)
        finally:
            self.look_at_lanes()

    def set_attr(self, name: str, values: list[Any] | tuple[Any, ...] | Any) -> None:
        try:
            super().set_attr(name, values)
        finally:
            self.look_at_lanes()

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads, then close the lanes; each thread finishes its current step first."""
        if hasattr(self, "_threads"):
            self._threads.close()
        super().close_extras(**kwargs)


Job = tuple[Callable[[Any], None], Any]


class StepThreads:
    """``threads`` threads that share the jobs of one step, the caller's own thread included. They sleep in between.

    Which thread does which job is left to chance, so jobs must not depend on it. A step that is interrupted ends only
    when no helper works any more: until then a lane may still be stepped.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._helpers = _Helpers()
        weakref.finalize(self, _Helpers.dismiss, self._helpers)

    def run(self, jobs: Sequence[Job]) -> None:
        """Call ``function(argument)`` for each job and return when all are done. Raises what one of them raises."""
        if self.threads == 1 or len(jobs) == 1:
            for function, argument in jobs:
                function(argument)
            return
        if not self._helpers.ready():
            self._helpers.start(self.threads - 1)
            self.threads = 1 + len(self._helpers.threads)
        share = _Share(jobs)
        try:
            self._helpers.call(share)
            share.work()
            share.over.acquire()
        except BaseException:  # an interrupt comes at any point, so no count here can be relied on
            share.jobs.clear()
            self.pause()
            raise
        if share.error is not None:
            raise share.error

    def close(self) -> None:
        """End the helpers for good: from now on the caller's thread does every job."""
        self.threads = 1
        self.pause()

    def pause(self) -> None:
        """End the helpers, when each is done with its job; the next ``run`` starts others."""
        leaving = self._helpers.threads
        self._helpers.dismiss()
        for thread in leaving:
            if thread.ident is not None:  # else an interrupt came before it was started
                thread.join()


class _Share:
    """The jobs of one step. The thread that does the last of them releases ``over``."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = list(reversed(jobs))
        self.error: BaseException | None = None
        self.over = threading.Lock()
        self.over.acquire()
        self._left, self._counting = len(jobs), threading.Lock()

    def work(self) -> None:
        """Do jobs until none is left to begin. Hot: this runs under the interpreter's lock."""
        jobs = self.jobs
        while True:
            try:
                function, argument = jobs.pop()
            except IndexError:
                return
            try:
                function(argument)
            except BaseException as error:  # an interrupt too: the others are stepped before it is raised
                self.error = self.error or error
            with self._counting:
                self._left -= 1
                last = self._left == 0
            if last:
                self.over.release()


class _Helpers:
    """The threads and their queue. They do not refer to StepThreads, so that it is collected when it is dropped."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self._pid = 0

    def ready(self) -> bool:
        return bool(self.threads) and self._pid == os.getpid()  # threads do not survive a fork

    def start(self, count: int) -> None:
        self._pid, self.threads = os.getpid(), []
        self._work: SimpleQueue[_Share | None] = SimpleQueue()
        for _ in range(count):
            thread = threading.Thread(target=_help, args=(self._work,), name="paddock lanes", daemon=True)
            self.threads.append(thread)
            try:
                thread.start()
            except RuntimeError:  # a sandbox allows no more of them: those that there are do it all
                self.threads.remove(thread)
                return

    def call(self, share: _Share) -> None:
        for _ in self.threads:
            self._work.put(share)

    def dismiss(self) -> None:
        leaving, self.threads = self.threads, []
        if self._pid == os.getpid():
            for _ in leaving:
                self._work.put(None)


def usable_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _help(work: SimpleQueue[_Share | None]) -> None:
    while (share := work.get()) is not None:
        share.work()
        share = None  # a helper that waits holds on to nothing
