"""Lists of numbers as arrays and back, exactly: what comes back is the very JSON data that was put aside."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paddock.record.trace.arrays import DTYPES, Array

_INTEGERS = ("|u1", "|i1", "<i2", "<i4", "<i8")


def as_array(data: list[Any], few: int) -> Array | None:
    """An array whose ``tolist`` is ``data``; None for few numbers, or what is no regular list of one kind of them."""
    shape: list[int] = []
    first: Any = data
    while isinstance(first, list) and first:
        shape.append(len(first))
        first = first[0]
    if math.prod(shape) <= few or type(first) not in (bool, int, float) or len(shape) > 32:
        return None
    leaves = data
    for size in shape[1:]:
        if any(type(row) is not list or len(row) != size for row in leaves):
            return None
        leaves = [leaf for row in leaves for leaf in row]
    if set(map(type, leaves)) != {type(first)}:
        return None
    array = _flat(leaves, type(first))
    return None if array is None else array.reshape(shape)


def _flat(leaves: list[Any], kind: type) -> Array | None:
    if kind is bool:
        return np.array(leaves, np.bool_)
    if kind is float:
        wide: Array = np.array(leaves, np.float64)
        with np.errstate(over="ignore"):
            narrow = wide.astype(np.float32)
        return narrow if narrow.astype(np.float64).tobytes() == wide.tobytes() else wide
    low, high = min(leaves), max(leaves)
    for name in _INTEGERS:
        limits = np.iinfo(DTYPES[name])
        if limits.min <= low and high <= limits.max:
            return np.array(leaves, name)
    return None


def as_lists(data: Any) -> Any:
    """``data`` with nested lists for its arrays, and the names that JSON has for infinity."""
    if isinstance(data, np.ndarray):
        listed = data.tolist()
        return listed if data.dtype.kind != "f" or np.isfinite(data).all() else _named(listed)
    if isinstance(data, list):
        return [as_lists(item) for item in data]
    if isinstance(data, dict):
        return {key: as_lists(item) for key, item in data.items()}
    return data


def _named(data: Any) -> Any:
    if isinstance(data, list):
        return [_named(item) for item in data]
    return data if math.isfinite(data) else str(data)
