"""Arguments of environments and wrappers as JSON and back: plain data, and arrays, dtypes and infinity under a tag.

No tag names code. A tuple comes back as a list, as in Gymnasium's JSON; ``same_arguments`` takes both for the same.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paddock.core.problem import kind
from paddock.errors import InvalidSpec
from paddock.spaces.json_form import NUMBERS

MAX_DEPTH = 32
MAX_KEY_LENGTH = 256
_ARRAY, _DTYPE, _FLOAT = "$array", "$dtype", "$float"
_NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def to_plain(value: Any, path: str, depth: int = 0) -> Any:
    """The value as JSON's types; what has no such form is an InvalidSpec that names its path."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (dict, list, tuple)):
        return _each(to_plain, value, path, depth)
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT: str(value)}
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, np.ndarray) and value.dtype.name in NUMBERS:
        numbers = [to_plain(number, path) for number in value.reshape(-1).tolist()]
        flat = [number[_FLOAT] if isinstance(number, dict) else number for number in numbers]
        return {_ARRAY: {"dtype": value.dtype.name, "shape": list(value.shape), "data": flat}}
    if (name := _dtype_name(value)) is not None:
        return {_DTYPE: name}
    if callable(value):
        raise InvalidSpec(f"Callable found in {path}: {value!r}. A spec with JSON names code as 'module:attribute'.")
    raise InvalidSpec(f"{path} is {kind(value)}, which JSON can't hold. Use plain data.")


def from_plain(value: Any, path: str, depth: int = 0) -> Any:
    """What ``to_plain`` wrote; anything else under a tag is an InvalidSpec."""
    if not isinstance(value, dict) or not any(key.startswith("$") for key in value):
        return _each(from_plain, value, path, depth) if isinstance(value, (dict, list)) else value
    ((tag, content), *more) = value.items()
    reader = _READERS.get(tag)
    try:
        if reader is None or more:
            raise ValueError
        return reader(content)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InvalidSpec(f"{path[:80]} has the tag {tag[:40]!r} with a content that is none of its own.") from None


def _each(rule: Any, value: Any, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise InvalidSpec(f"{path[:80]} is nested deeper than {MAX_DEPTH}.")
    if not isinstance(value, dict):
        return [rule(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
    for key in value:
        if not isinstance(key, str):
            raise InvalidSpec(f"{path} has the key {key!r}; JSON keys are text.")
        if len(key) > MAX_KEY_LENGTH:  # also bounds the path that is built for each item below
            raise InvalidSpec(f"{path} has a key of {len(key)} characters; at most {MAX_KEY_LENGTH} are read.")
        if key.startswith("$"):
            raise InvalidSpec(f"{path} has the key {key!r}; those that begin with $ are tags of the JSON itself.")
    return {key: rule(item, f"{path}.{key}", depth + 1) for key, item in value.items()}


def _dtype_name(value: Any) -> str | None:
    number_class = value in (bool, int, float) or (isinstance(value, type) and issubclass(value, np.generic))
    if not number_class and not isinstance(value, np.dtype):
        return None
    name = np.dtype(value).name
    return name if name in NUMBERS else None


def _read_array(content: Any) -> np.ndarray[Any, Any]:
    dtype = _read_dtype(content["dtype"])
    shape, data = content["shape"], content["data"]
    if len(content) != 3 or type(data) is not list or any(type(size) is not int or size < 0 for size in shape):
        raise TypeError
    if len(data) != math.prod(shape):
        raise ValueError
    kinds: tuple[type, ...] = {"b": (bool,), "f": (int, float, str)}.get(dtype.kind, (int,))
    if any(type(number) not in kinds for number in data):
        raise TypeError
    numbers = [_NOT_FINITE[number] if isinstance(number, str) else number for number in data]
    if (
        dtype.kind in "iu"
        and numbers
        and not np.iinfo(dtype).min <= min(numbers) <= max(numbers) <= np.iinfo(dtype).max
    ):
        raise OverflowError
    with np.errstate(over="ignore"):
        array: np.ndarray[Any, Any] = np.array(numbers, dtype).reshape(shape)
    return array


def _range(dtype: np.dtype[Any]) -> range:
    return range(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max) + 1)


def _read_dtype(content: Any) -> np.dtype[Any]:
    if content not in NUMBERS:
        raise ValueError
    dtype: np.dtype[Any] = np.dtype(content)
    return dtype


_READERS = {_ARRAY: _read_array, _DTYPE: _read_dtype, _FLOAT: _NOT_FINITE.__getitem__}


def same_arguments(one: Any, other: Any) -> bool:
    """Whether two values are the same data; a tuple and a list are, two arrays by dtype, shape and numbers."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return (
            isinstance(one, np.ndarray)
            and isinstance(other, np.ndarray)
            and one.dtype == other.dtype
            and one.shape == other.shape
            and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_arguments(one[key], other[key]) for key in one)
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        return len(one) == len(other) and all(map(same_arguments, one, other))
    return bool(one == other) or (one != one and other != other)  # the second: both are nan
