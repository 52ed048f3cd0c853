"""OpenEnv's wire: requests and frames on ``/ws``, pydantic's form of errors, and strict JSON.

A bad frame never costs the session: where OpenEnv closes the connection (JSON that is not an object, bytes), paddock
only refuses the frame.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, TypeAlias

import msgspec

from paddock.spaces.json_data import JsonLimits, NotJson, read_json

INVALID_JSON = "INVALID_JSON"
UNKNOWN_TYPE = "UNKNOWN_TYPE"
VALIDATION_ERROR = "VALIDATION_ERROR"
EXECUTION_ERROR = "EXECUTION_ERROR"
CAPACITY_REACHED = "CAPACITY_REACHED"
FACTORY_ERROR = "FACTORY_ERROR"
SESSION_ERROR = "SESSION_ERROR"


@dataclass(frozen=True)
class WireRequest:
    """A client's message. ``data``: arguments of a reset, the fields of an action, or a request for ``json_rpc``.

    A close has no answer but the end of the connection.
    """

    kind: Literal["reset", "step", "state", "close", "mcp"]
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class WireError:
    """An error for the client. ``closes``: the connection ends with it, which a bad frame does not cause.

    ``cause``: the code of the environment's own error, which is not sent to the client.
    """

    code: str
    message: str
    errors: list[Entry] | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    closes: bool = False
    cause: str = ""


def parse_request(text: str | bytes) -> WireRequest | WireError:
    """The request in one websocket message, or what is wrong with it. Bytes come from a binary message: refused."""
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
        return WireError(UNKNOWN_TYPE, f"Unknown message type: {str(kind)[:200]}")
    if kind == "step" and len(message) == 2 and type(data := message.get("data")) is dict:
        return WireRequest("step", data)
    has_data = kind in ("reset", "step", "mcp")
    problems = []
    if has_data and not isinstance(message.get("data", {}), dict):
        problems.append(entry("dict_type", ("data",), message["data"]))
    if kind in ("step", "mcp") and "data" not in message:
        problems.append(entry("missing", ("data",), message))
    problems += extras(message, ("type", "data") if has_data else ("type",))
    return invalid(problems) if problems else WireRequest(kind, message.get("data", {}))


def invalid(entries: list[Entry]) -> WireError:
    """The answer to an invalid message or action."""
    return WireError(VALIDATION_ERROR, "Invalid message", entries)


# Frames from a server, byte for byte as OpenEnv's. ``form`` is "0.10" or "0.3", which has no metadata.


Form: TypeAlias = Literal["0.10", "0.3"]


def observation_data(observation: dict[str, Any], form: Form = "0.10") -> dict[str, Any]:
    """An OpenEnv observation, all of its fields, as the ``data`` of a frame."""
    hidden = ("reward", "done") if form == "0.10" else ("reward", "done", "metadata")
    data = {
        "observation": {key: value for key, value in observation.items() if key not in hidden},
        "reward": observation.get("reward"),
        "done": observation.get("done", False),
    }
    if form == "0.10" and observation.get("metadata"):
        data["metadata"] = observation["metadata"]
    return data


def frame(kind: Literal["observation", "state", "mcp", "error"], data: dict[str, Any]) -> str:
    """The answer to a reset or a step, to a state, to a JSON-RPC request on ``/ws``, or to what could not be done."""
    return dump({"type": kind, "data": data}).decode()


def error_frame(error: WireError) -> str:
    """The error as a frame."""
    data: dict[str, Any] = {"message": error.message, "code": error.code, **error.extra}
    if error.errors is not None:
        data["errors"] = error.errors
    return frame("error", data)


def at_capacity(active: int, most: int, why: str) -> WireError:
    """The error to send before closing a connection because there is no room for another session.

    ``why`` replaces OpenEnv's text where there is room, but not for this client.
    """
    full = f"Server at capacity: {active}/{most} sessions active. Cannot accept new connections."
    message = full if active >= most else why
    return WireError(CAPACITY_REACHED, message, extra={"active_sessions": active, "max_sessions": most}, closes=True)


def factory_failed(name: str) -> WireError:
    """The error to send before closing a connection because its environment could not be made."""
    message = f"Environment factory '{name}' failed to create instance."
    return WireError(FACTORY_ERROR, message, extra={"factory_name": name}, closes=True)


# What is wrong with a peer's data, in pydantic's form, which OpenEnv's clients and tests read. It needs no pydantic. An
# entry is a dict with ``type``, ``loc``, ``msg``, ``input`` and ``url``. A worker sends it without ``input`` and
# ``url``: the server has the data, and adds both.


Entry = dict[str, Any]
Place = tuple[str | int, ...]

# An answer repeats up to this many values and characters of what was sent, for each of up to this many mistakes.
INPUT_LIMIT = 10_000
ENTRY_LIMIT = 100

DOCS = "https://errors.pydantic.dev/2.14/v/"

_MESSAGES = {
    "missing": "Field required",
    "extra_forbidden": "Extra inputs are not permitted",
    "dict_type": "Input should be a valid dictionary",
    "string_type": "Input should be a valid string",
    "int_type": "Input should be a valid integer",
}
_SHOWN = 50  # characters of an input
# How a worker's refusal of an action begins, before the entries as JSON.
REFUSED = "the action was refused: "


def entry(kind: str, loc: Place, value: Any, message: str = "", ctx: dict[str, Any] | None = None) -> Entry:
    """One error as pydantic would list it."""
    repeated = value if _budget_left(value, INPUT_LIMIT) >= 0 else None
    found: Entry = {"type": kind, "loc": list(loc), "msg": message or _MESSAGES[kind], "input": repeated}
    if ctx is not None:
        found["ctx"] = ctx
    found["url"] = DOCS + kind
    return found


def _budget_left(value: Any, budget: int) -> int:
    """What is left of a budget for values and characters; negative as soon as there is too much."""
    budget -= 1
    if isinstance(value, str):
        return budget - len(value)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict):
        budget -= sum(map(len, value)) if len(value) <= budget else len(value)
    for item in inner:
        if budget < 0:
            break
        budget = _budget_left(item, budget)
    return budget


def extras(data: dict[str, Any], known: Container[str], before: Place = ()) -> list[Entry]:
    """An entry for each unknown key, up to a limit: a short message must not cause a long answer."""
    unknown = (key for key in data if key not in known)
    return [entry("extra_forbidden", (*before, key), data[key]) for key in islice(unknown, ENTRY_LIMIT)]


def text_of(title: str, entries: list[Entry]) -> str:
    """The entries as pydantic's text."""
    lines = [f"{len(entries)} validation error{'s' if len(entries) > 1 else ''} for {title}"]
    for one in entries:
        value, shown = one["input"], repr(one["input"])
        shown = shown if len(shown) <= _SHOWN else f"{shown[:25]}...{shown[-24:]}"
        lines.append(".".join(map(str, one["loc"])))
        lines.append(f"  {one['msg']} [type={one['type']}, input_value={shown}, input_type={type(value).__name__}]")
        lines.append(f"    For further information visit {one['url']}")
    return "\n".join(lines)


def refusal_text(entries: list[Entry]) -> str:
    """Entries as the text of an InvalidAction, to be read by ``entries_of``."""
    kept = [{key: one[key] for key in ("type", "loc", "msg", "ctx") if key in one} for one in entries]
    return REFUSED + msgspec.json.encode(kept).decode()


def entries_of(message: str, data: Any) -> list[Entry]:
    """What a worker said about the action ``data``; one entry about all of it if that is not a list of entries."""
    if message.startswith(REFUSED):
        try:
            found = _SENT.decode(message[len(REFUSED) :])
        except msgspec.MsgspecError:  # cut off, or another text
            found = []
        if found:
            return [entry(one.type, tuple(one.loc), _input(one, data), one.msg, one.ctx) for one in found]
    return [entry("value_error", (), data, message)]


class _Sent(msgspec.Struct):
    type: str
    loc: list[str | int]
    msg: str
    ctx: dict[str, Any] | None = None


_SENT = msgspec.json.Decoder(list[_Sent])  # made before threads can use it at once: see core.spec_json


def _input(sent: _Sent, data: Any) -> Any:
    """The value at the place of an entry; for something missing, what it is missing in."""
    found = data
    for key in sent.loc[:-1] if sent.type == "missing" else sent.loc:
        try:
            found = found[key]
        except (KeyError, IndexError, TypeError):  # pydantic's own part of a place, such as the member of a union
            return found
    return found


# JSON, in the bounds of a server: reading that much takes about 0.1 s, in which it does nothing else. The wire to the
# worker carries 64 levels, some of which are the message's own; a float holds about 300 digits.


NESTING_LIMIT = 60
_JSON = JsonLimits(32 << 20, nesting=NESTING_LIMIT, escapes=1 << 20, pieces=1 << 16, digits=300)

_EXPONENT = re.compile(rb"e[0-9](?<=[0-9]e[0-9])")  # which is found by its first letter: much faster
_EXPONENT_OR_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"|([0-9])e([0-9])')


def parse_bounded(text: str | bytes) -> Any:
    """The data in ``text``, or NotJson. Syntax errors have the text of Python's parser, as in OpenEnv."""
    try:
        return read_json(text, _JSON)
    except NotJson as problem:
        raise NotJson(str(problem).removeprefix("not JSON: ")) from None


def dump(data: Any) -> bytes:
    """Compact JSON in the very bytes that pydantic writes; NaN and infinities are null.

    What JSON has no form for is a TypeError.
    """
    text = msgspec.json.encode(data)
    if _EXPONENT.search(text) is None:
        return text
    # Above 1e16 pydantic has a plus in the exponent. Strings may hold something similar, and stay as they are.
    return _EXPONENT_OR_STRING.sub(lambda found: found[0] if found[1] is None else b"%se+%s" % found.groups(), text)
