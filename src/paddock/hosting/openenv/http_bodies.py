"""Bodies of OpenEnv's HTTP routes, in and out. Mistakes in a body are reported in FastAPI's form, with status 422."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from paddock.hosting.messages import read_schema
from paddock.hosting.openenv import tool_form
from paddock.hosting.openenv.space_form import STATE_SCHEMA, action_schema, observation_schema
from paddock.hosting.openenv.wire import Entry, Form, dump, entry, extras, parse_bounded
from paddock.spaces import Space
from paddock.spaces.json_data import NotJson

NO_WEB = (
    "paddock has no web interface. Step the environment from Python instead: paddock.make(url), or OpenEnv's client. "
    "GET /openapi.json describes the HTTP API."
)
_NAME_LIMIT = 255
_POSITION = re.compile(r"(.*): line \d+ column \d+ \(char (\d+)\)", re.DOTALL)
_INTEGER = re.compile(r"\s*[+-]?\d{1,300}\s*", re.ASCII)


class HttpError(Exception):
    """Raised for a response that is not 200; ``detail`` is a text or a list of entries."""

    def __init__(self, status: int, detail: Any) -> None:
        self.status, self.detail = status, detail

    @property
    def body(self) -> bytes:
        return dump({"detail": self.detail})


class _Wrong(Exception):
    """What is wrong with one field."""

    def __init__(self, kind: str, message: str = "", ctx: dict[str, Any] | None = None) -> None:
        self.kind, self.message, self.ctx = kind, message, ctx


Check = Callable[[Any], Any]


def reset_body(body: bytes) -> dict[str, Any]:
    """The arguments of ``POST /reset`` that were sent; an empty body has none. HttpError here and below: refused."""
    return {} if not body.strip() else _fields(body, {"seed": _optional(_seed), "episode_id": _optional(_name)})


def step_body(body: bytes) -> dict[str, Any]:
    """What was sent to ``POST /step``: the action's data, and further arguments of the environment's step."""
    checks = {"action": _dictionary, "timeout_s": _optional(_positive), "request_id": _optional(_name)}
    return _fields(body, checks, required=("action",))


def outcome_body(data: dict[str, Any], form: Form = "0.10") -> bytes:
    """The answer to reset and step, from the data of a frame. Here a reward is a float, and metadata always there."""
    reward = data["reward"]
    body = {"observation": data["observation"], "reward": None if reward is None else float(reward)}
    body["done"] = data["done"]
    if form == "0.10":
        body["metadata"] = data.get("metadata")
    return dump(body)


def split_body(body: bytes, *names: str) -> dict[str, Any]:
    """A request of the Task API: ``split``, and ``index``, ``start`` or ``stop`` as named."""
    optional = {"start": _optional(_integer), "stop": _optional(_integer)}
    checks: dict[str, Check] = {"split": _text, **{name: optional.get(name, _integer) for name in names}}
    required = tuple(name for name in checks if name not in optional)
    return _fields(body, checks, required=required, closed=True)


TASK_METHODS = {
    "splits": ("list_splits", ()),
    "tasks": ("list_tasks", ("split",)),
    "num_tasks": ("num_tasks", ("split",)),
    "task": ("get_task", ("split", "index")),
    "task_range": ("get_task_range", ("split", "start", "stop")),
}


def task_answer(route: str, value: Any, env_name: str) -> bytes:
    """What a method of the Task API returned, as the body of its route."""
    if route == "splits":
        return dump([_split(one) for one in value])
    if route == "tasks":
        return dump({"tasks": value, "env_name": env_name})
    return dump({{"num_tasks": "num_tasks", "task": "task", "task_range": "tasks"}[route]: value})


def task_failure(route: str, error_type: str) -> HttpError | None:
    """Why an answer is missing, from the error's name ("NotImplementedError": no tasks); None for any other error."""
    if error_type == "NotImplementedError":
        return HttpError(501, f"{TASK_METHODS[route][0]} is not supported for this environment")
    return HttpError(400, "Invalid task index") if error_type == "IndexError" else None


def _split(one: Any) -> Any:
    if isinstance(one, str):
        return {"name": one, "type": one if one in ("train", "validation", "test") else "validation"}
    return one if isinstance(one, dict) else {"name": str(one), "type": "validation"}


def _fields(
    body: bytes, checks: dict[str, Check], *, required: tuple[str, ...] = (), closed: bool = False
) -> dict[str, Any]:
    if not body.strip():
        raise _unprocessable([entry("missing", ("body",), None)])
    try:
        data = parse_bounded(body)
    except NotJson as problem:
        match = _POSITION.fullmatch(str(problem))
        reason, place = (match[1], int(match[2])) if match else (str(problem), 0)
        wrong = entry("json_invalid", ("body", place), {}, "JSON decode error", {"error": reason})
        raise _unprocessable([wrong]) from None
    if not isinstance(data, dict):
        message = "Input should be a valid dictionary or object to extract fields from"
        raise _unprocessable([entry("model_attributes_type", ("body",), data, message)])
    found, problems = dict(data), []
    for name, check in checks.items():
        if name not in data:
            if name in required:
                problems.append(entry("missing", ("body", name), data))
            continue
        try:
            found[name] = check(data[name])
        except _Wrong as wrong:
            problems.append(entry(wrong.kind, ("body", name), data[name], wrong.message, wrong.ctx))
    if closed:
        problems += extras(data, checks, ("body",))
    if problems:
        raise _unprocessable(problems)
    return found


def _unprocessable(entries: list[Entry]) -> HttpError:
    """As FastAPI shows what is wrong with a body."""
    return HttpError(422, [{key: value for key, value in one.items() if key != "url"} for one in entries])


def _optional(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _integer(value: Any) -> int:
    """As lenient as pydantic: digits in a text and floats without a fraction are integers."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        if _INTEGER.fullmatch(value):
            return int(value)
        raise _Wrong("int_parsing", "Input should be a valid integer, unable to parse string as an integer")
    if isinstance(value, float):
        if value.is_integer():
            return int(value)
        raise _Wrong("int_from_float", "Input should be a valid integer, got a number with a fractional part")
    raise _Wrong("int_type")


def _seed(value: Any) -> int:
    seed = _integer(value)
    if seed < 0:
        raise _Wrong("greater_than_equal", "Input should be greater than or equal to 0", {"ge": 0})
    return seed


def _positive(value: Any) -> float:
    try:
        number = float(value) if isinstance(value, (int, float, str)) else None
    except (ValueError, OverflowError):
        message = "Input should be a valid number, unable to parse string as a number"
        raise _Wrong("float_parsing", message) from None
    if number is None:
        raise _Wrong("float_type", "Input should be a valid number")
    if not number > 0:
        raise _Wrong("greater_than", "Input should be greater than 0", {"gt": 0.0})
    return number


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Wrong("string_type")
    return value


def _name(value: Any) -> str:
    if len(_text(value)) > _NAME_LIMIT:
        message = f"String should have at most {_NAME_LIMIT} characters"
        raise _Wrong("string_too_long", message, {"max_length": _NAME_LIMIT})
    return str(value)


def _dictionary(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Wrong("dict_type")
    return value


# What ``/metadata`` and ``/schema`` show. An environment written for OpenEnv sends it in its ``metadata`` under
# "openenv", schemas as JSON text; for all others it is made from the spaces.


OPENENV_KEY = "openenv"  # in ``env.metadata``
SCHEMAS = ("action", "observation", "state", "reset_observation")
_FIELDS = ("name", "description", "readme_content", "version", "author", "documentation_url")


def openenv_metadata(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """What an environment written for OpenEnv says about itself; None for any other."""
    found = metadata.get(OPENENV_KEY)
    return found if isinstance(found, dict) else None


def metadata_body(name: str, metadata: Mapping[str, Any]) -> bytes:
    """``GET /metadata``. ``name``: for an environment that does not give one."""
    own = openenv_metadata(metadata) or metadata
    fields: dict[str, Any] = {"name": name, "description": f"{name} environment", "version": "1.0.0"}
    for field in _FIELDS if own is not metadata else ("description",):
        if isinstance(own.get(field), str):
            fields[field] = own[field]
    return dump({field: fields.get(field) for field in _FIELDS})


def schema_body(
    action_space: Space[Any] | None,
    observation_space: Space[Any] | None,
    metadata: Mapping[str, Any],
    form: Form = "0.10",
    tools: tool_form.Tools | None = None,
) -> bytes:
    """``GET /schema``. ``tools``: of an environment that has some."""
    schemas = {
        "action": action_schema(action_space),
        "observation": observation_schema(observation_space) if tools is None else tool_form.OBSERVATION_SCHEMA,
        "state": STATE_SCHEMA,
    }
    sent = (openenv_metadata(metadata) or {}).get("schemas")
    if isinstance(sent, dict):
        names = SCHEMAS if form == "0.10" else SCHEMAS[:3]
        schemas.update({name: schema for name in names if (schema := read_schema(sent.get(name))) is not None})
    return dump(schemas)
