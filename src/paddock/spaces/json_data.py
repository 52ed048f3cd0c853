"""JSON from strangers: the one reader of text, within bounds; and arrays as lists of numbers.

Stricter than ``json.loads``: it refuses NaN, numbers beyond a float, keys that occur twice, deep nesting and text that
is not Unicode. Bounds are checked before anything is built, so refusing costs little time and memory.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

INFINITE = {"inf": math.inf, "-inf": -math.inf}
NOT_FINITE = {**INFINITE, "nan": math.nan}
_A_NUMBER = 'a number, "inf" or "-inf"'

# A text of so many characters is too short for any bound but those on nesting and digits.
_SHORT = 1 << 13
_UNUSUAL: Any = object()
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{},:"'))
_ATOMS = frozenset((str, int, bool, type(None)))
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True)
class JsonLimits:
    """How much one text may hold; None for any number. Two of them count what is in strings too, which is faster."""

    text: int  # bytes, or characters of a str
    nesting: int
    brackets: int | None = None  # that open, those in strings too
    escapes: int | None = None  # backslashes
    pieces: int | None = None  # brackets that open, commas and colons outside of strings
    objects: int | None = None
    digits: int | None = None  # of an integer; None: as many as Python reads
    surrogates: bool = False  # whether text may hold an escaped half of a pair


class NotJson(ValueError):
    """Text that is not JSON, or is not accepted. The message may be sent to a peer; ``path`` is where it happened."""

    def __init__(self, message: str, path: str = "$") -> None:
        super().__init__(message)
        self.path = path


def read_json(text: str | bytes, limits: JsonLimits) -> Any:
    """The data in ``text``, or NotJson."""
    if len(text) > limits.text:
        raise NotJson(f"longer than {limits.text} bytes")
    if not isinstance(text, str):
        try:
            text = str(text, "utf-8")
        except UnicodeDecodeError as error:
            raise NotJson(f"the text is not UTF-8: {error.reason} at byte {error.start}") from None
    if len(text) <= _SHORT and (found := _read_quickly(text, limits)) is not _UNUSUAL:
        return found
    return _read_strictly(text, limits)


def _read_quickly(text: str, limits: JsonLimits) -> Any:
    """The data in a short text that the strict reader takes too; _UNUSUAL for any other. Hot: OpenEnv's steps."""
    if "\\u" in text:  # may be half of a pair
        return _UNUSUAL
    try:
        found = msgspec.json.decode(text)
        # Each pair has one colon, so as many pairs as colons leave no room for a key that occurs twice.
        bits = math.inf if limits.digits is None else 3 * limits.digits
        return found if _count_pairs([found], limits.nesting + 1, bits) == text.count(":") else _UNUSUAL
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _UNUSUAL  # it is for the strict reader to say why


def _count_pairs(data: Any, levels: int, bits: float) -> int:
    """How many pairs the objects in a list or object have; ValueError where the strict reader might refuse it."""
    if not levels:
        raise ValueError
    items, count = (data.values(), len(data)) if type(data) is dict else (data, 0)
    for item in items:
        kind = type(item)
        if kind is dict or kind is list:
            count += _count_pairs(item, levels - 1, bits)
        elif kind is int and item.bit_length() > bits:
            raise ValueError
    return count


def _read_strictly(text: str, limits: JsonLimits) -> Any:
    _check_structure(text, limits)
    if not text.isascii():
        _check_unicode(text, "the text is not UTF-8: it has a lone surrogate")
    repeated: list[tuple[str, dict[str, Any]]] = []

    def read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):  # two readers might take two different ones
            met: set[str] = set()
            key = next(key for key, _ in pairs if key in met or met.add(key))  # type: ignore[func-returns-value]
            repeated.append((key, found))
        return found

    def read_integer(digits: str) -> int:
        if limits.digits is not None and len(digits) > limits.digits:
            raise NotJson(f"an integer of {len(digits)} digits is too large")
        return int(digits)

    try:
        data = json.loads(
            text,
            object_pairs_hook=read_object,
            parse_float=_read_float,
            parse_int=None if limits.digits is None else read_integer,
            parse_constant=_refuse_constant,
        )
    except NotJson:
        raise
    except json.JSONDecodeError as error:
        raise NotJson(f"not JSON: {error}") from None
    except RecursionError:
        raise NotJson("nested too deeply") from None
    except ValueError as error:  # an integer of thousands of digits
        raise NotJson(str(error)) from None
    if repeated:
        key, found = repeated[0]
        raise NotJson(f"the key {ascii(key)[:60]} occurs twice", path_of(found, data, "$") or "$")
    if not limits.surrogates and "\\u" in text and _SURROGATE.search(text) is not None:
        _check_unicode(json.dumps(data, ensure_ascii=False), "a text has a lone surrogate")
    return data


def _check_structure(text: str, limits: JsonLimits) -> None:
    """Refuse what is too large or too deep before the parser, which calls itself for every level, sees it."""
    if limits.escapes is not None and text.count("\\") > limits.escapes:
        raise NotJson(f"more than {limits.escapes} backslashes")
    opening = text.count("[") + text.count("{")
    if limits.brackets is not None and opening > limits.brackets:
        raise NotJson(f"more than {limits.brackets} brackets")
    if (
        opening <= limits.nesting
        and (limits.objects is None or opening <= limits.objects)
        and (limits.pieces is None or opening + text.count(",") + text.count(":") <= limits.pieces)
    ):
        return
    # Escapes go first, so that every quote left begins or ends a string.
    plain = text.replace("\\\\", "").replace('\\"', "") if "\\" in text else text
    marks = plain.encode(errors="surrogatepass").translate(None, _NOT_STRUCTURE)
    strings = marks.count(b'"') // 2
    if limits.pieces is None or strings <= limits.pieces:
        marks = b"".join(marks.split(b'"')[::2])
    brackets = marks.translate(None, b",:")
    if limits.pieces is not None and len(marks) - brackets.count(b"]") - brackets.count(b"}") > limits.pieces:
        raise NotJson(f"more than {limits.pieces} brackets, commas and colons")
    if limits.objects is not None and brackets.count(b"{") > limits.objects:
        raise NotJson(f"more than {limits.objects} objects")
    depth = 0
    for bracket in brackets:
        depth += 1 if bracket in b"[{" else -1
        if depth > limits.nesting:
            raise NotJson(f"nested deeper than {limits.nesting} levels")


def _check_unicode(text: str, problem: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotJson(problem) from None


def _read_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise NotJson(f"the number {digits[:40]} is too large")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not JSON")


def path_of(target: Any, data: Any, path: str) -> str | None:
    """Where ``target`` itself is in ``data``: ``$.spaces[0]``."""
    if data is target:
        return path
    parts = [(f".{key[:40]}", item) for key, item in data.items()] if isinstance(data, dict) else []
    if isinstance(data, list):
        parts = [(f"[{i}]", item) for i, item in enumerate(data)]
    paths = (path_of(target, item, path + place) for place, item in parts)
    return next((found for found in paths if found is not None), None)


def is_json(value: Any, levels: int, *, tagged: bool = False) -> bool:
    """Whether a value is JSON data of at most so many levels. ``tagged``: a key that begins with ``$`` is not. Hot."""
    kind = type(value)
    if kind is dict:
        for key in value:
            if type(key) is not str or (tagged and key[:1] == "$"):
                return False
        value = value.values()
    elif kind is not list:
        return kind in _ATOMS or (kind is float and math.isfinite(value))
    if levels == 0:
        return False
    for item in value:  # noqa: SIM110  # half the time of a generator: each line of a trace asks this
        if type(item) not in _ATOMS and not is_json(item, levels - 1, tagged=tagged):
            return False
    return True


# Numbers. Infinity and NaN, which JSON has not, are the strings "inf", "-inf" and "nan".


class NotANumber(ValueError):
    """The number ``index`` of a list is not what was ``expected``."""

    def __init__(self, index: int, expected: str) -> None:
        super().__init__(f"item {index}: expected {expected}")
        self.index, self.expected = index, expected


def to_numbers(array: NDArray[Any]) -> Any:
    """An array of bools, integers or floats as nested lists."""
    lists = array.tolist()
    return lists if array.dtype.kind != "f" or np.isfinite(array).all() else _name(lists)


def _name(data: Any) -> Any:
    if isinstance(data, list):
        return [_name(item) for item in data]
    return data if math.isfinite(data) else str(data)


def from_numbers(numbers: list[Any], dtype: np.dtype[Any], names: dict[str, float] = NOT_FINITE) -> NDArray[Any]:
    """The flat array of these numbers, exactly, or NotANumber."""
    if dtype.kind != "f":
        kind = bool if dtype.kind == "b" else int
        limits: Any = None if kind is bool else np.iinfo(dtype)
        for i, number in enumerate(numbers):
            if type(number) is not kind or (limits is not None and not limits.min <= number <= limits.max):
                raise NotANumber(i, "true or false" if limits is None else f"an integer of {dtype}")
        return np.array(numbers, dtype)
    floats = numbers
    if not set(map(type, numbers)) <= {float}:
        floats = [_to_float(number, i, names) for i, number in enumerate(numbers)]
    wide: NDArray[Any] = np.array(floats, np.float64)
    with np.errstate(over="ignore"):
        cast = wide.astype(dtype)
    # Infinity has a name. A float that is infinite came from somewhere else, or from a cast.
    for i in map(int, np.flatnonzero(~np.isfinite(cast))):
        if type(numbers[i]) is not str:
            raise NotANumber(i, f"a number of {dtype}" if math.isfinite(wide[i]) else _A_NUMBER)
    return cast


def _to_float(number: Any, index: int, names: dict[str, float]) -> float:
    if type(number) is str and number in names:
        return names[number]
    try:
        if type(number) in (int, float):
            return float(number)
    except OverflowError:  # an integer beyond the floats
        pass
    raise NotANumber(index, _A_NUMBER)
