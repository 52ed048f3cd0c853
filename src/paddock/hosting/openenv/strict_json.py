"""JSON of strangers, read strictly; JSON for OpenEnv's clients, in the very bytes that pydantic writes.

Stricter than ``json.loads``: NaN, numbers beyond a float, repeated keys, deep nesting and lone surrogates are refused.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

import msgspec

NESTING_LIMIT = 60  # the wire to the worker carries 64, some of which are the message's own
INTEGER_DIGITS = 300  # about as many as a float has room for

# Of a text that a server is sent: reading so much takes about 0.1 s, in which it does nothing else.
TEXT_LIMIT = 32 << 20
PIECES_LIMIT = 1 << 16  # brackets, commas and colons, not those in strings
ESCAPES_LIMIT = 1 << 20

_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{},:"'))
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_EXPONENT = re.compile(rb"[0-9]e[0-9]")
_EXPONENT_OR_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"|([0-9])e([0-9])')


class NotJson(ValueError):
    """Text that is no JSON, or none that is accepted; its words are fit for a peer."""


def parse(text: str | bytes) -> Any:
    """The data in ``text``, or NotJson. Syntax errors are told in the words of Python's parser, as OpenEnv does."""
    text = _decoded(text)
    if text.count("[") + text.count("{") > NESTING_LIMIT:
        _check_nesting(_structure(text))
    return _parse(text)


def parse_bounded(text: str | bytes) -> Any:
    """As ``parse``, for a server: a text that would keep it busy for long, and all others waiting, is refused."""
    if len(text) > TEXT_LIMIT:
        raise NotJson(f"longer than {TEXT_LIMIT} bytes")
    text = _decoded(text)
    if text.count("\\") > ESCAPES_LIMIT:
        raise NotJson(f"more than {ESCAPES_LIMIT} backslashes")
    if sum(map(text.count, "[{,:")) <= PIECES_LIMIT:
        return parse(text)
    structure = _structure(text, PIECES_LIMIT)
    if len(structure) > PIECES_LIMIT:
        raise NotJson(f"more than {PIECES_LIMIT} brackets, commas and colons")
    _check_nesting(structure)
    return _parse(text)


def _decoded(text: str | bytes) -> str:
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
    # Above 1e16 pydantic has a plus in the exponent, and a text may hold the like of it.
    return _EXPONENT_OR_STRING.sub(lambda found: found[0] if found[1] is None else b"%se+%s" % found.groups(), text)


def _structure(text: str, most_strings: int | None = None) -> bytes:
    """The brackets, commas and colons outside of strings. With too many strings: some of them, and more than that."""
    # Escapes go first, so that every quote left begins or ends a string.
    plain = text.replace("\\\\", "").replace('\\"', "") if "\\" in text else text
    marks = plain.encode(errors="surrogatepass").translate(None, _NOT_STRUCTURE)
    if most_strings is not None and marks.count(b'"') > 2 * most_strings:
        return marks
    return b"".join(marks.split(b'"')[::2])


def _check_nesting(structure: bytes) -> None:
    """Refuse deep nesting before the parser, which calls itself for every level, sees it."""
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
                raise NotJson(f"the key {ascii(key)[:60]} stands twice")
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
