"""Infos as a list with a dict a lane, instead of a dict with a row a lane. Put it outermost: wrappers read the dict."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np

from paddock.core.env import Info
from paddock.core.vector_env import VectorEnv
from paddock.core.vector_wrapper import VectorWrapper

Array = np.ndarray[Any, Any]


class DictInfoToList(VectorWrapper[Any, Any, Any, Any, Any]):
    """``reset`` and ``step`` return a list of infos: what each lane's single environment would have told.

    >>> info_list({"k": np.array([None, "yes"], object), "_k": np.array([False, True])}, 2)
    [{}, {'k': 'yes'}]
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, list[Info]]:  # type: ignore[override]
        observations, infos = self.env.reset(seed=seed, options=options)
        return observations, info_list(infos, self.num_envs)

    def _on_the_way_out(self, result: Any) -> Any:
        return *result[:4], info_list(result[4], self.num_envs)


def info_list(infos: Info, num_envs: int) -> list[Info]:
    """A dict for each lane, with the keys whose mask has it; a key without a mask is every lane's."""
    return _infos_of(infos, None, num_envs)


def _infos_of(infos: Info, lanes: Array | None, count: int) -> list[Info]:
    """The infos of these lanes (None: of all), ``count`` of them."""
    common: dict[str, Any] = {}
    partial: list[tuple[str, list[int], Any]] = []
    for key, rows in infos.items():
        if key.startswith("_"):
            continue
        mask = infos.get(f"_{key}")
        having = None if mask is None else mask if lanes is None else mask[lanes]
        if having is None or having.all():
            common[key] = _values_of(rows, lanes, count)
        elif having.any():
            places = having.nonzero()[0]
            those = places if lanes is None else lanes[places]
            partial.append((key, places.tolist(), _values_of(rows, those, len(places))))
    found: list[Info] = [] if common else [{} for _ in repeat(None, count)]
    for key, values in common.items():
        if not found:  # the first key makes the dicts: two thirds of the time of filling empty ones
            found = [{key: value} for value in values]
            continue
        for info, value in zip(found, values, strict=False):
            info[key] = value
    for key, places, values in partial:
        for place, value in zip(places, values, strict=True):
            found[place][key] = value
    return found


def _values_of(rows: Any, lanes: Array | None, count: int) -> Any:
    if isinstance(rows, dict):
        return _infos_of(rows, lanes, count)
    return rows if lanes is None else rows[lanes]
