"""Read JSON text from strangers. Sizes are checked before anything is built, so refusing costs little time and memory.

Stricter than ``json.loads``: NaN and Infinity, numbers too large for a float, and repeated keys are refused.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from paddock.errors import InvalidSpace

TEXT_LIMIT_BYTES = 16 * 2**20
# A space of the largest allowed number of nodes needs fewer brackets than this, and nests less deep.
BRACKET_LIMIT = 40_000
NESTING_LIMIT = 128

_STRINGS = re.compile(r'"[^"]*"?')
_NOT_BRACKETS = re.compile(r"[^][{}]+")


class Repeated(dict[str, Any]):
    """An object in which a key stood twice. Kept, so that the reader can say where it is."""

    key = ""


def parse(text: str | bytes) -> Any:
    """The data in ``text``, or InvalidSpace."""
    if not isinstance(text, (str, bytes, bytearray, memoryview)):
        raise InvalidSpace(f"$: the JSON form of a space is str or bytes, got {type(text).__name__}")
    if len(text) > TEXT_LIMIT_BYTES:
        raise InvalidSpace(f"$: the text is longer than {TEXT_LIMIT_BYTES} bytes")
    try:
        plain = text if isinstance(text, str) else str(text, "utf-8")
        plain.encode()  # a lone surrogate is no Unicode text
    except UnicodeError as error:
        raise InvalidSpace(f"$: the text is not UTF-8: {error.reason} at {error.start}") from None  # type: ignore
    _check_nesting(plain)
    try:
        return json.loads(plain, object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)
    except InvalidSpace:
        raise
    except json.JSONDecodeError as error:
        raise InvalidSpace(f"$: the text is not JSON: {error.msg} at character {error.pos}") from None
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits
        raise InvalidSpace(f"$: the text is not acceptable JSON: {error}") from None


def _check_nesting(text: str) -> None:
    if text.count("[") + text.count("{") > BRACKET_LIMIT:
        raise InvalidSpace(f"$: the text has more than {BRACKET_LIMIT} lists and objects")
    depth = 0
    # Escapes go first, so that every quote left begins or ends a string; one pattern for both would need much memory.
    unescaped = text.replace("\\\\", "").replace('\\"', "")
    for bracket in _NOT_BRACKETS.sub("", _STRINGS.sub("", unescaped)):
        depth += 1 if bracket in "[{" else -1
        if depth > NESTING_LIMIT:
            raise InvalidSpace(f"$: the text is nested deeper than {NESTING_LIMIT} levels")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    repeated = Repeated(found)
    keys = [key for key, _ in pairs]
    repeated.key = next(key for key in keys if keys.count(key) > 1)
    return repeated


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise InvalidSpace(f'$: the number {digits[:40]} is too large for a float; infinity is the string "inf"')
    return value


def _constant(name: str) -> NoReturn:
    raise InvalidSpace(f'$: {name} is not JSON; infinity is the string "inf" or "-inf"')
