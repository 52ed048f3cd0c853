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
_SURROGATES = re.compile("[\ud800-\udfff]")
_NOT_STRUCTURE = re.compile(r'[^][{}"]+')
_DROPPED = {code: None for code in range(128) if chr(code) not in '[]{}"'}


class Repeated(dict[str, Any]):
    """An object in which a key stood twice. Kept, so that the reader can say where it is."""

    key = ""


def parse(text: str | bytes, *, object_limit: int) -> Any:
    """The data in ``text``, or InvalidSpace."""
    if not isinstance(text, (str, bytes, bytearray)):
        raise InvalidSpace(f"$: the JSON form of a space is str or bytes, got {type(text).__name__}")
    if len(text) > TEXT_LIMIT_BYTES:
        raise InvalidSpace(f"$: the text is longer than {TEXT_LIMIT_BYTES} bytes")
    opening = ("[", "{") if isinstance(text, str) else (b"[", b"{")
    if sum(map(text.count, opening)) > BRACKET_LIMIT:  # type: ignore[arg-type]
        raise InvalidSpace(f"$: the text has more than {BRACKET_LIMIT} lists and objects")
    plain = _decode(text)
    _check_nesting(plain)
    try:
        return json.loads(
            plain, object_pairs_hook=_Objects(object_limit).read, parse_float=_float, parse_constant=_constant
        )
    except InvalidSpace:
        raise
    except json.JSONDecodeError as error:
        raise InvalidSpace(f"$: the text is not JSON: {error.msg} at character {error.pos}") from None
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits
        raise InvalidSpace(f"$: the text is not acceptable JSON: {error}") from None


def _decode(text: str | bytes | bytearray) -> str:
    if isinstance(text, str):
        lone = None if text.isascii() else _SURROGATES.search(text)
        if lone is None:
            return text
        raise InvalidSpace(f"$: the text is not UTF-8: a lone surrogate at character {lone.start()}")
    try:
        return str(text, "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidSpace(f"$: the text is not UTF-8: {error.reason} at byte {error.start}") from None


def _check_nesting(text: str) -> None:
    """Refuse deep nesting before the parser, which calls itself for every level, sees it."""
    # Escapes go first, so that every quote left begins or ends a string.
    plain = text.replace("\\\\", "").replace('\\"', "") if "\\" in text else text
    structure = plain.translate(_DROPPED) if plain.isascii() else _NOT_STRUCTURE.sub("", plain)
    # Two quotes side by side are an empty string, or two strings with no bracket between: gone, nothing else changes.
    depth = 0
    for bracket in _STRINGS.sub("", structure.replace('""', "")):
        depth += 1 if bracket in "[{" else -1
        if depth > NESTING_LIMIT:
            raise InvalidSpace(f"$: the text is nested deeper than {NESTING_LIMIT} levels")
        if depth < 0:
            return  # no JSON, as the parser will say


class _Objects:
    """Makes the objects of one text, and counts them: too many are noticed before more is built of them."""

    def __init__(self, limit: int) -> None:
        self._left = self._limit = limit

    def read(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        self._left -= 1
        if self._left < 0:
            raise InvalidSpace(f"$: more than {self._limit} spaces")
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        repeated = Repeated(found)
        met: set[str] = set()
        repeated.key = next(key for key, _ in pairs if key in met or met.add(key))  # type: ignore[func-returns-value]
        return repeated


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise InvalidSpace(f'$: the number {digits[:40]} is too large for a float; infinity is the string "inf"')
    return value


def _constant(name: str) -> NoReturn:
    raise InvalidSpace(f'$: {name} is not JSON; infinity is the string "inf" or "-inf"')
