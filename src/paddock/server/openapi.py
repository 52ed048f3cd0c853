"""The server's OpenAPI document. Its version says to OpenEnv's tools which protocol this is."""

from __future__ import annotations

from typing import Any

from paddock.server.routes import ROUTES, Route

_ANYTHING: dict[str, Any] = {"schema": {"type": "object"}}
_BODIES: dict[str, dict[str, Any]] = {
    "reset": {
        "type": "object",
        "properties": {
            "seed": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
            "episode_id": {"anyOf": [{"type": "string", "maxLength": 255}, {"type": "null"}]},
        },
    },
    "step": {
        "type": "object",
        "required": ["action"],
        "properties": {
            "action": {"type": "object"},
            "timeout_s": {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}]},
            "request_id": {"anyOf": [{"type": "string", "maxLength": 255}, {"type": "null"}]},
        },
    },
    "mcp": {"type": "object"},
}
_REFUSALS = {
    "400": "The request is malformed.",
    "401": "A token is needed.",
    "403": "It may not be done from there, or by this role.",
    "404": "There is no such thing.",
    "409": "The session can't do this.",
    "422": "The body is not what was expected.",
    "429": "Too many requests.",
    "501": "The environment does not have this.",
    "503": "Not now: try again later.",
}


def openapi(production: bool) -> dict[str, Any]:
    """The document for the routes at the root."""
    paths: dict[str, Any] = {}
    for route in ROUTES:
        if route.method != "WS" and (route.in_production or not production) and route.name not in _TASKS:
            paths.setdefault(f"/{route.name}", {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "OpenEnv Environment HTTP API", "version": "1.0.0"},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


_TASKS = ("splits", "tasks", "num_tasks", "task", "task_range")


def _operation(route: Route) -> dict[str, Any]:
    kind = "text/plain" if route.name == "metrics" else "application/json"
    content = {kind: {"schema": {} if kind == "application/json" else {"type": "string"}}}
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}_{route.name.replace('.', '_') or 'root'}",
        "responses": {"200": {"description": "Done.", "content": content}},
    }
    for status, words in _REFUSALS.items():
        operation["responses"][status] = {"description": words, "content": {"application/json": {"schema": {}}}}
    if route.roles is not None:
        operation["security"] = [{"token": []}]
    if route.name in _BODIES and route.method == "POST":
        body = {"content": {"application/json": {"schema": _BODIES[route.name]}}, "required": route.name != "reset"}
        operation["requestBody"] = body
    return operation
