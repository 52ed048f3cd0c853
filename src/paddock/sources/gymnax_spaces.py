"""Spaces of gymnax as ours, told by their fields; and values of JAX as NumPy's.

The dtype of an observation is that of the value: several environments name another one in their spaces.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.errors import CustomSpaceError
from paddock.spaces import Box, Dict, Discrete, Space, Tuple


def space_of(space: Any, like: Any = None) -> Space[Any]:
    """Our space with the same members; ``like`` is a value of it, or its shape and dtype."""
    inner = getattr(space, "spaces", None)
    if isinstance(inner, dict):
        parts = {key: space_of(part, None if like is None else _part(like, key)) for key, part in inner.items()}
        return Dict(parts, sort_keys=False)
    if inner is not None:
        return Tuple([space_of(part, None if like is None else like[at]) for at, part in enumerate(inner)])
    if hasattr(space, "n"):
        return Discrete(int(space.n))
    if not (hasattr(space, "low") and hasattr(space, "dtype")):
        raise CustomSpaceError(f"{type(space).__name__} has no counterpart in paddock. Build it from gymnax's spaces.")
    dtype = np.dtype(space.dtype if like is None else like.dtype)
    low, high = (np.broadcast_to(np.asarray(bound, dtype), space.shape) for bound in (space.low, space.high))
    if dtype.kind == "f":  # the largest number stands for "no bound" there
        largest = np.finfo(dtype).max
        low, high = np.where(low <= -largest, -np.inf, low), np.where(high >= largest, np.inf, high)
    return Box(low, high, space.shape, dtype)


def to_numpy(space: Space[Any], value: Any) -> Any:
    """An observation in NumPy's arrays; on the CPU they share JAX's memory and are read-only."""
    match space:
        case Dict():
            return {key: to_numpy(part, _part(value, key)) for key, part in space.spaces.items()}
        case Tuple():
            return tuple(to_numpy(part, one) for part, one in zip(space.spaces, value, strict=True))
        case Discrete():
            return np.int64(value)
    return np.asarray(value)


def plain(value: Any) -> Any:
    """An info's value without JAX: numbers as Python's, arrays as NumPy's."""
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if not hasattr(value, "dtype"):
        return value
    array = np.asarray(value)
    return array if array.ndim else array.item()


def _part(value: Any, key: str) -> Any:
    return value[key] if isinstance(value, dict) else getattr(value, key)
