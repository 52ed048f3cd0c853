"""Specs of dm_env as spaces. A number alone is an array without axes there, and so it is here, if not a choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from paddock.errors import CustomSpaceError
from paddock.spaces import Box, Dict, Discrete, Space, Tuple


def space_of(spec: Any) -> Space[Any]:
    """The space of what a spec, or a nest of specs, describes. Told by their fields: dm_env need not be imported."""
    if isinstance(spec, Mapping):
        return Dict({key: space_of(part) for key, part in spec.items()}, sort_keys=False)
    if isinstance(spec, (list, tuple)):
        return Tuple([space_of(part) for part in spec])
    if hasattr(spec, "num_values"):
        return Discrete(int(spec.num_values))
    kind = getattr(getattr(spec, "dtype", None), "kind", "")
    if kind not in "iufb" or not kind:
        raise CustomSpaceError(
            f"{spec!r} has no counterpart in paddock. Expected arrays of numbers, or dicts and lists of them."
        )
    low, high = _bounds(spec)
    return Box(low, high, spec.shape, spec.dtype)


def needs_arrays(space: Space[Any]) -> bool:
    """Whether values may come as numbers or lists where the space has arrays without axes or tuples."""
    if isinstance(space, Dict):
        return any(map(needs_arrays, space.spaces.values()))
    return isinstance(space, (Tuple, Discrete)) or (isinstance(space, Box) and space.shape == ())


def as_arrays(space: Space[Any], value: Any) -> Any:
    """The value with arrays and tuples in those places."""
    match space:
        case Dict():
            return {key: as_arrays(part, value[key]) for key, part in space.spaces.items()}
        case Tuple():
            return tuple(as_arrays(part, one) for part, one in zip(space.spaces, value, strict=True))
        case Discrete():
            return np.int64(value)
        case Box(shape=()):
            return np.asarray(value, space.dtype)
    return value


def _bounds(spec: Any) -> tuple[Any, Any]:
    if hasattr(spec, "minimum"):
        return np.broadcast_to(spec.minimum, spec.shape), np.broadcast_to(spec.maximum, spec.shape)
    if spec.dtype.kind == "f":
        return -np.inf, np.inf
    if spec.dtype.kind == "b":
        return 0, 1
    range = np.iinfo(spec.dtype)
    return range.min, range.max
