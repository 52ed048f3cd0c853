"""The shells for logics without memory: to them it means nothing that lanes end, begin or are held. Hot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from paddock.core.vector_env import VectorEnv
from paddock.wrappers.logic import ALL, Logic, Step
from paddock.wrappers.many_lanes import ManyLanesAction, ManyLanesObservation


class StatelessObservation(ManyLanesObservation):
    """Observations of all lanes alike; under SAME_STEP the last ones in ``final_obs`` too."""

    def __init__(self, env: VectorEnv[Any, Any, Any], logic: Logic) -> None:
        super().__init__(env, logic)
        self._show: Callable[[Any], Any] = self.observations  # what a step calls: a subclass may know a shorter way

    def hold(self, lanes: np.ndarray[Any, Any]) -> None:
        self.env.hold(lanes)

    def step(self, actions: Any) -> Step:
        result = self.env.step(actions)
        observations, rewards, terminations, truncations, infos = result
        if "_final_obs" in infos:
            return self._look(result, None)
        return self._show(observations), rewards, terminations, truncations, infos

    def send(self, actions: Any) -> None:
        self.env.send(actions)

    def recv(self) -> Step:
        return self._look(self.env.recv(), None)


class StatelessAction(ManyLanesAction):
    """Actions of all lanes alike, be they used or not."""

    def hold(self, lanes: np.ndarray[Any, Any]) -> None:
        self.env.hold(lanes)

    def actions(self, actions: Any) -> Any:
        return self._logic.act(None, ALL, actions)

    def step(self, actions: Any) -> Step:
        return self.env.step(self.actions(actions))

    def send(self, actions: Any) -> None:
        self.env.send(self.actions(actions))

    def recv(self) -> Step:
        return self.env.recv()
