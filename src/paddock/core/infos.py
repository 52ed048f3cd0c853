"""Infos of n lanes as one dict: each key an array with a row a lane, and ``_key`` a mask of the lanes that have it.

A value never changes on the way in: arrays widen when a lane brings another type, instead of rounding it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_OBJECT = np.dtype(object)
_NUMBERS = (bool, int, float, np.number, np.bool_)


def add_info(batch: dict[str, Any], info: dict[str, Any], lane: int, num_envs: int) -> dict[str, Any]:
    """Put one lane's info into the batch, and return the batch."""
    for key, value in info.items():
        mask = batch.get(f"_{key}")
        if mask is None:
            mask = np.zeros(num_envs, dtype=np.bool_)
        if isinstance(value, dict):
            rows = batch.get(key)
            rows = add_info(rows if isinstance(rows, dict) else {}, value, lane, num_envs)
        else:
            rows = _widened(batch.get(key), value, num_envs, whole=key == "final_obs")
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
    common = _common(rows, dtype, shape)
    if common == rows.dtype:
        return rows
    wide = _empty(num_envs, common, rows.shape[1:] if common.kind != "O" else ())
    wide[:] = list(rows) if common.kind == "O" else rows
    return wide


def _row_type(value: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    if isinstance(value, _NUMBERS):
        return np.dtype(type(value)), ()
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape
    return _OBJECT, ()


def _common(rows: np.ndarray[Any, Any], dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.dtype[Any]:
    # True is not 1 and text is not a number: only numbers of one shape share an array.
    numeric = rows.dtype.kind in "iufc" and dtype.kind in "iufc"
    return np.result_type(rows.dtype, dtype) if numeric and rows.shape[1:] == shape else _OBJECT


def _empty(num_envs: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.full(num_envs, None, dtype) if dtype.kind == "O" else np.zeros((num_envs, *shape), dtype)
