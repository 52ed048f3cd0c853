"""Infos of n lanes as one dict: each key an array with a row a lane, and ``_key`` a mask of the lanes that have it.

A value never changes on the way in: arrays widen when a lane brings another type, instead of rounding it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_OBJECT = np.dtype(object)
_ROWS_BYTES = 1 << 30
_AXIS = 1 << 40
_NUMBERS = (bool, int, float, np.number, np.bool_)


def add_info(batch: dict[str, Any], info: dict[str, Any], lane: int, num_envs: int) -> dict[str, Any]:
    """Put one lane's info into the batch, and return the batch."""
    for key, value in info.items():
        mask = batch.get(f"_{key}")
        if mask is None:
            mask = np.zeros(num_envs, dtype=np.bool_)
        rows = batch.get(key)
        if isinstance(value, dict) and key != "final_obs" and not isinstance(rows, np.ndarray):
            rows = add_info(rows or {}, value, lane, num_envs)
        else:
            known = _apart(rows, mask) if isinstance(rows, dict) else rows
            rows = _widened(known, value, num_envs, whole=key == "final_obs")
            rows[lane] = value
        mask[lane] = True
        batch[key], batch[f"_{key}"] = rows, mask
    return batch


def _widened(rows: Any, value: Any, num_envs: int, *, whole: bool) -> np.ndarray[Any, Any]:
    """An array that holds what ``rows`` holds and can take ``value`` without changing it, ``whole`` as one object."""
    dtype, shape = (_OBJECT, ()) if whole else _row_type(value)
    if not isinstance(rows, np.ndarray):
        return _empty(num_envs, dtype, shape)
    if rows.dtype == dtype and rows.shape[1:] == shape:
        return rows
    common = _common(rows, value, dtype, shape)
    if common == rows.dtype:
        return rows
    wide = _empty(num_envs, common, rows.shape[1:] if common.kind != "O" else ())
    wide[:] = list(rows) if common.kind == "O" else rows
    return wide


def _row_type(value: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return _OBJECT, ()
    if isinstance(value, _NUMBERS):
        return np.dtype(type(value)), ()
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape
    return _OBJECT, ()


def _common(rows: np.ndarray[Any, Any], value: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.dtype[Any]:
    # True is not 1 and text is not a number: only numbers of one shape share an array.
    if rows.dtype.kind not in "iufc" or dtype.kind not in "iufc" or rows.shape[1:] != shape:
        return _OBJECT
    common = np.result_type(rows.dtype, dtype)
    return common if _fits(rows, common) and _fits(np.asarray(value, dtype), common) else _OBJECT


def _fits(values: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> bool:
    """Whether the values stay what they are; integers past 2**53 are no floats."""
    if values.dtype.kind not in "iu" or dtype.kind not in "fc":
        return True
    with np.errstate(invalid="ignore"):
        return np.array_equal(values.astype(dtype).real.astype(values.dtype), values)


def _apart(rows: dict[str, Any], mask: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A batch of dicts as one object a lane, for a lane that brings something else under the same key."""
    apart = _empty(len(mask), _OBJECT, ())
    for lane in np.flatnonzero(mask).tolist():
        apart[lane] = _of_lane(rows, lane)
    return apart


def _of_lane(rows: dict[str, Any], lane: int) -> dict[str, Any]:
    present = [key for key in rows if f"_{key}" in rows and rows[f"_{key}"][lane]]
    parts = {key: rows[key] for key in present}
    return {key: _of_lane(one, lane) if isinstance(one, dict) else one[lane] for key, one in parts.items()}


def _empty(num_envs: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if (dtype.kind != "O" and num_envs * math.prod(shape) * dtype.itemsize > _ROWS_BYTES) or max(
        shape, default=0
    ) > _AXIS:
        dtype, shape = _OBJECT, ()  # one lane's array may be large; n times that is nobody's wish
    return np.full(num_envs, None, dtype) if dtype.kind == "O" else np.zeros((num_envs, *shape), dtype)
