"""Types of gym3 as spaces, and single values in and out of its batches. Told by their fields: gym3 is not imported."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.errors import CustomSpaceError
from paddock.spaces import Box, Dict, Discrete, MultiDiscrete, Space


def space_of(kind: Any) -> Space[Any]:
    """The space of one lane's values."""
    if _is_dict(kind):
        return Dict({key: space_of(part) for key, part in kind.items()}, sort_keys=False)
    element = getattr(kind, "eltype", None)
    if element is None:
        raise CustomSpaceError(f"{kind!r} has no counterpart in paddock. Expected a TensorType or DictType of gym3.")
    dtype = np.dtype(element.dtype_name)
    if not hasattr(element, "n"):
        return Box(-np.inf, np.inf, kind.shape, dtype)
    if kind.shape == ():
        return Discrete(element.n)
    if len(kind.shape) == 1:
        return MultiDiscrete(np.full(kind.shape, element.n), dtype=dtype)
    return Box(0, element.n - 1, kind.shape, dtype)  # pictures


def first_of(batch: Any) -> Any:
    """The value of lane 0, arrays as views."""
    if isinstance(batch, dict):
        return {key: first_of(part) for key, part in batch.items()}
    if batch.ndim > 1:
        return batch[0]
    return np.int64(batch[0]) if batch.dtype.kind in "iu" else batch[:1].reshape(())


def batch_of(kind: Any, value: Any) -> Any:
    """One value as a batch of one, with the type's own dtype."""
    if _is_dict(kind):
        return {key: batch_of(part, value[key]) for key, part in kind.items()}
    return np.asarray(value, kind.eltype.dtype_name)[None]


def rows_of(kind: Any, values: Any) -> Any:
    """A batch of numbers with the type's own dtype; ValueError if one of them would change."""
    if _is_dict(kind):
        return {key: rows_of(part, values[key]) for key, part in kind.items()}
    given = np.asarray(values)
    rows = given.astype(kind.eltype.dtype_name, casting="same_kind")
    if rows.dtype.kind != "f" and not np.array_equal(rows, given):
        raise ValueError(f"{given!r} does not fit {rows.dtype}")
    return rows


def _is_dict(kind: Any) -> bool:
    return hasattr(kind, "items")
