"""What an environment says of itself beyond its spaces: what ``/metadata`` and ``/schema`` show.

An environment written for OpenEnv sends them in its ``metadata`` under "openenv", schemas as JSON text; for all others
they are made of the spaces here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.hosting.openenv import tool_form
from paddock.hosting.openenv.frames import Form
from paddock.hosting.openenv.gym_form import action_schema, observation_schema, state_schema
from paddock.hosting.openenv.strict_json import dump
from paddock.spaces import Space

KEY = "openenv"  # in ``env.metadata``
SCHEMAS = ("action", "observation", "state", "reset_observation")
_FIELDS = ("name", "description", "readme_content", "version", "author", "documentation_url")


def told(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """What an environment that was written for OpenEnv says of itself; None for any other."""
    found = metadata.get(KEY)
    return found if isinstance(found, dict) else None


def metadata_body(name: str, metadata: Mapping[str, Any]) -> bytes:
    """``GET /metadata``. ``name``: what to call an environment that does not say."""
    said = told(metadata) or metadata
    given: dict[str, Any] = {"name": name, "description": f"{name} environment", "version": "1.0.0"}
    for field in _FIELDS if said is not metadata else ("description",):
        if isinstance(said.get(field), str):
            given[field] = said[field]
    return dump({field: given.get(field) for field in _FIELDS})


def schema_body(
    action_space: Space[Any] | None,
    observation_space: Space[Any] | None,
    metadata: Mapping[str, Any],
    form: Form = "0.10",
    tools: tool_form.Tools | None = None,
) -> bytes:
    """``GET /schema``. ``tools``: those of an environment that has some."""
    made = {
        "action": action_schema(action_space),
        "observation": observation_schema(observation_space) if tools is None else tool_form.observation_schema(),
        "state": state_schema(),
    }
    said = told(metadata) or {}
    sent = said.get("schemas")
    schemas = sent if isinstance(sent, dict) else {}
    names = SCHEMAS if form == "0.10" else SCHEMAS[:3]
    made.update({name: schema for name in names if (schema := _schema(schemas.get(name))) is not None})
    return dump(made)


def _schema(text: Any) -> dict[str, Any] | None:
    """A schema that a worker sent, if it is one: whoever asks should get an object."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any]) if isinstance(text, str) else None
    except (msgspec.DecodeError, RecursionError):
        return None
