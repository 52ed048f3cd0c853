"""A finite Box cut into bins: observations as the number of a bin, actions as the middle of one.

With ``multidiscrete`` a number for each dimension, else one number for all, the last dimension counting fastest.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import InitVar, dataclass
from operator import index
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.errors import InvalidAction, InvalidSpace
from paddock.spaces import Box, Discrete, MultiDiscrete, Space
from paddock.wrappers.fitted import FittedAction, FittedObservation
from paddock.wrappers.transform_action import TransformAction
from paddock.wrappers.transform_observation import TransformObservation

Array = np.ndarray[Any, Any]
Bins = int | tuple[int, ...]


class Grid:
    """The bins of a Box, dimension by dimension; ``bins``: how many, one number for all or one for each."""

    def __init__(self, what: str, box: Any, bins: Bins, multidiscrete: bool) -> None:
        if not isinstance(box, Box):
            raise InvalidSpace(f"Discretization is only compatible with Box continuous {what}s, got {type(box)}.")
        self.low, self.high = np.ravel(box.low), np.ravel(box.high)
        if np.isinf(self.low).any() or np.isinf(self.high).any():
            raise InvalidSpace(
                f"Discretization requires {what} space to be finite. Found: low={self.low}, high={self.high}"
            )
        self.box, self.multidiscrete = box, multidiscrete
        self.counts = _counts(bins, int(self.low.size), what)
        self.edges = [
            np.linspace(low, high, count + 1) for low, high, count in zip(self.low, self.high, self.counts, strict=True)
        ]
        # How far apart two bins of a dimension are in the one number for all.
        self.strides = [math.prod(self.counts[i + 1 :]) for i in range(len(self.counts))]
        self.size = math.prod(self.counts)
        self.space: Space[Any] = MultiDiscrete(np.array(self.counts)) if multidiscrete else Discrete(self.size)

    def numbers(self, value: Any) -> list[int]:
        """The bin of each dimension that a member of ``space`` means; ValueError, TypeError if it is none."""
        if self.multidiscrete:
            found = [index(number) for number in value]
            if len(found) != len(self.counts) or any(not 0 <= n < c for n, c in zip(found, self.counts, strict=True)):
                raise ValueError
            return found
        flat = index(value)
        if not 0 <= flat < self.size:
            raise ValueError
        return [flat // stride % count for stride, count in zip(self.strides, self.counts, strict=True)]


def _counts(bins: Any, dims: int, what: str) -> list[int]:
    counts = [bins] * dims if isinstance(bins, (int, np.integer)) else list(bins)
    if len(counts) != dims:
        raise InvalidSpace(f"bins must match {what} dimensions: expected {dims}, got {len(counts)}")
    if not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n > 0 for n in counts):
        raise InvalidSpace(f"bins must be positive integers, got {bins}")
    return [int(n) for n in counts]


class _Cut(FittedObservation):
    grid: Grid
    columns: list[tuple[list[float], int]]  # of each dimension the edges between bins, and the stride


@dataclass(frozen=True)
class DiscretizeSeen(_Cut):
    """The bin that an observation lies in; beyond the bounds, the outermost."""

    bins: Bins
    multidiscrete: bool
    around: InitVar[Space[Any]]

    def __post_init__(self, around: Space[Any]) -> None:
        grid = Grid("observation", around, self.bins, self.multidiscrete)
        columns = [(edges[1:-1].tolist(), stride) for edges, stride in zip(grid.edges, grid.strides, strict=True)]
        self._fit(around, grid.space, grid=grid, columns=columns)

    def one(self, value: Any) -> Any:
        # Python's bisect over Python's floats: exact, at a fraction of NumPy's price for a handful of numbers.
        numbers = np.asarray(value).reshape(-1).tolist()
        if self.multidiscrete:
            bins = [bisect_right(edges, x) for (edges, _), x in zip(self.columns, numbers, strict=True)]
            return np.array(bins, np.int64)
        flat = 0
        for (edges, stride), x in zip(self.columns, numbers, strict=True):
            flat += bisect_right(edges, x) * stride
        return flat

    def rows(self, values: Any) -> Any:
        columns = values.reshape(len(values), -1).T
        bins = [edges[1:-1].searchsorted(x, "right") for edges, x in zip(self.grid.edges, columns, strict=True)]
        if self.multidiscrete:
            return np.stack(bins, axis=1).astype(np.int64, copy=False)
        flat = np.zeros(len(values), np.int64)
        for column, stride in zip(bins, self.grid.strides, strict=True):
            flat += column * stride
        return flat


class _Middles(FittedAction):
    grid: Grid
    centers: list[Array]
    middles: list[list[float]]  # the centers as Python's floats


@dataclass(frozen=True)
class DiscretizeTaken(_Middles):
    """The middle of the bin that an action names."""

    bins: Bins
    multidiscrete: bool
    around: InitVar[Space[Any]]

    def __post_init__(self, around: Space[Any]) -> None:
        grid = Grid("action", around, self.bins, self.multidiscrete)
        centers = [0.5 * (edges[:-1] + edges[1:]) for edges in grid.edges]
        self._fit(grid.space, around, grid=grid, centers=centers, middles=[center.tolist() for center in centers])

    def one(self, value: Any) -> Any:
        try:
            numbers = self.grid.numbers(value)
        except (TypeError, ValueError):
            # Not left to the environment: what that would get is the middle of some bin, and valid.
            raise InvalidAction(f"{value!r} is outside {self.given}.", action=value, space=self.given) from None
        chosen = [middles[number] for middles, number in zip(self.middles, numbers, strict=True)]
        return np.array(chosen, self.wanted.dtype).reshape(self.wanted.shape)

    def rows(self, values: Any) -> Any:
        grid, values = self.grid, np.asarray(values)
        bad = (values < 0) | (values >= (grid.counts if self.multidiscrete else grid.size))
        if bad.any():
            lane = int(np.flatnonzero(bad.reshape(len(values), -1).any(axis=1))[0])
            what = values[lane]
            raise InvalidAction(
                f"lane {lane}: {what} is outside {self.given}.", action=what, space=self.given, lane=lane
            )
        if self.multidiscrete:
            columns = list(values.T)
        else:
            columns = [values // stride % count for stride, count in zip(grid.strides, grid.counts, strict=True)]
        chosen = [center[column] for center, column in zip(self.centers, columns, strict=True)]
        return np.stack(chosen, axis=1).astype(self.wanted.dtype).reshape(len(values), *grid.box.shape)


class DiscretizeObservation(TransformObservation):
    """A Box observation as the number of its bin; ``bins`` for each dimension, or one number for all."""

    _logic: DiscretizeSeen

    def __init__(self, env: Env[Any, Any], bins: Bins, multidiscrete: bool = False) -> None:
        logic = DiscretizeSeen(bins, multidiscrete, env.observation_space)
        self._look_through(env, logic)
        grid = logic.grid
        self.low, self.high, self.multidiscrete = grid.low, grid.high, multidiscrete
        self.bins, self.n_dims = np.array(grid.counts), len(grid.counts)
        self.bin_edges = [edges[1:-1] for edges in grid.edges]

    def revert_observation(self, obs: Any) -> tuple[Array, Array]:
        """The bounds of the bin ``obs``: what it has been is between them."""
        grid = self._logic.grid
        numbers = list(zip(grid.edges, grid.numbers(obs), strict=True))
        lows, highs = [edges[n] for edges, n in numbers], [edges[n + 1] for edges, n in numbers]
        return np.array(lows, grid.box.dtype), np.array(highs, grid.box.dtype)


class DiscretizeAction(TransformAction):
    """A Box of actions as the numbers of its bins; the environment gets the middle of one."""

    _logic: DiscretizeTaken

    def __init__(self, env: Env[Any, Any], bins: Bins, multidiscrete: bool = False) -> None:
        logic = DiscretizeTaken(bins, multidiscrete, env.action_space)
        self._act_through(env, logic)
        grid = logic.grid
        self.low, self.high, self.multidiscrete = grid.low, grid.high, multidiscrete
        self.bins, self.n_dims = np.array(grid.counts), len(grid.counts)
        self.bin_centers = logic.centers

    def revert_action(self, action: Any) -> Any:
        """The number of the bin whose middle is nearest to ``action``."""
        numbers = np.ravel(action)
        bins = [int(np.argmin(np.abs(center - x))) for center, x in zip(self.bin_centers, numbers, strict=True)]
        if self.multidiscrete:
            return np.array(bins, dtype=int)
        return np.int64(sum(n * stride for n, stride in zip(bins, self._logic.grid.strides, strict=True)))
