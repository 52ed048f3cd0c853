"""LanesVecEnv: a VecEnv of Stable-Baselines3 over paddock's lanes. Imported only where that library is.

What it returns is the caller's: algorithms keep the last observations while the next step runs, and write into infos.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv

from paddock.adapters.evaluation import Evaluations
from paddock.adapters.trainers import reuses_buffers
from paddock.core.env import Info
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.errors import InvalidLanes, WrongClass
from paddock.sources.gymnasium_spaces import to_theirs
from paddock.vector import SyncVectorEnv
from paddock.wrappers.vector import info_list

Array = np.ndarray[Any, Any]
Indices = int | Iterable[int] | None
# All other keys are about the episode that goes on or has just begun.
_FINAL_KEYS = {"final_obs", "_final_obs", "final_info", "_final_info"}
_EMPTY_INFO = {"TimeLimit.truncated": False}
_LOOP = "make them with backend='loop', which steps one environment per lane, to have those."


def adapt(lanes: Any) -> LanesVecEnv:
    """Return ``lanes`` as a VecEnv."""
    if not isinstance(lanes, VectorEnv):
        raise WrongClass(
            f"as_vec_env() takes lanes, a paddock.VectorEnv, got {type(lanes).__name__}. "
            f"paddock.adapters.sb3.vec_env(id, n) makes them; one environment goes to paddock.to_gymnasium()."
        )
    mode = lanes.metadata.get("autoreset_mode")
    if mode not in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED):
        raise InvalidLanes(
            f"Stable-Baselines3 wants lanes that restart in the step that ends an episode, these have the mode {mode}. "
            f"Make them with lanes=LaneOptions(autoreset='SameStep'), or by paddock.adapters.sb3.vec_env()."
        )
    if getattr(lanes.unwrapped, "batch_size", lanes.num_envs) != lanes.num_envs:
        raise InvalidLanes("Stable-Baselines3 wants all lanes in every step: make them without batch_size.")
    return LanesVecEnv(lanes)


class LanesVecEnv(VecEnv):  # type: ignore[misc]  # Stable-Baselines3 has no types for mypy
    """Steps ``self.lanes`` and counts returns and lengths as Monitor does. rewards: float32[n]; dones: bool[n].

    A lane that failed (``infos[i]["lane_error"]``) counts as truncated at its last good observation, and restarts.
    """

    def __init__(self, lanes: VectorEnv[Any, Any, Any]) -> None:
        self.lanes, self.spec = lanes, lanes.spec
        super().__init__(
            lanes.num_envs, to_theirs(lanes.single_observation_space), to_theirs(lanes.single_action_space)
        )
        self._every_lane = range(self.num_envs)
        self._restarts_lanes = lanes.metadata["autoreset_mode"] is AutoresetMode.DISABLED
        self._copies = reuses_buffers(lanes)
        self._recv = lanes.recv
        self._last_infos: tuple[Sequence[Info], list[int]] = (), []  # and the lanes whose episode ended then
        self._returns: Array = np.zeros(self.num_envs)
        self._steps = 0
        self._steps_before = [0] * self.num_envs  # when each lane's episode began
        self._began_at = time.time()

    def reset(self) -> Any:
        seeds = None if all(seed is None for seed in self._seeds) else list(self._seeds)
        options: Info = self._options[0]
        if any(other is not options and other != options for other in self._options):
            raise InvalidLanes("These lanes begin together: pass set_options() one dict for all of them, not a list.")
        observations, batch_infos = self.lanes.reset(seed=seeds, options=dict(options) or None)  # type: ignore[arg-type]
        self.reset_infos = info_list(batch_infos, self.num_envs)
        self._reset_seeds()
        self._reset_options()
        self._returns[:], self._steps_before = 0, [self._steps] * self.num_envs
        self._last_infos = self.reset_infos, list[int]()
        return _copy(observations) if self._copies else observations

    def step_async(self, actions: Array) -> None:
        self.lanes.send(actions)

    def step_wait(self) -> tuple[Any, Array, Array, list[Info]]:
        # Hot, measured by benchmarks/_adapters_sb3.py.
        observations, rewards, terminations, truncations, batch_infos = self._recv()
        dones = terminations | truncations
        over = dones.nonzero()[0].tolist()
        self._returns += rewards
        self._steps += 1
        infos = self._infos(batch_infos)
        if self._copies:
            # Before lanes restart: that writes to the same buffers.
            observations, terminations = _copy(observations), terminations.copy()
        rewards = rewards.astype(np.float32)
        if over:
            if self._restarts_lanes or "lane_error" in batch_infos:
                observations = self._restart(observations, dones, batch_infos, infos)
            else:
                self._add_final(over, batch_infos, infos)
            took = round(time.time() - self._began_at, 6)
            returns, before, steps = self._returns, self._steps_before, self._steps
            for lane in over:
                info = infos[lane]
                info["TimeLimit.truncated"] = not terminations.item(lane)
                info["episode"] = {"r": round(returns.item(lane), 6), "l": steps - before[lane], "t": took}
                returns[lane], before[lane] = 0, steps
        self._last_infos = infos, over
        return observations, rewards, dones, infos

    def _infos(self, batch_infos: Info) -> list[Info]:
        """Return a dict per lane: of its new episode, if one began."""
        if not batch_infos or batch_infos.keys() <= _FINAL_KEYS:
            return list(map(dict.copy, repeat(_EMPTY_INFO, self.num_envs)))
        infos = info_list({key: rows for key, rows in batch_infos.items() if key not in _FINAL_KEYS}, self.num_envs)
        for info in infos:
            info["TimeLimit.truncated"] = False
        return infos

    def _add_final(self, lanes: list[int], batch_infos: Info, infos: list[Info]) -> None:
        """Put the infos of ended episodes in place; those of the new ones go to reset_infos."""
        last, inner = (
            batch_infos["final_obs"],
            batch_infos.get("final_info"),
        )  # the ALE's own lanes have no info for the end
        inners = info_list(inner, self.num_envs) if inner else None
        for lane in lanes:
            began, infos[lane] = infos[lane], {} if inners is None else inners[lane]
            del began["TimeLimit.truncated"]
            self.reset_infos[lane] = began
            infos[lane]["terminal_observation"] = last[lane]

    def _restart(self, observations: Any, dones: Array, batch_infos: Info, infos: list[Info]) -> Any:
        """Restart the lanes that ended and did not restart by themselves: all, or those that failed."""
        over = dones
        if "_final_obs" in batch_infos:
            self._add_final(batch_infos["_final_obs"].nonzero()[0].tolist(), batch_infos, infos)
            over = dones & ~batch_infos["_final_obs"]
        for lane in over.nonzero()[0].tolist():
            infos[lane]["terminal_observation"] = _copy(observations, lane)
        observations, began = self.lanes.reset(options={"reset_mask": over})
        firsts = info_list(began, self.num_envs)
        for lane in over.nonzero()[0].tolist():
            self.reset_infos[lane] = firsts[lane]
        return _copy(observations) if self._copies else observations

    def close(self) -> None:
        self.lanes.close()

    def render(self, mode: str | None = None) -> Any:
        """Return one picture with the lanes side by side; in a window or as text the lanes show themselves."""
        if self.render_mode not in (None, "rgb_array") and mode in (None, self.render_mode):
            self.lanes.render()
            return None
        return super().render(mode=mode)

    def get_images(self) -> Sequence[Any]:
        if self.render_mode != "rgb_array":
            raise InvalidLanes(
                f"Lanes with render_mode={self.render_mode!r} have no pictures: make them with render_mode='rgb_array'."
            )
        return self.lanes.render() or ()

    @property
    def _envs(self) -> list[Any] | None:
        """The environment of each lane, where each has one in this process."""
        return getattr(self.lanes.unwrapped, "envs", None)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Let lanes that step environments together look again: some of them may change here, and others not."""
        try:
            yield
        finally:
            if isinstance(lanes := self.lanes.unwrapped, SyncVectorEnv):
                lanes.look_at_lanes()

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        chosen = list(self._get_indices(indices))
        if attr_name == "render_mode":
            return [self.lanes.render_mode] * len(chosen)
        envs = self._envs
        if envs is not None:
            return [envs[lane].get_wrapper_attr(attr_name) for lane in chosen]
        if callable(self._class_attribute(attr_name)):
            raise AttributeError(f"{attr_name} is a method, and these lanes have no objects to take it from: {_LOOP}")
        values = self.lanes.get_attr(attr_name)  # type: ignore[attr-defined]
        return [values[lane] for lane in chosen]

    def has_attr(self, attr_name: str) -> bool:
        if attr_name == "action_masks" and self._masks() is not None:
            return True
        return self._class_attribute(attr_name) is not None or bool(super().has_attr(attr_name))

    def _masks(self) -> list[Any] | None:
        """Which actions each lane may take now, where infos say so: bool[actions] of each, for MaskablePPO."""
        infos, over = self._last_infos
        now = [self.reset_infos[lane] if lane in over else infos[lane] for lane in range(len(infos))]
        if not now or not all("action_mask" in info for info in now):
            return None
        return [np.asarray(info["action_mask"], dtype=bool) for info in now]

    def _class_attribute(self, name: str) -> Any:
        """Return what the class of compiled lanes has under that name. Asking the lanes would call a method."""
        return getattr(getattr(self.lanes.unwrapped, "env_type", None), name, None)

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Set the attribute of each lane; compiled lanes share what is a parameter."""
        chosen, envs = set(self._get_indices(indices)), self._envs
        if envs is not None:
            with self._changing():
                for lane in chosen:
                    envs[lane].set_wrapper_attr(attr_name, value)
            return
        # Always a list with one per lane: a value that is itself a list or tuple would be dealt out.
        others: Sequence[Any] = () if len(chosen) == self.num_envs else self.lanes.get_attr(attr_name)  # type: ignore[attr-defined]
        values = [value if lane in chosen else others[lane] for lane in self._every_lane]
        self.lanes.set_attr(attr_name, values)  # type: ignore[attr-defined]

    def env_method(self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any) -> Any:
        chosen, envs = list(self._get_indices(indices)), self._envs
        if method_name == "action_masks" and (masks := self._masks()) is not None:
            return [masks[lane] for lane in chosen]
        if envs is not None:
            found = [envs[lane].get_wrapper_attr(method_name) for lane in chosen]
            with self._changing():
                return [method(*method_args, **method_kwargs) for method in found]
        if method_name in ("reset", "step", "close"):
            raise InvalidLanes(f"These lanes {method_name} together, not by env_method(): {_LOOP}")
        if chosen != list(self._every_lane):
            raise InvalidLanes(f"{method_name} can be called in all of these lanes, not in {chosen} alone: {_LOOP}")
        return list(self.lanes.call(method_name, *method_args, **method_kwargs))  # type: ignore[attr-defined]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Indices = None) -> list[bool]:
        """Whether each lane has a wrapper of that class, or all of them together; Monitor always counts."""
        chosen, envs = list(self._get_indices(indices)), self._envs
        if issubclass(wrapper_class, Monitor) or any(isinstance(layer, wrapper_class) for layer in _layers(self.lanes)):
            return [True] * len(chosen)
        if envs is None:
            return [False] * len(chosen)
        return [any(isinstance(layer, wrapper_class) for layer in _layers(envs[lane])) for lane in chosen]


def _layers(env: Any) -> Iterator[Any]:
    while env is not None:
        yield env
        env = getattr(env, "env", None)


def _copy(observations: Any, lane: int | None = None) -> Any:
    """Return a copy of all observations, or of one lane's."""
    if isinstance(observations, dict):
        return {key: _copy(part, lane) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(_copy(part, lane) for part in observations)
    return np.array(observations if lane is None else observations[lane])


class EvaluationCallback(BaseCallback):  # type: ignore[misc]  # Stable-Baselines3 has no types for mypy
    """Evaluates the model while it learns: at the start, and after every so many steps of training."""

    def __init__(self, evaluations: Evaluations, every: int) -> None:
        super().__init__()
        self._evaluations, self._every, self._due = evaluations, every, 0

    def _on_training_start(self) -> None:
        self._evaluate()

    def _on_step(self) -> bool:
        if self.num_timesteps >= self._due:
            self._evaluate()
        return True

    def _evaluate(self) -> None:
        self._due = self.num_timesteps + self._every
        returns = self._evaluations.evaluate(self._choose, self.num_timesteps)
        self.logger.record("eval/mean_reward", sum(returns) / len(returns))

    def _choose(self, observation: Any) -> Any:
        action, _ = self.model.predict(observation, deterministic=True)
        # An array without axes is a number: what a Discrete takes.
        return action.item() if isinstance(action, np.ndarray) and action.ndim == 0 else action
