"""OpenEnvServerEnv: an environment of an OpenEnv server as an Env. Observations are dicts, as AsEnv has them here.

What the server says is bounded and made plain, but never checked against the observation's schema: OpenEnv's servers
do not keep to it, and many return another class from reset than from step.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from paddock.core.env import Env, Info
from paddock.core.state import State
from paddock.errors import (
    ClosedEnvironmentError,
    EnvFailed,
    InvalidAction,
    InvalidSpace,
    InvalidValue,
    PaddockError,
    SessionGone,
    Unreachable,
)
from paddock.hosting.openenv.client import BlockingLine, Line, ServerError, session_gone
from paddock.hosting.openenv.http_bodies import OPENENV_KEY
from paddock.hosting.remote_address import RemoteAddress, explain_break
from paddock.hosting.untrusted import Bounds, ValueCheck, open_object
from paddock.hosting.websocket.endpoint import Endpoint, dial, seconds_left
from paddock.hosting.websocket.events import UpgradeRefused
from paddock.seeding import to_seed
from paddock.spaces import Space, Struct

if TYPE_CHECKING:
    import ssl

    from paddock.hosting.websocket.blocking import BlockingConnection


Record = dict[str, Any]

_FOREVER_S = 1e9
_DEPTH = 16  # levels of nesting in an answer
LARGEST_BYTES = 1 << 22  # of /schema


class OpenEnvServerEnv(Env[Record, Any]):
    """Connects when made, or goes on with an open ``connection``.

    ``answer_s``: for one answer; after one that did not come, only ``reset`` works. ``max_bytes``: the largest answer.
    Actions are dicts with the fields of the server's action class, or instances with a ``model_dump``.
    """

    metadata: dict[str, Any]

    def __init__(
        self,
        address: RemoteAddress,
        *,
        connect_s: float = 15.0,
        answer_s: float | None = 60.0,
        heartbeat_s: float | None = 20.0,
        context: ssl.SSLContext | None = None,
        max_bytes: int = 100 << 20,
        connection: BlockingConnection | None = None,
    ) -> None:
        self._address = address
        self._endpoint = address.endpoint(subprotocols=())
        self._settings = Line(
            self._endpoint, connect_s, answer_s or _FOREVER_S, heartbeat_s, heartbeat_s, max_bytes, context=context
        )
        # What fits into a message fits into these: an entry takes at least two characters, a letter at most four bytes.
        self._bounds = Bounds(4 * max_bytes, depth=_DEPTH, entries=max_bytes)
        self._closed = False
        self._line: BlockingLine | None = self._connect(connection)  # before /schema: it answers pings meanwhile
        try:
            self._read_schema(connect_s)
        except BaseException:
            self.close()
            raise

    def _read_schema(self, timeout_s: float) -> None:
        found: Any = None
        with suppress(msgspec.DecodeError, RecursionError):
            endpoint = self._address.endpoint("/schema", subprotocols=())
            found = msgspec.json.decode(get(endpoint, timeout_s, self._settings.context))
        found = found if isinstance(found, dict) else {}
        schemas = {role: one for role, one in found.items() if isinstance(role, str) and isinstance(one, dict)}
        self.action_space = _space_of(schemas.get("action"), "Action")
        name = _title(schemas.get("observation"), "Observation")
        self.observation_space: Space[Any] = open_object(name)
        texts = {role: msgspec.json.encode(schema).decode() for role, schema in schemas.items()}
        self.metadata = {"render_modes": [], OPENENV_KEY: {"schemas": texts}}

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Record, Info]:
        """``options`` are the environment's own arguments, ``episode_id`` too."""
        super().reset(seed=seed)
        given = dict(options or {}) if seed is None else {**(options or {}), "seed": to_seed(seed)}
        if self._line is None or not self._line.usable():
            self._check_open()
            self._line = self._connect()  # a new episode needs nothing of the old connection
        return self._outcome(self._ask("reset", given))[0], {}

    def step(self, action: Any) -> tuple[Record, float, bool, bool, Info]:
        record, reward, done = self._outcome(self._ask("step", self._fields(action)))
        truncated = record.get("truncated") is True
        said = record.get("terminated")
        terminated = said if type(said) is bool else done and not truncated
        return record, reward, terminated, truncated or (done and not terminated), {}

    def state(self) -> State:
        """Return the episode as the server counts it, with all fields of its state."""
        public = self._ask("state", None)
        episode_id, step_count = public.get("episode_id"), public.get("step_count")
        return State(
            episode_id if isinstance(episode_id, str) else None,
            step_count if type(step_count) is int else None,
            public,
        )

    def episode(self) -> tuple[str | None, int | None]:
        """Return the episode's id and the steps taken in it."""
        now = self.state()
        return now.episode_id, now.step_count

    def public_state(self) -> Record:
        """The state's fields."""
        return self.state().public  # type: ignore[no-any-return]

    def close(self) -> None:
        self._closed = True
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def _fields(self, action: Any) -> Record:
        dumped = action.model_dump() if hasattr(action, "model_dump") else action
        if isinstance(dumped, dict) and dumped.get("type") == "list_tools":
            return dumped  # servers with tools take this whatever their schema says, which names call_tool only
        try:
            return self.action_space.to_plain(dumped)  # type: ignore[attr-defined, no-any-return]
        except InvalidValue as error:
            raise InvalidAction(str(error), action=action, space=self.action_space) from None

    def _outcome(self, data: Record) -> tuple[Record, float, bool]:
        """Return the observation with what stands beside it on the wire, its reward and whether the episode is over."""
        observation, reward, done = data.get("observation"), data.get("reward"), data.get("done") is True
        fields = observation if isinstance(observation, dict) else {"value": observation}
        number = float(reward) if isinstance(reward, (int, float)) else 0.0
        beside = {"done": done, "reward": reward, "metadata": data.get("metadata") or {}}
        return {**beside, **fields}, number if math.isfinite(number) else 0.0, done

    def _ask(self, kind: str, data: Any) -> Record:
        self._check_open()
        if self._line is None:
            raise session_gone(kind)
        try:
            found = self._line.ask(kind, data)
        except ServerError as error:
            if error.ends:
                self._line = None
            if error.wire_code == "VALIDATION_ERROR":
                raise InvalidAction(str(error)) from None
            if error.ends:
                raise SessionGone(str(error)) from None
            raise EnvFailed(str(error), error_type=error.wire_code) from None
        except (PaddockError, OSError):
            self._line = None
            raise
        return ValueCheck(kind, self._bounds, wide=True).read(found)  # type: ignore[no-any-return]

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedEnvironmentError("This environment is closed. Make a new one.")

    def _connect(self, connection: BlockingConnection | None = None) -> BlockingLine:
        try:
            return BlockingLine(self._settings, connection)
        except OSError as error:
            said = explain_break(error, self._endpoint, first=True)
            raise said or Unreachable(f"No connection to {self._address}: {error.strerror or error}") from None

    def __repr__(self) -> str:
        return f"OpenEnvServerEnv({self._address}, wire OpenEnv)"


def _space_of(schema: Record | None, name: str) -> Space[Any]:
    """Return the space of a schema; any object for one that says more than we understand."""
    with suppress(InvalidSpace):
        if schema is not None:
            return Struct.from_schema(schema, _title(schema, name))
    return open_object(_title(schema, name))


def _title(schema: Record | None, otherwise: str) -> str:
    title = (schema or {}).get("title")
    return title[:100] if isinstance(title, str) and title.isidentifier() else otherwise


def get(endpoint: Endpoint, timeout_s: float, context: ssl.SSLContext | None = None) -> bytes:
    """Return the body of the response to one GET, by a deadline; Unreachable or the refusal if there is none."""
    from http.client import HTTPException, HTTPResponse  # when first used: few ever ask

    lines = [f"GET {endpoint.path} HTTP/1.1", f"Host: {endpoint.host_header}", "Accept: application/json"]
    if endpoint.authorization is not None:
        lines.append(f"Authorization: {endpoint.authorization}")
    request = "\r\n".join([*lines, "Connection: close", "", ""]).encode("ascii")
    ends_s = time.monotonic() + timeout_s
    try:
        with dial(endpoint, ends_s, context) as sock:
            sock.settimeout(seconds_left(ends_s))
            sock.sendall(request)
            response = HTTPResponse(sock, method="GET")
            response.begin()
            body = response.read(LARGEST_BYTES + 1)
    except (OSError, HTTPException) as error:
        said = explain_break(error, endpoint, first=True)
        raise said or Unreachable(f"No answer from {endpoint.display_name}: {error}") from None
    if response.status != 200:
        refusal = UpgradeRefused(
            f"{endpoint.display_name} answered {endpoint.path} with {response.status}.",
            status=response.status,
            body=body[:1000],
        )
        raise explain_break(refusal, endpoint, first=True) or refusal
    if len(body) > LARGEST_BYTES:
        raise Unreachable(f"{endpoint.display_name} answered {endpoint.path} with more than {LARGEST_BYTES} bytes.")
    return body
