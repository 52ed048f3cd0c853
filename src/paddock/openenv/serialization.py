"""Actions from data and observations as data, for code that did this itself with OpenEnv's functions."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from paddock.hosting.openenv.frames import observation_data
from paddock.openenv.types import Action, Observation

ActT = TypeVar("ActT", bound=Action)


def deserialize_action(action_data: dict[str, Any], action_cls: type[ActT]) -> ActT:
    """An instance of the class; pydantic's ValidationError if the data is none."""
    return cast(ActT, action_cls.model_validate(action_data))


def serialize_observation(observation: Observation) -> dict[str, Any]:
    """``observation``, ``reward``, ``done``, and ``metadata`` if there is any."""
    return observation_data(observation.model_dump())
