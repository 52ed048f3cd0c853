"""What a client of OpenEnv asks for on ``/ws``: one text, one request, or what is wrong with it.

A bad frame never costs the session: where OpenEnv closes (JSON that is no object, bytes), here it is only refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from paddock.hosting.openenv.field_errors import Entry, entry, extras
from paddock.hosting.openenv.strict_json import NotJson, parse_bounded

INVALID_JSON = "INVALID_JSON"
UNKNOWN_TYPE = "UNKNOWN_TYPE"
VALIDATION_ERROR = "VALIDATION_ERROR"
EXECUTION_ERROR = "EXECUTION_ERROR"
CAPACITY_REACHED = "CAPACITY_REACHED"
FACTORY_ERROR = "FACTORY_ERROR"
SESSION_ERROR = "SESSION_ERROR"


@dataclass(frozen=True)
class ResetRequest:
    """Begin an episode; ``data`` holds whatever arguments the client sent."""

    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StepRequest:
    """One action, as its fields."""

    data: dict[str, Any]


@dataclass(frozen=True)
class StateRequest:
    """The state of the session's environment."""


@dataclass(frozen=True)
class CloseRequest:
    """End the session. It has no answer but the end of the connection."""


@dataclass(frozen=True)
class McpRequest:
    """A JSON-RPC request for ``json_rpc.read``."""

    data: dict[str, Any]


@dataclass(frozen=True)
class WireError:
    """What to tell the client. ``closes``: no more can come of this connection; a bad frame is no reason for that.

    ``cause``: the code of the environment's own error, which the client is not told.
    """

    code: str
    message: str
    errors: list[Entry] | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    closes: bool = False
    cause: str = ""


WireRequest: TypeAlias = "ResetRequest | StepRequest | StateRequest | CloseRequest | McpRequest"


def parse_request(text: str | bytes) -> WireRequest | WireError:
    """The request in one websocket message. Bytes are what a binary message had, which is none of this protocol."""
    if isinstance(text, bytes):
        return WireError(INVALID_JSON, "Invalid JSON: expected a text message, got a binary one")
    try:
        message = parse_bounded(text)
    except NotJson as problem:
        return WireError(INVALID_JSON, f"Invalid JSON: {problem}")
    if not isinstance(message, dict):
        return invalid([entry("dict_type", (), message)])
    kind = message.get("type", "")
    if kind not in ("reset", "step", "state", "close", "mcp"):
        return WireError(UNKNOWN_TYPE, f"Unknown message type: {_shown(kind)}")
    has_data = kind in ("reset", "step", "mcp")
    problems = _problems(message, has_data=has_data, required=has_data and kind != "reset")
    return invalid(problems) if problems else _request(kind, message.get("data", {}))


def invalid(entries: list[Entry]) -> WireError:
    """The answer to a message or an action that is not as it should be."""
    return WireError(VALIDATION_ERROR, "Invalid message", entries)


def _shown(kind: Any) -> str:
    """A stranger's type in a message, as Python's ``str`` has it; cut, so that little comes back."""
    return str(kind)[:200]


def _problems(message: dict[str, Any], *, has_data: bool, required: bool) -> list[Entry]:
    problems = []
    if has_data and "data" in message and not isinstance(message["data"], dict):
        problems.append(entry("dict_type", ("data",), message["data"]))
    if required and "data" not in message:
        problems.append(entry("missing", ("data",), message))
    known = ("type", "data") if has_data else ("type",)
    return problems + extras(message, known)


def _request(kind: str, data: dict[str, Any]) -> WireRequest:
    if kind == "reset":
        return ResetRequest(data)
    if kind == "step":
        return StepRequest(data)
    if kind == "mcp":
        return McpRequest(data)
    return StateRequest() if kind == "state" else CloseRequest()
