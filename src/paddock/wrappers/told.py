"""Infos that a logic adds, and infos of some lanes. In a batch, ``key`` has a row a lane and ``_key`` is its mask."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from paddock.core.env import Info
from paddock.core.infos import add_info

Array = np.ndarray[Any, Any]
_OBJECT = np.dtype(object)


class Told(dict[str, Any]):
    """The info that a logic adds to in its form for n lanes."""

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs

    def tell(self, lanes: Array, info: Info) -> None:
        """Add what is to be told of these lanes, by number: each value has a row for each of them, and dicts nest.

        A dict has one mask, as in Gymnasium's vector wrappers; what is in it has none of its own.
        """
        for key in info:
            self.setdefault("_" + key, np.zeros(self.num_envs, np.bool_))[lanes] = True
        _tell(self, lanes, self.num_envs, info)


def _tell(told: Info, lanes: Array, num_envs: int, info: Info) -> None:
    for key, rows in info.items():
        if isinstance(rows, dict):
            _tell(told.setdefault(key, {}), lanes, num_envs, rows)
            continue
        if key not in told:
            told[key] = _empty(num_envs, np.asarray(rows))
        told[key][lanes] = rows


def _empty(num_envs: int, like: Array) -> Array:
    """A row a lane, as these rows are, with None or zeros."""
    if like.dtype is _OBJECT:
        return np.full(num_envs, None, object)
    return np.zeros(num_envs if like.ndim == 1 else (num_envs, *like.shape[1:]), like.dtype)


def info_of(infos: Info, lane: int) -> Info:
    """One lane's part of a batch of infos, as its single environment told it."""
    found: Info = {}
    for key, rows in infos.items():
        mask = infos.get(f"_{key}")
        if (mask is None and key.startswith("_")) or (mask is not None and not mask[lane]):
            continue
        found[key] = info_of(rows, lane) if isinstance(rows, dict) else rows[lane]
    return found


def joined(infos: Info, others: Info, lanes: Array) -> Info:
    """``infos``, and of the lanes in this mask what ``others`` has; neither is changed."""
    others = only(others, lanes)
    if infos.keys().isdisjoint(others):
        return {**infos, **others}
    result = deepcopy(infos)
    for lane in np.flatnonzero(lanes).tolist():
        add_info(result, info_of(others, lane), lane, len(lanes))
    return result


def only(infos: Info, lanes: Array) -> Info:
    """The infos of the lanes in this mask alone; keys that none of them has are left out."""
    found: Info = {}
    for key, rows in infos.items():
        mask = infos.get(f"_{key}")
        if mask is None:
            if not key.startswith("_"):
                found[key] = _only(rows, lanes)
        elif (mask & lanes).any():
            found[key], found[f"_{key}"] = _only(rows, lanes), mask & lanes
    return found


def _only(rows: Any, lanes: Array) -> Any:
    if isinstance(rows, dict):
        return only(rows, lanes)
    kept = np.full(len(rows), None, object) if rows.dtype == object else np.zeros_like(rows)
    kept[lanes] = rows[lanes]
    return kept
