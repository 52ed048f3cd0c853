"""Infos of lanes as Gymnasium batches them: a key's array, and ``_key`` with the lanes that have it."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.kernels.lanes import Lanes

Array = np.ndarray[Any, Any]


def lane_infos(lanes: Lanes, mask: Array) -> dict[str, Any]:
    """What ``info`` told, of the lanes in ``mask``."""
    return _masked({c.name: lanes.columns[f"info_{c.name}"] for c in lanes.layout.info}, mask)


def episode_info(lanes: Lanes, over: Array) -> dict[str, Any]:
    """Return and length of the episodes that ended in this step."""
    columns = lanes.columns
    inner = _masked({"r": columns["last_return"], "l": columns["last_length"]}, over)
    return {"episode": inner, "_episode": over}


def final_info(lanes: Lanes, over: Array, episode: dict[str, Any], *, tuple_valued: bool) -> dict[str, Any]:
    """The last observation and info of the lanes that ended and have begun anew."""
    # Hot where episodes are short: the rows of all lanes that ended are copied at once.
    parts = [_rows(lanes.columns[f"final_obs_{at}"][over]) for at in range(len(lanes.layout.observation))]
    last = np.empty(lanes.count, dtype=object)
    rows = zip(*parts, strict=True) if tuple_valued else parts[0]
    for lane, row in zip(over.nonzero()[0].tolist(), rows, strict=True):
        last[lane] = row
    inner = _masked({c.name: lanes.columns[f"final_info_{c.name}"] for c in lanes.layout.info}, over)
    return {"final_obs": last, "_final_obs": over, "final_info": {**inner, **episode}, "_final_info": over.copy()}


def _rows(part: Array) -> list[Any]:
    return list(part) if part.ndim > 1 else part.tolist()


def _masked(columns: dict[str, Array], mask: Array) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if not columns:
        return found
    everywhere = mask.all()
    for name, column in columns.items():
        rows = column.copy()
        if not everywhere:
            rows[~mask] = 0
        found[name], found[f"_{name}"] = rows, mask.copy()
    return found
