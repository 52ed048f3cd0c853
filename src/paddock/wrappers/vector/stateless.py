"""The shells for logics without memory: what happened before in a lane means nothing to them. Hot.

Only rewards ask where episodes begin: no step was taken there, so there is no reward to change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from paddock.core.vector_env import VectorEnv
from paddock.wrappers.logic import ALL, Logic, Step
from paddock.wrappers.many_lanes import ManyLanesAction, ManyLanesObservation, ManyLanesReward
from paddock.wrappers.rows import numbers, some


class StatelessObservation(ManyLanesObservation):
    """Observations of all lanes alike; under SAME_STEP the last ones in ``final_obs`` too."""

    def __init__(self, env: VectorEnv[Any, Any, Any], logic: Logic) -> None:
        super().__init__(env, logic)
        self._straight: Callable[[Any], Any] = self.observations  # what a step calls: a subclass may know a shorter way

    def hold(self, lanes: np.ndarray[Any, Any]) -> None:
        self.env.hold(lanes)

    def step(self, actions: Any) -> Step:
        result = self.env.step(actions)
        observations, rewards, terminations, truncations, infos = result
        if "_final_obs" in infos:
            return self._look(result, None)
        return self._straight(observations), rewards, terminations, truncations, infos

    def send(self, actions: Any) -> None:
        self.env.send(actions)

    def recv(self) -> Step:
        return self._look(self.env.recv(), None)


class StatelessAction(ManyLanesAction):
    """Actions of all lanes alike, be they used or not."""

    def __init__(self, env: VectorEnv[Any, Any, Any], logic: Logic) -> None:
        super().__init__(env, logic)
        self._straight: Callable[[Any], Any] = self.actions

    def hold(self, lanes: np.ndarray[Any, Any]) -> None:
        self.env.hold(lanes)

    def actions(self, actions: Any) -> Any:
        return self._logic.act(None, ALL, actions)

    def step(self, actions: Any) -> Step:
        return self.env.step(self._straight(actions))

    def send(self, actions: Any) -> None:
        self.env.send(self._straight(actions))

    def recv(self) -> Step:
        return self.env.recv()


class StatelessReward(ManyLanesReward):
    """Rewards of all lanes alike, but for those that begin or are held: their 0 stays."""

    def __init__(self, env: VectorEnv[Any, Any, Any], logic: Logic) -> None:
        super().__init__(env, logic)
        self._straight: Callable[[Any], Any] = self.rewards

    def step(self, actions: Any) -> Step:
        result = self.env.step(actions)
        if self._held is not None:
            return self._on_the_way_out(result)
        observations, rewards, terminations, truncations, infos = result
        begun, self._ended = self._ended, None
        if self._tracks and (some(terminations) or some(truncations)):
            self._ended = terminations | truncations
        changed = self._straight(rewards) if begun is None else self._rewarded_but(rewards, numbers(begun))
        return observations, changed, terminations, truncations, infos

    def send(self, actions: Any) -> None:
        self.env.send(actions)

    def recv(self) -> Step:
        return self._on_the_way_out(self.env.recv())
