"""An environment with spaces on OpenEnv's wire: an action in ``action``, an observation in ``value``.

Values have the JSON form of their space: infinity is the text "inf" and NaN is "nan". JSON has no other form for them,
and OpenEnv's null would lose them. A reward must be a number there, so one that is not finite is null, and its value is
in ``metadata``.
"""

from __future__ import annotations

import base64
import math
import re
from contextlib import suppress
from typing import Any

import numpy as np

from paddock.errors import CustomSpaceError, InvalidSpace, InvalidValue
from paddock.hosting.openenv.wire import EXECUTION_ERROR, Form, Place, WireError, entry, extras, invalid
from paddock.spaces import Dict, Space, Struct
from paddock.spaces.json_schema import json_schema
from paddock.spaces.json_value import decode, encode

_PATH = re.compile(r"\[(\d+)\]|\.?([^.\[\]]+)")
Schema = dict[str, Any]


def action_of(space: Space[Any] | None, data: dict[str, Any]) -> Any:
    """The action in a step's data, or a WireError. For a Struct the data itself is the action."""
    if space is None:
        return WireError(EXECUTION_ERROR, "This environment's actions have no JSON form.")
    if isinstance(space, Struct):
        try:
            return space.validate(data)
        except InvalidValue as error:
            reason = str(error).removeprefix(f"{error.path}: ")
            return invalid([entry("value_error", place_of(error.path), data, reason)])
    unknown = extras(data, ("action",))
    if "action" not in data:
        unknown.insert(0, entry("missing", ("action",), data))
    if unknown:
        return invalid(unknown)
    try:
        return decode(space, data["action"], "$")
    except CustomSpaceError:
        return WireError(EXECUTION_ERROR, "This environment's actions have no JSON form.")
    except InvalidSpace as error:
        problem = error
    try:
        return decode(space, _whole(data["action"]), "$")
    except InvalidSpace:
        return invalid([entry("value_error", ("action",), data["action"], str(problem).removeprefix("$: "))])


def _whole(data: Any) -> Any:
    """The same data with 6.0 as 6: to JSON, and so to the published schema, that is the same integer."""
    if type(data) is float:
        return int(data) if data.is_integer() and (data or math.copysign(1.0, data) > 0) else data
    if type(data) is list:
        return [_whole(item) for item in data]
    return {key: _whole(value) for key, value in data.items()} if type(data) is dict else data


def place_of(path: str) -> Place:
    """``moves[2].to`` as pydantic has it: ("moves", 2, "to")."""
    return tuple(int(number) if number else name for number, name in _PATH.findall(path))


def reset_arguments(data: dict[str, Any]) -> tuple[int | None, dict[str, Any] | None] | WireError:
    """Seed and options of a reset. Further arguments, as OpenEnv's environments take them, become options."""
    seed = data.get("seed")
    if seed is not None and (type(seed) is not int or seed < 0):
        return invalid([entry("int_type", ("data", "seed"), seed, "Input should be a non-negative integer or null")])
    sent = data.get("options")
    options = dict(sent) if isinstance(sent, dict) else {} if sent is None else {"options": sent}
    options.update({key: value for key, value in data.items() if key not in ("seed", "episode_id", "options")})
    return seed, options or None


def outcome_data(
    space: Space[Any] | None,
    observation: Any,
    info: dict[str, Any],
    *,
    reward: Any = None,
    terminated: bool = False,
    truncated: bool = False,
    form: Form = "0.10",
) -> dict[str, Any]:
    """The result of a reset (no reward) or a step, as the ``data`` of a frame."""
    number = None if reward is None else float(reward)
    finite = number is None or math.isfinite(number)
    data: dict[str, Any] = {
        "observation": {
            "value": value_of(space, observation),
            "terminated": bool(terminated),
            "truncated": bool(truncated),
            "info": plain(info),
        },
        "reward": number if finite else None,
        "done": bool(terminated or truncated),
    }
    if not finite and form == "0.10":
        data["metadata"] = {"reward": str(number)}
    return data


def value_of(space: Space[Any] | None, value: Any) -> Any:
    """An observation in the JSON form of its space; plain if it has none, so that no outcome is lost."""
    if space is not None:
        try:
            return encode(space, value)
        except Exception:  # outside its space, or of a class without a JSON form
            return plain(value)
    return plain(value)


def state_data(episode_id: str | None, step_count: int | None, public: Any) -> dict[str, Any]:
    """OpenEnv's two fields, and what the environment publishes."""
    state = {"episode_id": episode_id, "step_count": step_count or 0}
    if isinstance(public, dict):
        return {**state, **{key: item for key, item in plain(public).items() if key not in state}}
    return {**state, "public": plain(public)}


def plain(value: Any) -> Any:
    """Any value that crosses between processes as JSON data, even if that loses its type."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        whole = value.dtype.kind in "biu" or (value.dtype.kind == "f" and bool(np.isfinite(value).all()))
        return value.tolist() if whole else plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if isinstance(value, (bytes, bytearray)):
        return {"base64": base64.b64encode(value).decode()}
    return f"<{type(value).__name__}>"


def action_schema(space: Space[Any] | None) -> Schema:
    """The JSON Schema of a step's data."""
    if isinstance(space, Struct):
        return space.described
    # Not "Action": verifiers takes that for an environment with tools, and asks for them.
    return {"title": "SpaceAction", **_schema_of("action", space)}


def observation_schema(space: Space[Any] | None) -> Schema:
    """The JSON Schema of an observation, with the two fields that OpenEnv puts beside it."""
    schema = _schema_of("value", space)
    fields = {
        "done": {"type": "boolean", "default": False},
        "reward": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
        **schema["properties"],
        "terminated": {"type": "boolean"},
        "truncated": {"type": "boolean"},
        "info": {"type": "object", "additionalProperties": True},
    }
    required = ["value", "terminated", "truncated", "info"]
    return {"title": "Observation", **schema, "properties": fields, "required": required}


# Of a state whose further fields are not declared.
STATE_SCHEMA: Schema = {
    "title": "State",
    "type": "object",
    "properties": {
        "episode_id": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "step_count": {"type": "integer", "minimum": 0, "default": 0},
    },
    "additionalProperties": True,
}


def _schema_of(name: str, space: Space[Any] | None) -> Schema:
    """The JSON Schema of an object with this one field, which may be anything if its space is not known."""
    if space is not None:
        with suppress(CustomSpaceError):
            schema = json_schema(Dict({name: space}))
            schema.pop("$schema", None)
            return schema
    return {"type": "object", "properties": {name: True}, "required": [name], "additionalProperties": False}
