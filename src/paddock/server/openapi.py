"""The server's OpenAPI document. Its version says to OpenEnv's tools which protocol this is.

What a reader would get wrong: it is tested against. A generator makes requests from it, and each answer must be one
that stands here, so what OpenEnv's servers are lenient about (a seed as a text of digits) stands here too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from paddock.hosting.openenv.about import schema_body
from paddock.server.routes import ROUTES, Route
from paddock.server.served import Served

Schema = dict[str, Any]

_NULL: Schema = {"type": "null"}
_DIGITS: Schema = {"type": "string", "pattern": r"^[ \t]*(\+?[0-9]{1,300}|-0{1,300})[ \t]*$"}
_SECONDS: Schema = {
    "type": "string",
    "pattern": r"^[ ]*\+?([0-9]*[1-9][0-9]{0,8}(\.[0-9]{0,9})?|[0-9]*\.[0-9]{0,9}[1-9])[ ]*$",
}
_SEED: Schema = {"anyOf": [{"type": "integer", "minimum": 0}, _DIGITS, {"type": "boolean"}, _NULL]}
_TIMEOUT: Schema = {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, _SECONDS, {"const": True}, _NULL]}
_NAME: Schema = {"anyOf": [{"type": "string", "maxLength": 255}, _NULL]}
_ERROR: Schema = {
    "type": "object",
    "required": ["detail"],
    "properties": {
        "detail": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]},
        "code": {"type": "string"},
    },
}
_RESULT: Schema = {
    "type": "object",
    "required": ["observation", "reward", "done"],
    "properties": {
        "observation": {"type": "object"},
        "reward": {"anyOf": [{"type": "number"}, _NULL]},
        "done": {"type": "boolean"},
        "metadata": {"anyOf": [{"type": "object"}, _NULL]},
    },
}
_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
_ANSWERS: dict[str, Schema] = {
    "health": {"type": "object", "required": ["status"], "properties": {"status": {"enum": ["healthy", "degraded"]}}},
    "health/live": {"type": "object", "required": ["live"], "properties": {"live": {"const": True}}},
    "health/ready": {"type": "object", "required": ["ready"], "properties": {"ready": {"const": True}}},
    "": {"type": "object", "required": ["environments"], "properties": {"environments": _TEXTS}},
    "list_environments": _TEXTS,
    "metrics": {"type": "string"},
    "sessions": {"type": "object", "required": ["sessions"], "properties": {"sessions": {"type": "array"}}},
    "sessions/{session}": {"type": "object", "required": ["session", "environment", "principal"]},
    "openapi.json": {"type": "object", "required": ["openapi", "info", "paths"]},
    "reset": _RESULT,
    "step": _RESULT,
    "state": {"type": "object", "required": ["episode_id", "step_count"]},
    "metadata": {"type": "object", "required": ["name", "description"]},
    "schema": {"type": "object", "required": ["action", "observation", "state"]},
    "mcp": {"type": "object", "required": ["jsonrpc", "id"], "properties": {"jsonrpc": {"const": "2.0"}}},
    "DELETE mcp": {"type": "object"},
    "POST handover": {"type": "object", "required": ["token", "mcp"], "properties": {"token": {"type": "string"}}},
    "GET handover": {"type": "object", "required": ["session", "begun", "steps", "return"]},
}
_REFUSALS = {
    "400": "The request is malformed.",
    "401": "A token is needed.",
    "403": "It may not be done from there, or by this role.",
    "404": "There is no such thing.",
    "405": "The method is not one of this path.",
    "413": "The body is too large.",
    "414": "The URL is too long.",
    "429": "Too many requests; Retry-After says when to come again.",
    "431": "The headers are too large.",
}
_OF_EPISODES = {
    "409": "The environment can't do this now.",
    "410": "The session has ended.",
    "422": "The body is not what was expected.",
    "503": "Not now; Retry-After says when to come again.",
}
# MCP's own refusals are JSON-RPC, with these and some of the others.
_OF_MCP = {
    "400": "The message is malformed, or of a protocol that is not spoken here.",
    "404": "There is no such session.",
    "406": "The answer would be JSON.",
    "415": "The message is no JSON.",
}
# Further ones are the environment's own.
_TOOL_ACTION: Schema = {"type": "object", "properties": {"type": {"type": "string"}}}
_EPISODES = ("reset", "step", "state")
# Of the Task API's routes nothing stands here: few environments have tasks, and the others answer 501.
_TASKS = ("splits", "tasks", "num_tasks", "task", "task_range")
_SESSION, _MCP_SESSION = "X-Paddock-Session", "Mcp-Session-Id"


def openapi(served: Mapping[str, Served], *, production: bool) -> dict[str, Any]:
    """The document for these environments: their routes are at the root if there is one, else below their names."""
    paths: dict[str, Any] = {}
    for route in ROUTES:
        if route.method == "WS" or route.name in _TASKS or (production and not route.in_production):
            continue
        owners = list(served.values()) if route.scope == "env" else [None]
        for one in owners:
            below = f"/{quote(one.name, safe='')}" if one is not None and len(owners) > 1 else ""
            operation = _operation(route, one, below.strip("/"))
            paths.setdefault(f"{below}/{route.name}", {})[route.method.lower()] = operation
    schemes = {"bearer": {"type": "http", "scheme": "bearer"}, "basic": {"type": "http", "scheme": "basic"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "OpenEnv Environment HTTP API", "version": "1.0.0"},
        "paths": paths,
        "components": {"securitySchemes": schemes, "schemas": {"Error": _ERROR}},
    }


def _operation(route: Route, served: Served | None, owner: str) -> dict[str, Any]:
    kind = "text/plain" if route.name == "metrics" else "application/json"
    answer = _ANSWERS.get(f"{route.method} {route.name}") or _ANSWERS[route.name]
    done: dict[str, Any] = {"description": "Done.", "content": {kind: {"schema": answer}}}
    operation: dict[str, Any] = {"operationId": _id(route, owner), "responses": {"200": done}}
    refusals = {**_REFUSALS, **_OF_EPISODES} if route.name in _EPISODES else _REFUSALS
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    operation["responses"].update(
        {status: {"description": words, "content": content} for status, words in refusals.items()}
    )
    if route.name == "health/ready":
        operation["responses"]["503"] = {"description": "Not ready.", "content": {kind: {"schema": {"type": "object"}}}}
    if route.name == "sessions/{session}":
        words = "The beginning of a session's id, as /sessions has it."
        operation["parameters"] = [_parameter("session", words, required=True) | {"in": "path"}]
    operation["security"] = [] if route.roles is None else [{"bearer": []}, {"basic": []}]
    if route.name in _EPISODES:
        done["headers"] = {_SESSION: {"schema": {"type": "string"}, "description": "The session, if it stays."}}
        if route.name == "reset":  # without a session, the others leave none behind
            done["links"] = {name: _link(name, owner) for name in _EPISODES}
        operation["parameters"] = [_session_parameter()]
    if route.name == "handover":
        operation["parameters"] = [_parameter(_SESSION, "The session to hand over.", required=True)]
    if route.name == "mcp":
        _speak_mcp(route, operation)
    body = None if served is None or route.method != "POST" else _body(route.name, served)
    if body is not None:
        operation["requestBody"] = {
            "content": {"application/json": {"schema": body}},
            "required": route.name in ("step", "mcp"),
        }
    return operation


def _id(route: Route, owner: str) -> str:
    return "_".join(filter(None, (route.method.lower(), owner, re.sub(r"\W+", "_", route.name).strip("_") or "root")))


def _link(name: str, owner: str) -> dict[str, Any]:
    """An episode goes on with the session that the answer names."""
    (route,) = [one for one in ROUTES if one.name == name]
    parameters = {f"header.{_SESSION}": f"$response.header.{_SESSION}"}
    return {"operationId": _id(route, owner), "parameters": parameters}


def _speak_mcp(route: Route, operation: dict[str, Any]) -> None:
    """What the route has beside OpenEnv's JSON-RPC, which is always answered with 200."""
    ends = route.method == "DELETE"
    operation["parameters"] = [_parameter(_MCP_SESSION, "A session that an initialize began.", required=ends)]
    if ends:
        return
    either = {"anyOf": [_ANSWERS["mcp"], {"$ref": "#/components/schemas/Error"}]}
    refused = {"application/json": {"schema": either}}
    operation["responses"].update(
        {status: {"description": words, "content": refused} for status, words in _OF_MCP.items()}
    )
    operation["responses"]["202"] = {"description": "A notification was taken note of."}


def _session_parameter() -> dict[str, Any]:
    words = "A session that a reset began; without it, the request has an environment of its own."
    return _parameter(_SESSION, words)


def _parameter(name: str, words: str, *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": required, "description": words, "schema": {"type": "string"}}


def _body(route: str, served: Served) -> Schema:
    if route == "reset":
        return {"type": "object", "properties": {"seed": _SEED, "episode_id": _NAME}}
    if route == "step":
        properties = {"action": _action(served), "timeout_s": _TIMEOUT, "request_id": _NAME}
        return {"type": "object", "required": ["action"], "properties": properties}
    return {}  # JSON-RPC answers to anything, also to what is no request


def _action(served: Served) -> Schema:
    about = served.described
    if about.tools is not None:
        return _TOOL_ACTION
    text = json.loads(schema_body(about.action_space, about.observation_space, about.metadata))["action"]
    # A schema's references count from its own root, which it does not have here.
    return {"type": "object"} if '"$ref"' in json.dumps(text) else text
