"""ThreadVectorEnv: lanes that threads of this process share, for simulators that let go of the interpreter's lock.

Each lane stays an environment of its own in its guard. Where a task is known well enough, a step in stride goes past
both: threads run nothing but the simulator, and observations, rewards and infos of all lanes are computed at once. All
else, a lane's first step, its last before the limit, an autoreset, a doubtful action, is left to the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.infos import add_info
from paddock.core.vector_env import AutoresetMode, OnFault
from paddock.spaces import Box, Space
from paddock.vector.crew import Crew, Job, usable_cores
from paddock.vector.loop import SyncVectorEnv
from paddock.wrappers.guard import Guard

Array = np.ndarray[Any, Any]


class Outcome(NamedTuple):
    """What a step of k lanes brought. observations: float64[k, …]; rewards, terminations and each info: one a lane."""

    observations: Array
    rewards: Array
    terminations: Array
    infos: dict[str, Array]


class Simulation(Protocol):
    """Lanes whose simulators can be stepped apart from what is computed of them."""

    def begin(self, lanes: Sequence[int], actions: Array) -> None:
        """Take note of what these lanes were, and of the action that each of all lanes gets."""

    def simulate(self, lane: int) -> None:
        """Run one lane's simulator for a step; in any thread."""

    def outcome(self, lanes: Sequence[int]) -> tuple[Array, Array, Array, dict[str, Array]]:
        """An ``Outcome`` of these lanes: exactly what each environment's own step would have returned."""


# From all lanes' environments, and a function that makes another one: how to step them together, if at all.
Recogniser = Callable[[Sequence[Env[Any, Any]], Callable[[], Env[Any, Any]]], "Simulation | None"]


class ThreadVectorEnv(SyncVectorEnv[Any, Any]):
    """As SyncVectorEnv, lane by lane the same results, stepped by ``threads`` threads (as many as cores).

    ``recogniser`` finds lanes that can be stepped together; the others are stepped each by its own ``step``, where
    threads gain as much as that leaves the interpreter's lock to others.
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
        self._crew = Crew(min(usable_cores() if threads is None else threads, self.num_envs))
        self._recogniser = recogniser
        self._stepped: list[Info] = [{}] * self.num_envs
        self._broken: dict[int, Exception] = {}
        try:
            self.look_at_lanes()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        threads = f", threads={self._crew.threads}" if hasattr(self, "_crew") else ""
        return f"{super().__repr__()[:-1]}{threads})"

    def look_at_lanes(self) -> None:
        """Decide anew which way the lanes go: their environments may be others now."""
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
        if self._simulation is not None and self._admits(actions):
            self._check_open()
            self._sent = actions.copy()
        else:
            super().send(actions)

    def _admits(self, actions: Any) -> bool:
        """Whether each guard would let its row pass as it is."""
        space = self.action_space
        if type(actions) is not np.ndarray or actions.dtype != space.dtype or actions.shape != space.shape:
            return False
        assert isinstance(space, Box)
        return not self._bounded or space._within(actions)

    def _step_lanes(self, sent: Sequence[Any], held: frozenset[int]) -> Info:
        self._broken.clear()  # of a step that was interrupted
        together, apart, anew = self._ways(sent, held)
        jobs: list[Job] = [(self._step_apart, (lane, sent[lane])) for lane in apart]
        if together:
            assert self._simulation is not None
            assert isinstance(sent, np.ndarray)
            self._simulation.begin(together, sent)
            jobs += [(self._simulate, lane) for lane in together]
        if jobs:
            self._crew.run(jobs)
        infos = self._take_outcome(together) if together else {}
        for lane in anew:  # here: environments are made in the caller's thread; and now: the lanes are others then
            self._step_apart((lane, sent[lane]))
        for lane in sorted((*apart, *anew, *self._broken)):
            error = self._broken.pop(lane, None)
            info = self._stepped[lane] if error is None else self._failed(lane, error)
            infos = self._add_info(infos, info, lane)
        return infos

    def _ways(self, sent: Sequence[Any], held: frozenset[int]) -> tuple[list[int], list[int], list[int]]:
        """The lanes to step together, those to step each by itself, and those that failed and begin anew."""
        quick = self._simulation is not None and isinstance(sent, np.ndarray)
        if quick and not held and not self._faults.anew:
            lanes = range(self.num_envs)
            in_stride = list(map(self._in_stride, lanes))
            if all(in_stride):
                return list(lanes), [], []
            return [at for at in lanes if in_stride[at]], [at for at in lanes if not in_stride[at]], []
        ways: tuple[list[int], list[int], list[int]] = ([], [], [])
        for lane in range(self.num_envs):
            if lane in held:
                self._put_nothing(lane)
            elif lane in self._faults.anew:
                ways[2].append(lane)
            else:
                ways[0 if quick and self._in_stride(lane) else 1].append(lane)
        return ways

    def _in_stride(self, lane: int) -> bool:
        return self._guards[lane].in_stride and not self._lanes[lane].ended

    def _step_apart(self, what: tuple[int, Any]) -> None:
        lane, action = what
        self._stepped[lane] = self._step_lane(lane, action)

    def _simulate(self, lane: int) -> None:
        assert self._simulation is not None
        try:
            self._simulation.simulate(lane)
        except Exception as error:  # the lane's fault; told when all have moved
            self._broken[lane] = error

    def _take_outcome(self, lanes: list[int]) -> Info:
        """Put the results of lanes that were stepped together where those of each would have gone."""
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
            if ended:  # before its guard knows: after Ctrl-C in between, the lane still begins anew
                self._lanes[lane].ended = True
            self._guards[lane].count_step(ended=ended)
        infos = self._spread(outcome.infos, lanes, over)
        if self.autoreset_mode is not AutoresetMode.SAME_STEP or not over.any():
            return infos
        return self._begin_next_of_all(lanes, outcome, infos)

    def _spread(self, columns: dict[str, Array], lanes: list[int], over: Array) -> Info:
        """The batch of infos. Of an episode that ends and begins anew in one step, another info is told."""
        mask = np.zeros(self.num_envs, np.bool_)
        mask[lanes] = ~over if self.autoreset_mode is AutoresetMode.SAME_STEP else True
        infos: Info = {}
        if mask.all():
            for key, column in columns.items():
                infos[key], infos[f"_{key}"] = column.copy(), mask.copy()
        elif mask.any():
            told = mask[lanes]
            for key, column in columns.items():
                rows = np.zeros((self.num_envs, *column.shape[1:]), column.dtype)
                rows[mask] = column[told]
                infos[key], infos[f"_{key}"] = rows, mask.copy()
        return infos

    def _begin_next_of_all(self, lanes: list[int], outcome: Outcome, infos: Info) -> Info:
        for row in np.flatnonzero(outcome.terminations).tolist():
            lane = lanes[row]
            info = {key: column[row] for key, column in outcome.infos.items()}
            result = outcome.observations[row].copy(), outcome.rewards[row], True, False, info
            infos = add_info(infos, self._begin_next(lane, result), lane, self.num_envs)
        return infos

    def _begin_next(self, lane: int, result: tuple[Any, Any, bool, bool, Info]) -> Info:
        """Under SAME_STEP: the lane's next episode, in the step that ended the one before."""
        try:
            observation, _, _, _, info = self._lanes[lane]._ending(result)
            self._observations.put(lane, observation)
        except Exception as error:
            return self._failed(lane, error)
        return info

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
        """End the threads, then close the lanes; a helper finishes the step that it is at."""
        if hasattr(self, "_crew"):
            self._crew.close()
        super().close_extras(**kwargs)
