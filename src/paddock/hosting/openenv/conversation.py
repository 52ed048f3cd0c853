"""What an OpenEnv client says and understands, without I/O: where the server is, one question, its answer.

OpenEnv's frames have no numbers, so an answer belongs to a question only by its place. A connection on which an answer
is owed and not waited for any more is therefore of no use to anyone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from paddock.errors import BadFrame, DeadlineExceeded, InvalidAction, PaddockError, PlanError, SessionGone
from paddock.hosting.websocket.endpoint import Endpoint
from paddock.hosting.websocket.handshake import basic, bearer

if TYPE_CHECKING:
    import ssl

_LAST_WORDS = ("CAPACITY_REACHED", "FACTORY_ERROR", "SESSION_ERROR")
ANSWERS = {"reset": "observation", "step": "observation", "state": "state", "mcp": "mcp"}


class ServerError(PaddockError, RuntimeError):
    """The server could not do it. ``wire_code`` is OpenEnv's; the session goes on unless it ``ends``."""

    def __init__(self, message: str, *, wire_code: str = "", details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.wire_code, self.details = wire_code, dict(details or {})

    @property
    def ends(self) -> bool:
        """Whether the server closes the connection after it."""
        return self.wire_code in _LAST_WORDS


class OutcomeUnknown(DeadlineExceeded):
    """No answer came in time. Whether the step was taken can't be known; the connection is closed, the episode lost."""


class ConnectionLost(SessionGone, ConnectionError):
    """The connection ended, and with it the episode. ``reset()`` begins another on a new connection."""


@dataclass(frozen=True)
class Line:
    """Where and how to connect. Times in seconds."""

    endpoint: Endpoint
    connect_s: float = 10.0
    answer_s: float = 60.0
    ping_every_s: float | None = 20.0
    ping_answer_s: float | None = 20.0
    max_bytes: int = 100 << 20
    url: str = field(default="", repr=False)
    context: ssl.SSLContext | None = field(default=None, repr=False)


def endpoint_of(base_url: str, headers: Mapping[str, str] | None = None) -> Endpoint:
    """A server's websocket: ``http://host:8000/Id`` at ``ws://host:8000/Id/ws``. A user part has the token."""
    parts = urlsplit(base_url if "://" in base_url else f"http://{base_url}")
    if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname:
        raise PlanError(f"base_url must look like http://host:8000, got {_without_user(base_url)!r}.")
    secure = parts.scheme in ("https", "wss")
    try:
        port = parts.port or (443 if secure else 80)
    except ValueError:
        raise PlanError(f"base_url has no valid port: {_without_user(base_url)!r}.") from None
    authorization = None
    if parts.password is not None:
        authorization = basic(unquote(parts.username or ""), unquote(parts.password))
    elif parts.username:
        authorization = bearer(unquote(parts.username))
    given = {name.lower(): value for name, value in (headers or {}).items()}
    authorization = given.pop("authorization", authorization)
    if given:
        raise PlanError(f"headers= may have Authorization alone, got {', '.join(given)[:100]} too.")
    path = parts.path.rstrip("/").removesuffix("/ws") + "/ws"
    return Endpoint(parts.hostname, port, path, secure=secure, authorization=authorization)


def _without_user(url: str) -> str:
    return url.rpartition("@")[2][:200]


def question(kind: str, data: Any = None) -> str:
    """A request as text."""
    message = {"type": kind} if data is None else {"type": kind, "data": data}
    try:
        return json.dumps(message, allow_nan=False, default=_plain)
    except ValueError as error:
        raise InvalidAction(
            f"JSON has no NaN or infinity, and the {kind} has one. Send a text or null instead."
        ) from error


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if hasattr(value, "tolist"):
        return value.tolist()
    from paddock.hosting.openenv.gym_form import plain  # when first used: it brings the spaces

    found = plain(value)
    if isinstance(found, str):
        raise TypeError(f"a {type(value).__name__} has no JSON form")
    return found


def answer(kind: str, text: str) -> dict[str, Any]:
    """The data of the answer to a request; ServerError if the server says so, BadFrame if it is no answer to this."""
    try:
        message = json.loads(text)
        told, data = message["type"], message["data"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadFrame(f"The server answered {kind} with what is no frame of OpenEnv's: {text[:80]!r}") from None
    if told == "error" and isinstance(data, dict):
        said, code = data.get("message", "Unknown error"), data.get("code", "UNKNOWN")
        raise ServerError(f"Server error: {said} (code: {code})", wire_code=str(code), details=data)
    if told != ANSWERS[kind] or not isinstance(data, dict):
        raise BadFrame(f"The server answered {kind} with a {str(told)[:40]!r} frame.")
    return data


def overdue(kind: str, seconds: float) -> OutcomeUnknown:
    """What to raise when an answer is not waited for any longer."""
    return OutcomeUnknown(
        f"No answer to {kind} within {seconds:g} s. Whether it was carried out is unknown, so the connection was "
        "closed and the episode is lost. reset() begins a new one; message_timeout_s= allows more time."
    )


def lost(kind: str, why: str) -> ConnectionLost:
    """What to raise when the connection ended before the answer came."""
    return ConnectionLost(
        f"The connection ended before the answer to {kind} came ({why}). The episode is lost; reset() begins a new one."
    )


def gone(kind: str) -> SessionGone:
    """What to raise when something is asked of an episode that was lost."""
    return SessionGone(f"{kind}: the episode was lost with its connection. Begin a new one with reset().")
