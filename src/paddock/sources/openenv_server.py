"""OpenEnvServerEnv: an environment of an OpenEnv server as an Env. Observations are dicts, as AsEnv has them here.

What the server says is bounded and made plain, and never checked against the observation's schema: OpenEnv's servers
do not hold to it, many return another class from reset than from step.
"""

from __future__ import annotations

import math
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
from paddock.hosting.openenv.about import KEY
from paddock.hosting.openenv.blocking_line import BlockingLine
from paddock.hosting.openenv.conversation import Line, ServerError, gone
from paddock.hosting.remote_address import RemoteAddress
from paddock.hosting.remote_refusal import explained
from paddock.hosting.wall_rules import WallRules
from paddock.hosting.wall_values import ValueCheck
from paddock.seeding import to_seed
from paddock.sources.small_get import get
from paddock.spaces import Space, Struct

if TYPE_CHECKING:
    import ssl

Record = dict[str, Any]

_ANY_OBJECT: Record = {"type": "object", "additionalProperties": True}
_FOR_EVER_S = 1e9


class OpenEnvServerEnv(Env[Record, Any]):
    """Connects when made. ``answer_s``: for one answer; after one that did not come only ``reset`` goes on.

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
        rules: WallRules | None = None,
    ) -> None:
        self._address, self._rules = address, rules or WallRules()
        self._endpoint = address.endpoint(subprotocols=())
        self._settings = Line(
            self._endpoint, connect_s, answer_s or _FOR_EVER_S, heartbeat_s, heartbeat_s, context=context
        )
        self._line: BlockingLine | None = None
        self._closed = False
        schemas = self._schemas()
        self.action_space = _space_of(schemas.get("action"), "Action")
        name = _title(schemas.get("observation"), "Observation")
        self.observation_space: Space[Any] = Struct.from_schema(_ANY_OBJECT, name)
        texts = {role: msgspec.json.encode(schema).decode() for role, schema in schemas.items()}
        self.metadata = {"render_modes": [], KEY: {"schemas": texts}}
        self._line = self._connected()

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Record, Info]:
        """``options`` are the environment's own arguments, ``episode_id`` too."""
        super().reset(seed=seed)
        given = dict(options or {}) if seed is None else {**(options or {}), "seed": to_seed(seed)}
        if self._line is None or not self._line.usable():
            self._check_open()
            self._line = self._connected()  # a new episode needs nothing of the old connection
        return self._outcome(self._ask("reset", given))[0], {}

    def step(self, action: Any) -> tuple[Record, float, bool, bool, Info]:
        record, reward, done = self._outcome(self._ask("step", self._fields(action)))
        truncated = record.get("truncated") is True
        said = record.get("terminated")
        terminated = said if type(said) is bool else done and not truncated
        return record, reward, terminated, truncated or (done and not terminated), {}

    def state(self) -> State:
        """The episode as the server counts it, with all fields of its state."""
        public = self._ask("state", None)
        episode_id, step_count = public.get("episode_id"), public.get("step_count")
        return State(
            episode_id if isinstance(episode_id, str) else None,
            step_count if type(step_count) is int else None,
            public,
        )

    def episode(self) -> tuple[str | None, int | None]:
        """The episode's id and the steps taken in it."""
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
        try:
            return self.action_space.to_plain(dumped)  # type: ignore[attr-defined, no-any-return]
        except InvalidValue as error:
            raise InvalidAction(str(error), action=action, space=self.action_space) from None

    def _outcome(self, data: Record) -> tuple[Record, float, bool]:
        """The observation with what stands beside it on the wire, its reward and whether the episode is over."""
        observation, reward, done = data.get("observation"), data.get("reward"), data.get("done") is True
        fields = observation if isinstance(observation, dict) else {"value": observation}
        number = float(reward) if isinstance(reward, (int, float)) else 0.0
        beside = {"done": done, "reward": reward, "metadata": data.get("metadata") or {}}
        return {**beside, **fields}, number if math.isfinite(number) else 0.0, done

    def _ask(self, kind: str, data: Any) -> Record:
        self._check_open()
        if self._line is None:
            raise gone(kind)
        try:
            found = self._line.ask(kind, data)
        except ServerError as error:
            if error.ends:
                self._line = None
            raise _own(error) from None
        except (PaddockError, OSError):
            self._line = None
            raise
        rules = self._rules
        check = ValueCheck(
            kind, max_bytes=rules.value_bytes, depth=rules.value_depth, entries=rules.value_entries, wide=True
        )
        return check.read(found)  # type: ignore[no-any-return]

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedEnvironmentError("This environment is closed. Make it anew.")

    def _connected(self) -> BlockingLine:
        try:
            return BlockingLine(self._settings)
        except OSError as error:
            said = explained(error, self._endpoint, first=True)
            raise said or Unreachable(f"No connection to {self._address}: {error.strerror or error}") from None

    def _schemas(self) -> dict[str, Record]:
        """What ``/schema`` says, as far as it says something."""
        settings = self._settings
        endpoint = self._address.endpoint("/schema", subprotocols=())
        found: Any = None
        with suppress(msgspec.DecodeError, RecursionError):
            found = msgspec.json.decode(get(endpoint, settings.connect_s, settings.context))
        schemas = found if isinstance(found, dict) else {}
        return {role: one for role, one in schemas.items() if isinstance(role, str) and isinstance(one, dict)}

    def __repr__(self) -> str:
        return f"OpenEnvServerEnv({self._address}, wire OpenEnv)"


def _space_of(schema: Record | None, name: str) -> Space[Any]:
    """The space of a schema; of one that says more than we understand, any object."""
    with suppress(InvalidSpace):
        if schema is not None:
            return Struct.from_schema(schema, _title(schema, name))
    return Struct.from_schema(_ANY_OBJECT, _title(schema, name))


def _title(schema: Record | None, otherwise: str) -> str:
    title = (schema or {}).get("title")
    return title[:100] if isinstance(title, str) and title.isidentifier() else otherwise


def _own(error: ServerError) -> PaddockError:
    """The error of ours that a server's is."""
    if error.wire_code == "VALIDATION_ERROR":
        return InvalidAction(str(error))
    if error.ends:
        return SessionGone(str(error))
    return EnvFailed(str(error), error_type=error.wire_code)
