"""TransformObservation and TransformAction of n lanes: a function of all lanes at once, rows in and rows out.

For a function of one lane there are VectorizeTransformObservation and VectorizeTransformAction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddock.core.vector_env import VectorEnv
from paddock.core.warning import warn_user
from paddock.spaces import Space
from paddock.spaces.batch import batch_space
from paddock.wrappers.logic import Lanes, Logic, Wrapped
from paddock.wrappers.rows import take
from paddock.wrappers.straight import func_of
from paddock.wrappers.vector.stateless import StatelessAction, StatelessObservation


@dataclass(frozen=True)
class Seen(Logic):
    """``func`` of all lanes' observations; ``space`` is one lane's, ``given`` what it is before."""

    func: Callable[[Any], Any]
    space: Space[Any]
    given: Space[Any]
    lanes: int

    def observation_space(self, wrapped: Wrapped) -> Space[Any]:
        return self.space

    def observe(self, memory: Any, lanes: Lanes, observation: Any) -> Any:
        if not isinstance(lanes, np.ndarray):
            return self.func(observation)
        # What `func` does may depend on the lane, so it gets a row for each; those of other lanes are repetitions.
        places = np.zeros(self.lanes, np.intp)
        places[lanes] = np.arange(len(lanes))
        return take(self.space, self.func(take(self.given, observation, places)), lanes)


@dataclass(frozen=True)
class Taken(Logic):
    """``func`` of all lanes' actions; ``space`` is what one lane's agent may do."""

    func: Callable[[Any], Any]
    space: Space[Any]

    def action_space(self, wrapped: Wrapped) -> Space[Any]:
        return self.space

    def act(self, memory: Any, lanes: Lanes, action: Any) -> Any:
        return self.func(action)


class TransformObservation(StatelessObservation):
    """The agent sees ``func(observations)``. Of the two spaces the batched one follows from the single one."""

    func: Callable[[Any], Any] = func_of("observations")

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        func: Callable[[Any], Any],
        observation_space: Space[Any] | None = None,
        single_observation_space: Space[Any] | None = None,
    ) -> None:
        given = env.single_observation_space
        seen = given if single_observation_space is None else single_observation_space
        # The hook and not the function: an episode's last observations go the way of all others.
        super().__init__(env, Seen(self.observations, seen, given, env.num_envs))
        self.func = func
        if observation_space is not None:
            self.observation_space = observation_space
            _check_match(env, "observation", observation_space, self.single_observation_space)

    def observations(self, observations: Any) -> Any:
        return self.func(observations)


class TransformAction(StatelessAction):
    """The lanes get ``func(actions)``. Of the two spaces the batched one follows from the single one."""

    func: Callable[[Any], Any] = func_of("actions")

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        func: Callable[[Any], Any],
        action_space: Space[Any] | None = None,
        single_action_space: Space[Any] | None = None,
    ) -> None:
        offered = env.single_action_space if single_action_space is None else single_action_space
        super().__init__(env, Taken(func, offered))
        self.func = func
        if action_space is not None:
            self.action_space = action_space
            _check_match(env, "action", action_space, self.single_action_space)

    def actions(self, actions: Any) -> Any:
        return self.func(actions)


def _check_match(env: Any, what: str, batched: Space[Any], single: Space[Any]) -> None:
    expected = batch_space(single, env.num_envs)
    if batched != expected:
        warn_user(
            f"For {env}, the {what} space and the batched single {what} space don't match as expected, "
            f"{what}_space={batched}, batched single_{what}_space={expected}. Pass both, or only the single one."
        )
