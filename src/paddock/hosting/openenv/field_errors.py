"""What is wrong with a peer's data, in pydantic's form: OpenEnv's clients and tests read it. No pydantic is needed.

An entry is a dict with ``type``, ``loc``, ``msg``, ``input`` and ``url``. Between processes an entry goes without
``input`` and ``url``: the server has the data, and adds both.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import islice
from typing import Any

import msgspec

Entry = dict[str, Any]
Place = tuple[str | int, ...]

# An answer tells back so many values and characters of what was sent, for each of so many mistakes.
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
    shown = value if _left(value, INPUT_LIMIT) >= 0 else None
    made: Entry = {"type": kind, "loc": list(loc), "msg": message or _MESSAGES[kind], "input": shown}
    if ctx is not None:
        made["ctx"] = ctx
    made["url"] = DOCS + kind
    return made


def _left(value: Any, budget: int) -> int:
    """What is left of a budget for values and characters; below zero as soon as there is too much."""
    budget -= 1
    if isinstance(value, str):
        return budget - len(value)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict):
        budget -= sum(map(len, value)) if len(value) <= budget else len(value)
    for item in inner:
        if budget < 0:
            break
        budget = _left(item, budget)
    return budget


def extras(data: dict[str, Any], known: Container[str], before: Place = ()) -> list[Entry]:
    """An entry for each unknown key, up to a limit: a short message must not have an answer of any length."""
    unknown = (key for key in data if key not in known)
    return [entry("extra_forbidden", (*before, key), data[key]) for key in islice(unknown, ENTRY_LIMIT)]


def text_of(title: str, entries: list[Entry]) -> str:
    """The entries as pydantic tells them in words."""
    lines = [f"{len(entries)} validation error{'s' if len(entries) > 1 else ''} for {title}"]
    for one in entries:
        value = one["input"]
        lines.append(".".join(map(str, one["loc"])))
        lines.append(
            f"  {one['msg']} [type={one['type']}, input_value={_shortened(value)}, input_type={type(value).__name__}]"
        )
        lines.append(f"    For further information visit {one['url']}")
    return "\n".join(lines)


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:25]}...{text[-24:]}"


def without_url(entries: list[Entry]) -> list[Entry]:
    """As FastAPI shows what is wrong with a body."""
    return [{key: value for key, value in one.items() if key != "url"} for one in entries]


def refusal_text(entries: list[Entry]) -> str:
    """Entries as the text of an InvalidAction, to be read by ``entries_of``."""
    kept = [{key: one[key] for key in ("type", "loc", "msg", "ctx") if key in one} for one in entries]
    return REFUSED + msgspec.json.encode(kept).decode()


def entries_of(message: str, data: Any) -> list[Entry]:
    """What a worker said of the action ``data``; one entry about all of it where that is no list of entries."""
    if message.startswith(REFUSED):
        try:
            found = msgspec.json.decode(message[len(REFUSED) :], type=list[_Sent])
        except msgspec.MsgspecError:  # cut off, or somebody else's text
            found = []
        if found:
            return [entry(one.type, tuple(one.loc), _input(one, data), one.msg, one.ctx) for one in found]
    return [entry("value_error", (), data, message)]


class _Sent(msgspec.Struct):
    type: str
    loc: list[str | int]
    msg: str
    ctx: dict[str, Any] | None = None


def _input(sent: _Sent, data: Any) -> Any:
    """What stood there; for something missing, what it is missing in."""
    found = data
    for key in sent.loc[:-1] if sent.type == "missing" else sent.loc:
        try:
            found = found[key]
        except (KeyError, IndexError, TypeError):  # a step of pydantic's own, such as the member of a union
            return found
    return found
