"""OpenEnv's wire: requests and frames on ``/ws``, pydantic's form of errors, and strict JSON.

A bad frame never costs the session: where OpenEnv closes the connection (JSON that is not an object, bytes), paddock
only refuses the frame.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Container
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, NoReturn, TypeAlias

import msgspec

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


# Untrusted JSON, read strictly: unlike ``json.loads``, this refuses NaN, numbers beyond a float, repeated keys, deep
# nesting and lone surrogates. JSON for OpenEnv's clients is written in the very bytes that pydantic writes.


NESTING_LIMIT = 60  # the wire to the worker carries 64, some of which are the message's own
INTEGER_DIGITS = 300  # about as many as a float can hold

# Limits of a text for a server: reading that much takes about 0.1 s, in which it does nothing else.
TEXT_LIMIT = 32 << 20
PIECES_LIMIT = 1 << 16  # brackets, commas and colons, not those in strings
ESCAPES_LIMIT = 1 << 20

_SHORT = 1 << 14  # characters
_INTEGER_BITS = 900  # fewer than INTEGER_DIGITS
_UNUSUAL: Any = object()
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{},:"'))
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_EXPONENT = re.compile(rb"[0-9]e[0-9]")
_EXPONENT_OR_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"|([0-9])e([0-9])')


class NotJson(ValueError):
    """Text that is not JSON, or not accepted; the message may be sent to a peer."""


def parse(text: str | bytes) -> Any:
    """The data in ``text``, or NotJson. Syntax errors have the text of Python's parser, as in OpenEnv."""
    text = _decode_text(text)
    if text.count("[") + text.count("{") > NESTING_LIMIT:
        _check_nesting(_structure(text))
    return _parse(text)


def parse_bounded(text: str | bytes) -> Any:
    """As ``parse``, for a server: refuses a text that would keep it busy for long, and all clients waiting."""
    if len(text) > TEXT_LIMIT:
        raise NotJson(f"longer than {TEXT_LIMIT} bytes")
    text = _decode_text(text)
    if len(text) <= _SHORT and (found := _parse_quickly(text)) is not _UNUSUAL:
        return found
    if text.count("\\") > ESCAPES_LIMIT:
        raise NotJson(f"more than {ESCAPES_LIMIT} backslashes")
    if sum(map(text.count, "[{,:")) <= PIECES_LIMIT:
        return parse(text)
    structure = _structure(text, PIECES_LIMIT)
    if len(structure) > PIECES_LIMIT:
        raise NotJson(f"more than {PIECES_LIMIT} brackets, commas and colons")
    _check_nesting(structure)
    return _parse(text)


def _parse_quickly(text: str) -> Any:
    """The data in a text that ``parse`` takes too, by a parser that is not as strict; _UNUSUAL for any other."""
    if "\\u" in text:  # may be a lone surrogate
        return _UNUSUAL
    try:
        found = msgspec.json.decode(text)
        # Each pair has one colon, so as many pairs as colons leave no room for a key that occurs twice.
        return found if _count_pairs(found, NESTING_LIMIT) == text.count(":") else _UNUSUAL
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _UNUSUAL  # it is for the other parser to say why


def _count_pairs(data: Any, levels: int) -> int:
    """How many pairs the objects in it have; ValueError where ``parse`` might refuse it."""
    kind = type(data)
    if kind is int and data.bit_length() > _INTEGER_BITS:
        raise ValueError
    if kind is not dict and kind is not list:
        return 0
    if not levels:
        raise ValueError
    if kind is list:
        return sum(_count_pairs(one, levels - 1) for one in data)
    return len(data) + sum(_count_pairs(one, levels - 1) for one in data.values())


def _decode_text(text: str | bytes) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise NotJson("the text is not UTF-8") from None


def _parse(text: str) -> Any:
    try:
        data = json.loads(
            text, object_pairs_hook=_object, parse_float=_float, parse_int=_integer, parse_constant=_constant
        )
    except json.JSONDecodeError as error:
        raise NotJson(str(error)) from None
    if not text.isascii():
        _check_unicode(text)
    if "\\u" in text and _SURROGATE.search(text) is not None:
        _check_unicode(json.dumps(data, ensure_ascii=False))
    return data


def dump(data: Any) -> bytes:
    """Compact JSON; NaN and infinities are null. What JSON has no form for is a TypeError."""
    text = msgspec.json.encode(data)
    if _EXPONENT.search(text) is None:
        return text
    # Above 1e16 pydantic has a plus in the exponent. Strings may hold something similar, and stay as they are.
    return _EXPONENT_OR_STRING.sub(lambda found: found[0] if found[1] is None else b"%se+%s" % found.groups(), text)


def _structure(text: str, most_strings: int | None = None) -> bytes:
    """The brackets, commas and colons outside of strings. With more than ``most_strings``: also their quotes."""
    # Escapes go first, so that every quote left begins or ends a string.
    plain = text.replace("\\\\", "").replace('\\"', "") if "\\" in text else text
    marks = plain.encode(errors="surrogatepass").translate(None, _NOT_STRUCTURE)
    if most_strings is not None and marks.count(b'"') > 2 * most_strings:
        return marks
    return b"".join(marks.split(b'"')[::2])


def _check_nesting(structure: bytes) -> None:
    """Refuse deep nesting before the parser, which recurses for every level, sees it."""
    depth = 0
    for bracket in structure.translate(None, b",:"):
        depth += 1 if bracket in b"[{" else -1
        if depth > NESTING_LIMIT:
            raise NotJson(f"nested deeper than {NESTING_LIMIT} levels")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        met: set[str] = set()
        for key, _ in pairs:
            if key in met:
                raise NotJson(f"the key {ascii(key)[:60]} occurs twice")
            met.add(key)
    return found


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise NotJson(f"the number {digits[:40]} is too large")
    return value


def _integer(digits: str) -> int:
    if len(digits) > INTEGER_DIGITS:
        raise NotJson(f"an integer of {len(digits)} digits is too large")
    return int(digits)


def _constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not JSON")


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotJson("a text has a lone surrogate") from None
