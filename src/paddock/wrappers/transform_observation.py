"""TransformObservation: any function of an observation. The space is the caller's promise; nothing checks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass
from typing import Any, SupportsFloat

from paddock.core.env import Env, Info
from paddock.spaces import Space
from paddock.wrappers.fitted import FittedObservation
from paddock.wrappers.one_lane import OneLaneObservation
from paddock.wrappers.straight import func_of


@dataclass(frozen=True)
class Transform(FittedObservation):
    """``func`` of one lane's observation, a member of ``seen``; None: the space stays as it is."""

    func: Callable[[Any], Any]
    seen: Space[Any] | None
    around: InitVar[Space[Any]]

    def __post_init__(self, around: Space[Any]) -> None:
        self._fit(around, around if self.seen is None else self.seen)

    def one(self, value: Any) -> Any:
        return self.func(value)


class TransformObservation(OneLaneObservation):
    """The agent sees ``func(observation)``, a member of ``observation_space`` (None: the environment's).

    ``VectorizeTransformObservation`` makes a subclass of this work on lanes.
    """

    func: Callable[[Any], Any] = func_of("observation")
    _straight: Callable[[Any], Any]

    def __init__(self, env: Env[Any, Any], func: Callable[[Any], Any], observation_space: Space[Any] | None) -> None:
        self._record_arguments(func=func, observation_space=observation_space)
        self._look_through(env, Transform(func, observation_space, env.observation_space))
        self.func = func

    def _look_through(self, env: Env[Any, Any], logic: FittedObservation) -> None:
        OneLaneObservation.__init__(self, env, logic)
        self.func = logic.one

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._straight(observation), reward, terminated, truncated, info

    def observation(self, observation: Any) -> Any:
        return self.func(observation)
