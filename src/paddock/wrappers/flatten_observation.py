"""FlattenObservation: one flat array of a structured observation, as ``spaces.flatten`` makes it: Discrete is one-hot.

Where one array is not possible (Graph, Sequence) the structure stays and its parts are flat.
"""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from paddock.spaces.flatten import flatten, flatten_space
from paddock.spaces.parts import parts
from paddock.wrappers.fitted import FittedObservation
from paddock.wrappers.transform_observation import TransformObservation

Array = np.ndarray[Any, Any]


class _Flat(FittedObservation):
    boxed: bool  # a Box, the common case
    by_columns: bool  # rows can be flattened all at once


@dataclass(frozen=True)
class Flatten(_Flat):
    """``spaces.flatten`` of an observation."""

    around: InitVar[Space[Any]]

    def __post_init__(self, around: Space[Any]) -> None:
        self._fit(around, flatten_space(around), boxed=type(around) is Box, by_columns=_has_columns(around))

    def one(self, value: Any) -> Any:
        if self.boxed:
            return np.asarray(value, self.given.dtype).flatten()
        return flatten(self.given, value)

    def rows(self, values: Any) -> Any:
        if not self.by_columns:
            return super().rows(values)
        flat = _columns(self.given, values)
        return flat.copy() if self.boxed else flat  # as `flatten` does: the agent may write to what it sees


_WITH_COLUMNS = (Box, MultiBinary, Discrete, MultiDiscrete)


def _has_columns(space: Space[Any]) -> bool:
    if isinstance(space, (Dict, Tuple)):
        return bool(len(space.spaces)) and all(_has_columns(part) for part in parts(space))
    return type(space) in _WITH_COLUMNS


def _columns(space: Space[Any], rows: Any) -> Array:
    """The flat rows: [n, flatdim]."""
    if isinstance(space, Dict):
        return np.concatenate([_columns(part, rows[key]) for key, part in space.spaces.items()], axis=1)
    if isinstance(space, Tuple):
        return np.concatenate([_columns(part, rows[i]) for i, part in enumerate(space.spaces)], axis=1)
    rows = np.asarray(rows, space.dtype)
    if isinstance(space, (Box, MultiBinary)):
        return np.reshape(rows, (len(rows), math.prod(space.shape)))
    if isinstance(space, Discrete):
        return _one_hot(rows[:, None], np.array([space.start]), np.array([space.n]), space)
    assert isinstance(space, MultiDiscrete), "see _WITH_COLUMNS"
    return _one_hot(rows.reshape(len(rows), -1), space.start.reshape(-1), space.nvec.reshape(-1), space)


def _one_hot(rows: Array, start: Array, counts: Array, space: Space[Any]) -> Array:
    # In int64: for small dtypes neither the difference nor the offsets need fit.
    ends = np.cumsum(counts, dtype=np.int64)
    chosen = rows.astype(np.int64) - start.astype(np.int64) + (ends - counts)
    hot = np.zeros((len(rows), int(ends[-1])), space.dtype)
    np.put_along_axis(hot, chosen, 1, axis=1)
    return hot


class FlattenObservation(TransformObservation):
    """The agent sees one flat array; a Discrete part is one-hot in it."""

    def __init__(self, env: Env[Any, Any]) -> None:
        self._look_through(env, Flatten(env.observation_space))
