"""A finite Box cut into bins: observations as the number of a bin, actions as the middle of one.

With ``multidiscrete`` there is one number per dimension, otherwise one for all: the last dimension counts fastest.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from operator import index
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.errors import InvalidAction, InvalidSpace
from paddock.spaces import Box, Discrete, MultiDiscrete, Space
from paddock.wrappers.transform import TransformAction, TransformObservation

Array = np.ndarray[Any, Any]
Bins = int | tuple[int, ...]


class Grid:
    """The bins of a Box, dimension by dimension; ``bins`` is how many: one number for all, or one per dimension."""

    def __init__(self, what: str, box: Any, bins: Bins, multidiscrete: bool) -> None:
        if not isinstance(box, Box):
            raise InvalidSpace(f"Discretization is only compatible with Box continuous {what}s, got {type(box)}.")
        self.low, self.high = np.ravel(box.low), np.ravel(box.high)
        if np.isinf(self.low).any() or np.isinf(self.high).any():
            raise InvalidSpace(
                f"Discretization requires {what} space to be finite. Found: low={self.low}, high={self.high}"
            )
        self.box, self.multidiscrete = box, multidiscrete
        counts = [bins] * int(self.low.size) if isinstance(bins, (int, np.integer)) else list(bins)
        if len(counts) != self.low.size:
            raise InvalidSpace(f"bins must match {what} dimensions: expected {self.low.size}, got {len(counts)}")
        if not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n > 0 for n in counts):
            raise InvalidSpace(f"bins must be positive integers, got {bins}")
        self.counts = [int(n) for n in counts]
        self.edges = [
            np.linspace(low, high, count + 1) for low, high, count in zip(self.low, self.high, self.counts, strict=True)
        ]
        # How far apart neighbouring bins of a dimension are in the one number for all.
        self.strides = [math.prod(self.counts[i + 1 :]) for i in range(len(self.counts))]
        self.size = math.prod(self.counts)
        self.space: Space[Any] = MultiDiscrete(np.array(self.counts)) if multidiscrete else Discrete(self.size)

    def numbers(self, value: Any) -> list[int]:
        """The bin per dimension that a member of ``space`` stands for; ValueError or TypeError for other values."""
        if self.multidiscrete:
            found = [index(number) for number in value]
            if len(found) != len(self.counts) or any(not 0 <= n < c for n, c in zip(found, self.counts, strict=True)):
                raise ValueError
            return found
        flat = index(value)
        if not 0 <= flat < self.size:
            raise ValueError
        return [flat // stride % count for stride, count in zip(self.strides, self.counts, strict=True)]


class DiscretizeObservation(TransformObservation):
    """A Box observation as the number of its bin; ``bins`` per dimension, or one number for all.

    Beyond the bounds it is the outermost bin.
    """

    def __init__(self, env: Env[Any, Any], bins: Bins, multidiscrete: bool = False) -> None:
        self._record_arguments(bins=bins, multidiscrete=multidiscrete)
        self._grid = grid = Grid("observation", env.observation_space, bins, multidiscrete)
        self.low, self.high, self.multidiscrete = grid.low, grid.high, multidiscrete
        self.bins, self.n_dims = np.array(grid.counts), len(grid.counts)
        self.bin_edges = [edges[1:-1] for edges in grid.edges]
        self._columns = [(edges.tolist(), stride) for edges, stride in zip(self.bin_edges, grid.strides, strict=True)]
        super().__init__(env, self._one, grid.space)

    def _one(self, value: Any) -> Any:
        # Python's bisect over Python's floats: exact, at a fraction of NumPy's price for a handful of numbers.
        numbers = np.asarray(value).reshape(-1).tolist()
        if self.multidiscrete:
            bins = [bisect_right(edges, x) for (edges, _), x in zip(self._columns, numbers, strict=True)]
            return np.array(bins, np.int64)
        flat = 0
        for (edges, stride), x in zip(self._columns, numbers, strict=True):
            flat += bisect_right(edges, x) * stride
        return flat

    def _rows(self, values: Any) -> Any:
        columns = values.reshape(len(values), -1).T
        bins = [edges.searchsorted(x, "right") for edges, x in zip(self.bin_edges, columns, strict=True)]
        if self.multidiscrete:
            return np.stack(bins, axis=1).astype(np.int64, copy=False)
        flat = np.zeros(len(values), np.int64)
        for column, stride in zip(bins, self._grid.strides, strict=True):
            flat += column * stride
        return flat

    def revert_observation(self, obs: Any) -> tuple[Array, Array]:
        """The bounds of the bin ``obs``: the observation was between them."""
        grid = self._grid
        numbers = list(zip(grid.edges, grid.numbers(obs), strict=True))
        lows, highs = [edges[n] for edges, n in numbers], [edges[n + 1] for edges, n in numbers]
        return np.array(lows, grid.box.dtype), np.array(highs, grid.box.dtype)


class DiscretizeAction(TransformAction):
    """A Box of actions as the numbers of its bins; the environment gets the middle of one."""

    def __init__(self, env: Env[Any, Any], bins: Bins, multidiscrete: bool = False) -> None:
        self._record_arguments(bins=bins, multidiscrete=multidiscrete)
        self._grid = grid = Grid("action", env.action_space, bins, multidiscrete)
        self.low, self.high, self.multidiscrete = grid.low, grid.high, multidiscrete
        self.bins, self.n_dims = np.array(grid.counts), len(grid.counts)
        self.bin_centers = [0.5 * (edges[:-1] + edges[1:]) for edges in grid.edges]
        self._middles = [center.tolist() for center in self.bin_centers]  # as Python's floats
        super().__init__(env, self._one, grid.space)

    def _one(self, value: Any) -> Any:
        grid = self._grid
        try:
            numbers = grid.numbers(value)
        except (TypeError, ValueError):
            # Not left to the environment: it would get the middle of some bin, which is valid.
            raise InvalidAction(f"{value!r} is outside {grid.space}.", action=value, space=grid.space) from None
        chosen = [middles[number] for middles, number in zip(self._middles, numbers, strict=True)]
        return np.array(chosen, grid.box.dtype).reshape(grid.box.shape)

    def _rows(self, values: Any) -> Any:
        grid, values = self._grid, np.asarray(values)
        bad = (values < 0) | (values >= (grid.counts if self.multidiscrete else grid.size))
        if bad.any():
            lane = int(np.flatnonzero(bad.reshape(len(values), -1).any(axis=1))[0])
            what = values[lane]
            raise InvalidAction(
                f"lane {lane}: {what} is outside {grid.space}.", action=what, space=grid.space, lane=lane
            )
        if self.multidiscrete:
            columns = list(values.T)
        else:
            columns = [values // stride % count for stride, count in zip(grid.strides, grid.counts, strict=True)]
        chosen = [center[column] for center, column in zip(self.bin_centers, columns, strict=True)]
        return np.stack(chosen, axis=1).astype(grid.box.dtype).reshape(len(values), *grid.box.shape)

    def revert_action(self, action: Any) -> Any:
        """The number of the bin whose middle is nearest to ``action``."""
        numbers = np.ravel(action)
        bins = [int(np.argmin(np.abs(center - x))) for center, x in zip(self.bin_centers, numbers, strict=True)]
        if self.multidiscrete:
            return np.array(bins, dtype=int)
        return np.int64(sum(n * stride for n, stride in zip(bins, self._grid.strides, strict=True)))
