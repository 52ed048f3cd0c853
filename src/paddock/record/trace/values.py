"""Values as the JSON of a trace: members of a space in its JSON form, all else as data with a few tags.

Tags are objects of one key that begins with ``$``; ``docs/traces.md`` lists them. An object of a model's own that has
such a key is itself written under a tag, so nothing that an agent says can be taken for one.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from paddock.core.problem import kind
from paddock.errors import CustomSpaceError, InvalidSpace, InvalidTrace, InvalidValue
from paddock.record.trace.arrays import DTYPES, Array, size_of, storable
from paddock.record.trace.number_lists import as_array, as_lists
from paddock.spaces import Box, Dict, MultiBinary, MultiDiscrete, Space, Tuple
from paddock.spaces.json_value import check_keys, decode, encode
from paddock.spaces.records.fields import is_record, open_up

FEW = 16  # numbers that stand in the line itself
MAX_DEPTH = 64
_NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_ARRAY_SPACES = (Box, MultiDiscrete, MultiBinary)

Keep: TypeAlias = Callable[[Array], Any]  # puts an array aside; what stands in the line for it
Fetch: TypeAlias = Callable[[Any], Array]


@dataclass(frozen=True)
class Outside:
    """A value that was no member of the space that the environment declares for it."""

    value: Any


@dataclass(frozen=True)
class Dropped:
    """An info that has no form in a trace: ``kind`` is its type."""

    kind: str


def member_form(space: Space[Any] | None, value: Any, keep: Keep, name: str) -> Any:
    """``value`` in its space's JSON form; what is no member is data under a tag, so that a trace shows it too."""
    if space is None:
        return free_form(value, keep, name)
    try:
        if space.contains(value):
            return _form(space, value, keep)
    except (InvalidSpace, CustomSpaceError):  # keys that are no text, numbers beyond float64, a class of one's own
        pass
    return {"$outside": free_form(value, keep, name)}


def _form(space: Space[Any], value: Any, keep: Keep) -> Any:
    if isinstance(space, _ARRAY_SPACES):
        array = storable(np.asarray(value, space.dtype))
        return encode(space, value) if array is None or array.size <= FEW else keep(array)
    if type(space) is Tuple:
        return [_form(part, item, keep) for part, item in zip(space.spaces, value, strict=True)]
    if type(space) is Dict:
        check_keys(space)
        return _object({key: _form(part, value[key], keep) for key, part in space.spaces.items()})
    return _aside(encode(space, value), keep)


def _aside(data: Any, keep: Keep) -> Any:
    """JSON data in which long lists of numbers are put aside."""
    if isinstance(data, list):
        array = as_array(data, FEW)
        return [_aside(item, keep) for item in data] if array is None else keep(array)
    if isinstance(data, dict):
        return _object({key: _aside(item, keep) for key, item in data.items()})
    return data


def _object(items: dict[str, Any]) -> dict[str, Any]:
    """``items``, or the tag for an object with a key that could be taken for one."""
    return {"$dict": [[key, item] for key, item in items.items()]} if any(k[:1] == "$" for k in items) else items


def free_form(value: Any, keep: Keep, name: str, *, drop: bool = False, depth: int = 0) -> Any:
    """Any value as data: a tuple as a list, a record as its fields. What has no form is dropped, or an InvalidTrace."""
    if value is None or isinstance(value, (bool, str)):
        return str.__str__(value) if isinstance(value, str) else value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": str(float(value))}
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if depth > MAX_DEPTH:
        return _no_form(value, f"{name[:80]} is nested deeper than {MAX_DEPTH}", drop)
    if isinstance(value, dict):
        items = [
            (key, free_form(item, keep, f"{name}[{key!r:.40}]", drop=drop, depth=depth + 1))
            for key, item in value.items()
        ]
        if all(isinstance(key, str) and key[:1] != "$" for key, _ in items):
            return {str.__str__(key): item for key, item in items}
        return {
            "$dict": [
                [free_form(key, keep, f"a key of {name}", drop=drop, depth=depth + 1), item] for key, item in items
            ]
        }
    if isinstance(value, (list, tuple)):
        return [free_form(item, keep, f"{name}[{i}]", drop=drop, depth=depth + 1) for i, item in enumerate(value)]
    return _rarer_form(value, keep, name, drop=drop, depth=depth)


def _rarer_form(value: Any, keep: Keep, name: str, *, drop: bool, depth: int) -> Any:
    if isinstance(value, np.generic) and value.dtype.kind in "biufU" and value.dtype.char != "g":
        return free_form(value.item(), keep, name, drop=drop, depth=depth + 1)
    if isinstance(value, (np.ndarray, np.generic)):
        array = storable(np.asarray(value))
        if array is not None:
            return keep(array) if array.size > FEW else {"$array": _written_out(array)}
        if value.dtype.kind == "U":
            return value.tolist()
    elif isinstance(value, Dropped):  # of a trace that is written again
        return {"$dropped": value.kind}
    elif is_record(type(value)):
        try:
            return free_form(open_up(value), keep, name, drop=drop, depth=depth + 1)
        except InvalidValue:
            pass
    return _no_form(value, f"{name} is {kind(value)}, which has no form in a trace", drop)


def _no_form(value: Any, why: str, drop: bool) -> dict[str, Any]:
    if not drop:
        raise InvalidTrace(f"{why}. Expected numbers, text, bytes, arrays, records, lists and dicts.")
    return {"$dropped": f"{type(value).__module__}.{type(value).__qualname__}"[:200]}


def _written_out(array: Array) -> dict[str, Any]:
    flat = array.reshape(-1)
    if array.dtype.kind == "c":
        flat = flat.view(f"<f{array.dtype.itemsize // 2}")
    data = [item if not isinstance(item, float) or math.isfinite(item) else str(item) for item in flat.tolist()]
    return {"dtype": array.dtype.str, "shape": list(array.shape), "data": data}


def unfold(data: Any, fetch: Fetch, depth: int = 0) -> Any:
    """The data of a line with its tags made values; a ValueError for a tag that is none."""
    if depth > 2 * MAX_DEPTH:
        raise ValueError(f"nested deeper than {2 * MAX_DEPTH}")
    if isinstance(data, list):
        return [unfold(item, fetch, depth + 1) for item in data]
    if not isinstance(data, dict):
        return data
    tag = next((key for key in data if key[:1] == "$"), None)
    if tag is None:
        return {key: unfold(item, fetch, depth + 1) for key, item in data.items()}
    if len(data) != 1 or tag not in _TAGS:
        raise ValueError(f"the tag {tag[:40]!r} is none of a trace")
    try:
        return _TAGS[tag](data[tag], fetch, depth + 1)
    except (TypeError, KeyError, OverflowError, binascii.Error):
        raise ValueError(f"the tag {tag} has a content that is none of its own") from None


def _unfold_array(content: Any, fetch: Fetch, depth: int) -> Array:
    if isinstance(content, list):
        return fetch(content)
    dtype, shape, data = content["dtype"], content["shape"], content["data"]
    size = size_of(dtype, shape)
    parts = 2 if dtype[1] == "c" else 1
    if len(content) != 3 or type(data) is not list or len(data) * DTYPES[dtype].itemsize != size * parts:
        raise TypeError
    kinds: tuple[type, ...] = {"b": (bool,), "f": (int, float, str), "c": (int, float, str)}.get(dtype[1], (int,))
    if any(type(number) not in kinds for number in data):
        raise TypeError
    numbers = [_NOT_FINITE[number] if isinstance(number, str) else number for number in data]
    flat = f"<f{DTYPES[dtype].itemsize // 2}" if parts == 2 else dtype
    if dtype[1] in "iu" and numbers:
        limits = np.iinfo(dtype)
        if not limits.min <= min(numbers) <= max(numbers) <= limits.max:
            raise OverflowError
    with np.errstate(over="ignore"):
        array: Array = np.array(numbers, flat).view(DTYPES[dtype]).reshape(shape)
    return array


def _unfold_dict(content: Any, fetch: Fetch, depth: int) -> dict[Any, Any]:
    pairs = [(unfold(key, fetch, depth), unfold(item, fetch, depth)) for key, item in content]
    found = {tuple(key) if isinstance(key, list) else key: item for key, item in pairs}
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one $dict")
    return found


def _unfold_bytes(content: Any, fetch: Fetch, depth: int) -> bytes:
    return base64.b64decode(content, validate=True)


def _unfold_dropped(content: Any, fetch: Fetch, depth: int) -> Dropped:
    if not isinstance(content, str):
        raise TypeError
    return Dropped(content)


_TAGS: dict[str, Callable[[Any, Fetch, int], Any]] = {
    "$array": _unfold_array,
    "$float": lambda content, fetch, depth: _NOT_FINITE[content],
    "$bytes": _unfold_bytes,
    "$dict": _unfold_dict,
    "$outside": lambda content, fetch, depth: Outside(unfold(content, fetch, depth)),
    "$dropped": _unfold_dropped,
}


def member(space: Space[Any] | None, data: Any) -> Any:
    """The member of ``space`` that unfolded data describes; InvalidSpace, with the place, where it describes none."""
    if isinstance(data, Outside):
        return data.value
    return data if space is None else _member(space, data, "$")


def _member(space: Space[Any], data: Any, path: str) -> Any:
    if isinstance(space, _ARRAY_SPACES) and isinstance(data, np.ndarray):
        if data.dtype != space.dtype or not space.contains(data):
            raise InvalidSpace(f"{path}: an array of {data.dtype} and shape {data.shape} is not in {space!r:.200}")
        return data
    if type(space) is Tuple and isinstance(data, list) and len(data) == len(space.spaces):
        return tuple(
            _member(part, item, f"{path}[{i}]") for i, (part, item) in enumerate(zip(space.spaces, data, strict=True))
        )
    if type(space) is Dict and isinstance(data, dict) and data.keys() == space.spaces.keys():
        return {key: _member(part, data[key], f"{path}.{key}") for key, part in space.spaces.items()}
    return decode(space, as_lists(data), path)
