"""Values of n lanes as arrays with one row per lane, nested like their space. Only spaces of fixed size have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from paddock.spaces import Dict, Space, Tuple
from paddock.spaces.space import ArraySpace

Layout: TypeAlias = "dict[str, Any] | None"


def layout(space: Space[Any]) -> Layout:
    """The memory layout of one value, as data; None if the space does not fix its size.

    {"array": [dtype, shape]}, {"tuple": [layout, …]} or {"dict": {key: layout, …}}.
    """
    if isinstance(space, Dict):
        parts = {key: layout(part) for key, part in space.spaces.items()}
        return None if None in parts.values() else {"dict": parts}
    if isinstance(space, Tuple):
        members = [layout(part) for part in space.spaces]
        return None if None in members else {"tuple": members}
    if isinstance(space, ArraySpace):
        return {"array": [np.dtype(space.dtype).str, list(space.shape)]}
    return None


def from_layout(form: Layout, array: Callable[[np.dtype[Any], tuple[int, ...]], Any]) -> Any:
    """The nesting that a layout describes, with ``array(dtype, shape of one value)`` as leaves; None for None."""
    if form is None:
        return None
    ((kind, content),) = form.items()
    if kind == "dict":
        return {key: from_layout(part, array) for key, part in content.items()}
    if kind == "tuple":
        return tuple(from_layout(part, array) for part in content)
    dtype, shape = content
    return array(np.dtype(dtype), tuple(shape))


def empty(space: Space[Any], count: int) -> Any:
    """Zeros for ``count`` values of this space, or None if its size is not fixed."""
    return from_layout(layout(space), lambda dtype, shape: np.zeros((count, *shape), dtype))


def fill(rows: Any, batch: Any, part: slice, count: int) -> bool:
    """Copy ``batch[part]``, of ``count`` lanes, into all of ``rows``; False unless each leaf has the very dtype.

    A cast would change the action that the environment sees, so another dtype is sent in the frame.
    """
    if isinstance(rows, np.ndarray):
        if type(batch) is not np.ndarray or batch.dtype != rows.dtype or batch.shape != (count, *rows.shape[1:]):
            return False
        rows[:] = batch[part]
        return True
    if isinstance(rows, dict):
        return isinstance(batch, dict) and all(
            key in batch and fill(rows[key], batch[key], part, count) for key in rows
        )
    alike = isinstance(batch, tuple) and len(batch) == len(rows)
    return alike and all(fill(one, other, part, count) for one, other in zip(rows, batch, strict=True))


def put_exactly(rows: Any, row: int, value: Any) -> bool:
    """Write one lane's value if it has the very nesting, dtypes and shapes of the rows, else return False."""
    if isinstance(rows, np.ndarray):
        exact = isinstance(value, (np.ndarray, np.generic)) and value.dtype == rows.dtype
        if not exact or value.shape != rows.shape[1:] or (rows.ndim == 1 and type(value) is np.ndarray):
            return False
        rows[row] = value
        return True
    if isinstance(rows, dict):
        alike = type(value) is dict and list(value) == list(rows)
        return alike and all(put_exactly(one, row, value[key]) for key, one in rows.items())
    alike = type(value) is tuple and len(value) == len(rows)
    return alike and all(put_exactly(one, row, part) for one, part in zip(rows, value, strict=True))


def take_row(rows: Any, row: int) -> Any:
    """One lane's value, as a copy."""
    if isinstance(rows, np.ndarray):
        return rows[row] if rows.ndim == 1 else rows[row].copy()
    return each(lambda one: take_row(one, row), rows)


def put(rows: Any, row: int, value: Any) -> None:
    """Write one lane's value; ValueError, TypeError or KeyError if it does not fit."""
    if isinstance(rows, dict):
        for key, one in rows.items():
            put(one, row, value[key])
    elif isinstance(rows, tuple):
        for one, part in zip(rows, value, strict=True):
            put(one, row, part)
    elif type(value) is np.ndarray and value.dtype == rows.dtype and value.shape == rows.shape[1:]:
        rows[row] = value
    else:
        value = np.asarray(value)
        if value.shape != rows.shape[1:]:
            raise ValueError(f"the observation has shape {value.shape}, its space {rows.shape[1:]}.")
        np.copyto(rows[row, ...], value, casting="same_kind")


def each(function: Callable[..., Any], rows: Any, *others: Any) -> Any:
    """``function`` of each array, in the same nesting; ``others`` are nested alike."""
    if isinstance(rows, dict):
        return {key: each(function, one, *(other[key] for other in others)) for key, one in rows.items()}
    if isinstance(rows, tuple):
        return tuple(each(function, *parts) for parts in zip(rows, *others, strict=True))
    return function(rows, *others)
