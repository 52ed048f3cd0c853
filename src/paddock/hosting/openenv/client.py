"""A client of OpenEnv servers: one question and its answer at a time, over a websocket.

OpenEnv's frames have no numbers, so only its place says which question an answer belongs to. A connection that still
owes an answer which is no longer awaited is therefore closed.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from paddock.errors import BadFrame, DeadlineExceeded, InvalidAction, PaddockError, PlanError, SessionGone
from paddock.hosting.websocket.blocking import BlockingConnection
from paddock.hosting.websocket.endpoint import Endpoint, basic, bearer
from paddock.hosting.websocket.events import TOO_LARGE, Closed, Event, Text, WebSocketError

if TYPE_CHECKING:
    import ssl


_LAST_WORDS = ("CAPACITY_REACHED", "FACTORY_ERROR", "SESSION_ERROR")
ANSWERS = {"reset": "observation", "step": "observation", "state": "state", "mcp": "mcp"}


class ServerError(PaddockError, RuntimeError):
    """The server answered with an error. ``wire_code`` is OpenEnv's; the session goes on unless it ``ends``."""

    def __init__(self, message: str, *, wire_code: str = "", details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.wire_code, self.details = wire_code, dict(details or {})

    @property
    def ends(self) -> bool:
        return self.wire_code in _LAST_WORDS


class OutcomeUnknown(DeadlineExceeded):
    """No answer came in time. The step may have been taken or not; the connection is closed and the episode lost."""


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
    """The websocket of ``http://host:8000/Id``: ``ws://host:8000/Id/ws``. A user part of the URL is the token."""
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
    others = {name.lower(): value for name, value in (headers or {}).items()}
    authorization = others.pop("authorization", authorization)
    if others:
        raise PlanError(f"headers= may only have Authorization, got {', '.join(others)[:100]} too.")
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
    from paddock.hosting.openenv.space_form import plain  # when first used: it imports the spaces

    found = plain(value)
    if isinstance(found, str):
        raise TypeError(f"a {type(value).__name__} has no JSON form")
    return found


def answer(kind: str, text: str) -> dict[str, Any]:
    """The data of the answer to a request; ServerError if the server reports one, BadFrame if it is not an answer."""
    try:
        message = json.loads(text)
        type_, data = message["type"], message["data"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadFrame(
            f"The server answered {kind} with something that is not an OpenEnv frame: {text[:80]!r}"
        ) from None
    if type_ == "error" and isinstance(data, dict):
        reason, code = data.get("message", "Unknown error"), data.get("code", "UNKNOWN")
        raise ServerError(f"Server error: {reason} (code: {code})", wire_code=str(code), details=data)
    if type_ != ANSWERS[kind] or not isinstance(data, dict):
        raise BadFrame(f"The server answered {kind} with a {str(type_)[:40]!r} frame.")
    return data


def outcome_unknown(kind: str, seconds: float) -> OutcomeUnknown:
    """The error for an answer that did not come in time."""
    return OutcomeUnknown(
        f"No answer to {kind} within {seconds:g} s. Whether it was carried out is unknown, so the connection was "
        "closed and the episode is lost. reset() begins a new one; message_timeout_s= allows more time."
    )


def connection_lost(kind: str, why: str) -> ConnectionLost:
    """The error for a connection that ended before the answer came."""
    return ConnectionLost(
        f"The connection ended before the answer to {kind} came ({why}). The episode is lost; reset() begins a new one."
    )


def too_large(kind: str, max_bytes: int) -> ConnectionLost:
    """The error for an answer larger than this side takes."""
    return ConnectionLost(
        f"The answer to {kind} is larger than max_message_size_mb={max_bytes / (1 << 20):g} allows. The connection was "
        "closed and the episode is lost. Pass a larger max_message_size_mb= to the client, or to make() as "
        "remote=RemoteOptions(max_message_size_mb=…)."
    )


def session_gone(kind: str) -> SessionGone:
    """The error for a request to an episode that was lost."""
    return SessionGone(f"{kind}: the episode was lost with its connection. Begin a new one with reset().")


_LOOK_S = 5.0  # how often the server's pings are answered between two questions


class BlockingLine:
    """For blocking code; connects when made, unless it is given an open ``connection``.

    After an error other than a ServerError, ``live`` is False.

    Between two questions a thread of its own answers the server's pings: OpenEnv's servers close a connection that
    does not answer within 40 seconds, and an agent may think longer than that.
    """

    def __init__(self, line: Line, connection: BlockingConnection | None = None) -> None:
        self._line = line
        self._connection = connection or BlockingConnection(
            line.endpoint, timeout_s=line.connect_s, context=line.context
        )
        self._connection.limit(line.max_bytes)
        self._lock = threading.Lock()
        self._early: list[Event] = []  # what came before a question
        self._over = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="paddock-openenv-pings", daemon=True)
        self._keeper.start()

    @property
    def live(self) -> bool:
        return not self._over.is_set()

    def usable(self) -> bool:
        """Whether the server has not closed it meanwhile."""
        with self._lock:
            if self.live:
                self._read_early()
            if self._early and isinstance(self._early[0], Closed):  # without giving a reason
                self._abort()
            return self.live

    def ask(self, kind: str, data: Any = None) -> dict[str, Any]:
        """The answer's data. One question at a time: a second thread waits for the first."""
        text = question(kind, data)
        with self._lock:
            try:
                return answer(kind, self._exchange(kind, text))
            except ServerError as error:
                if error.ends:
                    self._abort()
                raise
            except BaseException:
                self._abort()
                raise

    def _exchange(self, kind: str, text: str) -> str:
        if not self.live:
            raise connection_lost(kind, "it was closed before")
        self._read_early()
        if not self._early:  # else the server spoke first: it refuses, or it broke the protocol
            try:
                self._connection.send_text(text, self._line.answer_s)
            except TimeoutError:
                raise outcome_unknown(kind, self._line.answer_s) from None
            except OSError as error:
                # The server may have given the reason before it closed.
                self._read_early()
                if not self._early:
                    raise connection_lost(kind, type(error).__name__) from None
        elif isinstance(self._early[0], Text) and '"error"' not in self._early[0].text[:20]:
            raise connection_lost(kind, "the server sent an answer without a request")
        return self._reply(kind)

    def _reply(self, kind: str) -> str:
        line, began_s = self._line, time.monotonic()
        heard_s, pinged = began_s, False
        while True:
            event = self._early.pop(0) if self._early else self._next(kind, began_s + line.answer_s)
            now_s = time.monotonic()
            if isinstance(event, Text):
                return event.text
            if isinstance(event, Closed):
                raise connection_lost(kind, f"closed by the server with code {event.code} {event.reason}".rstrip())
            if event is not None:
                heard_s, pinged = now_s, False
            elif now_s - began_s >= line.answer_s:
                raise outcome_unknown(kind, line.answer_s)
            elif line.ping_every_s is not None and now_s - heard_s >= line.ping_every_s:
                if pinged and now_s - heard_s >= line.ping_every_s + (line.ping_answer_s or line.answer_s):
                    raise connection_lost(kind, f"no answer to a ping within {line.ping_answer_s:g} s")
                if not pinged:
                    self._connection.ping()
                    pinged = True

    def _next(self, kind: str, ends_s: float) -> Event | None:
        try:
            return self._connection.recv(max(0.0, ends_s - time.monotonic()))
        except WebSocketError as error:
            if error.close_code == TOO_LARGE:
                raise too_large(kind, self._line.max_bytes) from None
            raise connection_lost(kind, str(error)) from None
        except OSError as error:
            raise connection_lost(kind, str(error) or type(error).__name__) from None

    def _read_early(self) -> None:
        """Read what is here already, which also answers pings."""
        try:
            while (event := self._connection.recv(0.0)) is not None:
                if isinstance(event, (Text, Closed)):
                    self._early.append(event)
                if isinstance(event, Closed):
                    return
        except (OSError, WebSocketError) as error:
            self._early.append(Closed(1006, str(error)))

    def _keep(self) -> None:
        while not self._over.wait(_LOOK_S):
            if self._lock.acquire(blocking=False):
                try:
                    if self.live and not self._early:
                        self._read_early()
                finally:
                    self._lock.release()

    def _abort(self) -> None:
        self._over.set()
        self._connection.abort()

    def close(self) -> None:
        """Say "close" as OpenEnv's clients do, then close the connection. Safe to call twice."""
        with self._lock:
            if not self.live:
                return
            self._over.set()
            try:
                self._connection.send_text(question("close"), 1.0)
            except (OSError, PaddockError):
                pass
            finally:
                self._connection.close()
        self._keeper.join()
