"""Actions from data and observations as data, for code that did this itself with OpenEnv's functions."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from paddock.hosting.openenv.frames import observation_data
from paddock.openenv.mcp_types import CallToolAction, ListToolsAction
from paddock.openenv.types import Action, Observation

ActT = TypeVar("ActT", bound=Action)


def deserialize_action(action_data: dict[str, Any], action_cls: type[ActT]) -> ActT:
    """An instance of the class; pydantic's ValidationError if the data is none.

    What asks for tools is an action of its own, unless the environment has a class of its own.
    """
    kinds = {"list_tools": ListToolsAction, "call_tool": CallToolAction}
    found = kinds.get(action_data["type"]) if isinstance(action_data.get("type"), str) else None
    if found is not None and action_cls in (Action, *kinds.values()):
        return cast(ActT, found.model_validate(action_data))
    return cast(ActT, action_cls.model_validate(action_data))


def serialize_observation(observation: Observation) -> dict[str, Any]:
    """``observation``, ``reward``, ``done``, and ``metadata`` if there is any."""
    return observation_data(observation.model_dump())
