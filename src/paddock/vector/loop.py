"""SyncVectorEnv: lanes stepped one after the other in this process. Lane i behaves exactly as that one env would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from paddock.core.env import ActType, Env, Info, ObsType
from paddock.core.lane import Lane, lane_seeds, reset_mask, reset_needed, value_per_lane
from paddock.core.spec import EnvSpec
from paddock.core.state import State, state
from paddock.core.vector_env import AutoresetMode, OnFault
from paddock.errors import ClosedEnvironmentError, EnvFailed, PaddockError
from paddock.spaces import Space
from paddock.vector.faults import Faults, is_fault
from paddock.vector.lanes import LaneObservations, SeparateLanes, lane_actions, open_lanes, seal_lanes

Array = np.ndarray[Any, Any]


class SyncVectorEnv(SeparateLanes[ObsType, ActType]):
    """n environments, made by ``env_fns``, stepped in a loop.

    ``observation_mode``: "same" for lanes with equal spaces, "different" for spaces of one dtype and shape with other
    bounds, or a pair (batched space, single space). ``copy=False`` returns buffers that the next step overwrites.
    ``on_fault`` says what becomes of a lane that raises, see ``faults``.
    rewards: float64[n]; terminations, truncations: bool[n].
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], Env[Any, Any]]],
        copy: bool = True,
        observation_mode: str | tuple[Space[Any], Space[Any]] = "same",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        *,
        on_fault: OnFault = "raise",
    ) -> None:
        super().__init__(env_fns, copy, observation_mode, autoreset_mode)
        self._faults = Faults(on_fault, self.num_envs)
        self._lanes: list[Lane] = []
        try:
            for make_one in env_fns:
                self._lanes.append(Lane(make_one(), self.autoreset_mode))
            self._adopt_spaces([(env.observation_space, env.action_space) for env in self.envs])
        except BaseException:
            for env in self.envs:
                env.close()
            raise
        first = self._lanes[0].env
        self.metadata = {**first.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = first.render_mode
        self._rewards = np.zeros(self.num_envs, dtype=np.float64)
        self._terminations = np.zeros(self.num_envs, dtype=np.bool_)
        self._truncations = np.zeros(self.num_envs, dtype=np.bool_)
        self._observations = LaneObservations(self.single_observation_space, self.num_envs, copy=copy)

    @property
    def envs(self) -> list[Env[Any, Any]]:
        """The environment of each lane."""
        return [lane.env for lane in self._lanes]

    @property
    def lane_spec(self) -> EnvSpec | None:
        """What makes one lane again; ``spec`` makes all of them, and only the code that made them knows it."""
        return self._lanes[0].env.spec

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> tuple[Any, Info]:
        self._check_open()
        seeds = lane_seeds(seed, self.num_envs)
        mask, options = reset_mask(options, self.num_envs, begun=self._begun)
        infos: Info = {}
        self._held = frozenset()
        for lane in np.flatnonzero(mask).tolist():
            seed_now = self._faults.choose_seed(lane, seeds[lane])
            infos = self._add_info(infos, self._reset_lane(lane, seed_now, options), lane)
        self._faults.raise_reported()
        self._begun = True
        return self._observations.batch(), self._faults.add_live(infos)

    def send(self, actions: Any) -> None:
        self._check_open()
        self._sent = lane_actions(self.action_space, actions, self.num_envs)

    def recv(self) -> tuple[Any, Array, Array, Array, Info]:
        self._check_open()
        sent, held, self._held = self._take_sent(), self._held, frozenset()
        if self.autoreset_mode is AutoresetMode.DISABLED:
            self._check_none_has_ended(held)
        infos = self._step_lanes(sent, held)
        self._faults.raise_reported()
        return (
            self._observations.batch(),
            self._rewards.copy(),
            self._terminations.copy(),
            self._truncations.copy(),
            self._faults.add_live(infos),
        )

    def _step_lanes(self, sent: Sequence[Any], held: frozenset[int]) -> Info:
        """Step each lane that is not held; the batch of their infos."""
        infos: Info = {}
        for lane, action in enumerate(sent):
            if lane in held:
                self._put_nothing(lane)
                continue
            info = self._step_lane(lane, action)
            if info:
                infos = self._add_info(infos, info, lane)
        return infos

    def _check_none_has_ended(self, held: frozenset[int]) -> None:
        """Raise before any lane moves: stepping a lane that has ended is the caller's mistake, and loses nothing."""
        for number, lane in enumerate(self._lanes):
            over = lane.ended or number in self._faults.restarting
            if over and number not in self._faults.frozen and number not in held:
                raise reset_needed(number)

    def _step_lane(self, number: int, action: Any) -> Info:
        try:
            if number in self._faults.restarting:
                if number not in self._faults.frozen:
                    return self._restart(number, self._faults.next_seed(number), None)
                self._put_nothing(number)
                return {}
            observation, reward, terminated, truncated, info = self._lanes[number].step(action)
            self._observations.put(number, observation)
        except Exception as error:
            return self._record_failure(number, error)
        self._rewards[number], self._terminations[number], self._truncations[number] = reward, terminated, truncated
        return info

    def _reset_lane(self, number: int, seed: int | None, options: Info | None) -> Info:
        while True:
            try:
                if number in self._faults.restarting:
                    return self._restart(number, seed, options)
                observation, info = self._lanes[number].reset(seed=seed, options=options)
                self._observations.put(number, observation)
            except Exception as error:
                info = self._record_failure(number, error, beginning=True)
                if not (is_fault(error) and self._faults.tries_again(number)):
                    return info
                seed = self._faults.next_seed(number)
            else:
                self._put_nothing(number)
                return info

    def _restart(self, number: int, seed: int | None, options: Info | None) -> Info:
        """Begin an episode in a new environment."""
        self._replace_env(number)
        observation, info = self._lanes[number].reset(seed=seed, options=options)
        self._observations.put(number, observation)
        self._put_nothing(number)
        self._faults.mark_begun(number)
        return info

    def _replace_env(self, number: int) -> None:
        with suppress(Exception):  # it failed before: another error says nothing new
            self._lanes[number].env.close()
        self._lanes[number] = Lane(self.env_fns[number](), self.autoreset_mode)

    def _record_failure(self, number: int, error: Exception, *, beginning: bool = False) -> Info:
        """Note that a lane raised; returns what its info says. Its error is raised once the other lanes have moved."""
        if not is_fault(error):
            if isinstance(error, PaddockError) and error.args and isinstance(error.args[0], str):
                if not error.args[0].startswith("lane "):
                    error.args = (f"lane {number}: {error.args[0]}", *error.args[1:])
                error.lane = number  # type: ignore[attr-defined]
            self._faults.mistake(number, error)
            self._put_nothing(number)
            return {}
        self._put_nothing(number, truncated=True)
        cause = EnvFailed(f"lane {number}: {error}", lane=number, error_type=type(error).__name__)
        cause.__cause__ = error
        # In this process the policy "raise" raises the environment's own error, as it would alone.
        own = error if self._faults.on_fault == "raise" else cause
        with suppress(AttributeError):  # its class may have slots
            error.lane = number  # type: ignore[attr-defined]
        return self._faults.report(number, cause, beginning=beginning, raised=own)

    def _put_nothing(self, number: int, *, truncated: bool = False) -> None:
        """Record that no step was made: reward 0, and the observation stays what it was."""
        self._rewards[number], self._terminations[number], self._truncations[number] = 0.0, False, truncated

    def render(self) -> tuple[Any, ...]:
        self._check_open()
        return tuple(env.render() for env in self.envs)

    def state(self) -> tuple[State, ...]:
        return tuple(state(env) for env in self.envs)

    def snapshot(self) -> bytes:
        """All lanes as bytes, for ``restore`` of lanes made alike; each environment must have a ``snapshot``."""
        self._check_open()
        return seal_lanes(self._begun, [lane.snapshot() for lane in self._lanes])

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; anything else is refused. The observations come with the next step."""
        self._check_open()
        begun, each = open_lanes(snapshot, self.num_envs)
        for number, one in enumerate(each):
            if number in self._faults.restarting:
                self._replace_env(number)
            self._lanes[number].restore(one)
            self._faults.mark_begun(number)
        self._begun = begun

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError("These lanes are closed. Make them again.")

    def look_at_lanes(self) -> None:
        """Call this after changing ``envs`` from outside: some lanes are stepped together only while they are alike."""

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Each lane's attribute, called with the arguments if it is callable."""
        found = (env.get_wrapper_attr(name) for env in self.envs)
        return tuple(value(*args, **kwargs) if callable(value) else value for value in found)

    def set_attr(self, name: str, values: list[Any] | tuple[Any, ...] | Any) -> None:
        """Set an attribute in every lane: one value for all, or a list or tuple with one per lane."""
        for env, value in zip(self.envs, value_per_lane(values, self.num_envs), strict=True):
            env.set_wrapper_attr(name, value)

    def close_extras(self, **kwargs: Any) -> None:
        for env in self.envs:
            env.close()
