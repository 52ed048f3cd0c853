"""Mean and variance of what has passed so far, in float64. Arrays are replaced, never written to.

So whoever keeps ``rms.mean`` keeps the mean of that moment, and the same formulas serve one value and a row a lane.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paddock.wrappers.memory import Memory

Array = np.ndarray[Any, Any]
Moments = tuple[Any, Any, Any]  # mean, variance, count


class RunningMeanStd:
    """Mean, variance and count of all values so far; at first 0, 1 and ``epsilon``, as if a little had been seen.

    >>> rms = RunningMeanStd(shape=(2,))
    >>> rms.update(np.array([[1.0, 10.0], [3.0, 30.0]]))
    >>> rms.mean.round(2)
    array([ 2., 20.])
    """

    def __init__(self, epsilon: float = 1e-4, shape: tuple[int, ...] = (), dtype: Any = np.float64) -> None:
        self.mean: Any = np.zeros(shape, dtype=dtype)
        self.var: Any = np.ones(shape, dtype=dtype)
        self.count: Any = epsilon

    def update(self, x: Array) -> None:
        """Add a batch: values along the first axis."""
        values, axis = laid_out(x)
        mean, var = (part.reshape(np.shape(x)[1:])[()] for part in moments(values, axis))
        self.update_from_moments(mean, var, len(x))

    def update_from_moments(self, batch_mean: Any, batch_var: Any, batch_count: int) -> None:
        """Add a batch of which only mean, variance and count are known."""
        self.mean, self.var, self.count = update_mean_var_count_from_moments(
            self.mean, self.var, self.count, batch_mean, batch_var, batch_count
        )


class FewNumbers(RunningMeanStd):
    """The same of a small array, value by value in Python floats: NumPy takes longer to begin than these in all."""

    MOST = 8

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        super().__init__(shape=shape)

    @property
    def mean(self) -> Any:
        return np.array(self._mean).reshape(self.shape)

    @mean.setter
    def mean(self, value: Any) -> None:
        self._mean: list[float] = np.asarray(value, np.float64).ravel().tolist()

    @property
    def var(self) -> Any:
        return np.array(self._var).reshape(self.shape)

    @var.setter
    def var(self, value: Any) -> None:
        self._var: list[float] = np.asarray(value, np.float64).ravel().tolist()

    def standardized(self, value: Any, epsilon: float) -> Any:
        """Add ``value``; it centred and scaled, with the bits of ``with_one_more`` and the division after it."""
        count = self.count
        total = count + 1
        kept = count / total
        means, variances, seen = [], [], []
        for x, mean, var in zip(np.ravel(value).tolist(), self._mean, self._var, strict=True):
            delta = x - mean
            var = (var * count + delta * delta * count / total) / total
            means.append(mean + delta / total)
            variances.append(var)
            seen.append(delta * kept / math.sqrt(var + epsilon))
        self._mean, self._var, self.count = means, variances, total
        return np.array(seen, np.float32).reshape(self.shape)[()]


class LaneStatistics:
    """A mean, a variance and a count for each lane: rows of what its RunningMeanStd would hold."""

    def __init__(self, lanes: int, shape: tuple[int, ...] = (), epsilon: float = 1e-4) -> None:
        self.mean: Array = np.zeros((lanes, *shape))
        self.var: Array = np.ones((lanes, *shape))
        self.count: Array = np.full(lanes, epsilon)

    def of(self, lanes: Any) -> Moments:
        """The rows of these lanes, counts shaped to go with the others."""
        count = self.count[lanes]
        return self.mean[lanes], self.var[lanes], count.reshape(-1, *(1,) * (self.mean.ndim - 1))

    def put(self, lanes: Any, found: Moments) -> None:
        """Replace the rows of these lanes."""
        mean, var, count = found
        if isinstance(lanes, slice):
            self.mean, self.var, self.count = mean, var, count.reshape(-1)
            return
        self.mean, self.var, self.count = self.mean.copy(), self.var.copy(), self.count.copy()
        self.mean[lanes], self.var[lanes], self.count[lanes] = mean, var, count.reshape(-1)


def update_mean_var_count_from_moments(
    mean: Any, var: Any, count: Any, batch_mean: Any, batch_var: Any, batch_count: Any
) -> Moments:
    """Mean, variance and count of two groups of values together, from those of each."""
    total = count + batch_count
    share = batch_count / total
    delta = batch_mean - mean
    spread = var * count + batch_var * batch_count + delta * delta * (count * share)
    return mean + delta * share, spread / total, total


def with_one_more(mean: Any, var: Any, count: Any, value: Any) -> tuple[Any, Any, Any, Any]:
    """Mean, variance and count with ``value`` as well, and how far it lies from that mean. Hot: ten operations.

    All is element by element: a row of n lanes, with a count each, has the very bits of n calls.
    """
    total = count + 1
    delta = value - mean
    # In Gymnasium's order, so that rewards have its bits.
    var = (var * count + delta * delta * count / total) / total
    return mean + delta / total, var, total, delta * (count / total)


def laid_out(batch: Any) -> tuple[Array, int]:
    """The batch as a table in float64 with its longer side last, and the axis along which its values lie.

    NumPy's inner loops run along the last axis: at [1024, 4] that takes a fifth of the time of the other way.
    """
    table = np.asarray(batch)
    table = table.reshape(len(table), -1)
    if table.shape[1] >= table.shape[0]:
        return table.astype(np.float64), 0
    turned = np.empty(table.shape[::-1])
    turned[...] = table.T
    return turned, 1


def moments(values: Array, axis: int) -> tuple[Array, Array]:
    """Mean and variance along ``axis``, which stays with length one."""
    count = values.shape[axis]
    mean = np.add.reduce(values, axis=axis, keepdims=True) / count
    away = values - mean
    away *= away
    return mean, np.add.reduce(away, axis=axis, keepdims=True) / count


class StatisticsMemory(Memory):
    """Statistics that users may read, replace, share and freeze. ``moments`` is their plain form, for snapshots."""

    _statistics: Any  # whatever has mean, var and count: users assign another wrapper's to share it
    _updating = True

    def pack(self) -> None:
        """Write the plain form."""
        kept = self._statistics
        self.moments = {name: np.asarray(getattr(kept, name), np.float64)[()] for name in ("mean", "var", "count")}

    def unpack(self) -> None:
        """Take over the plain form."""
        for name, value in self.moments.items():
            setattr(self._statistics, name, value)


class KeepsStatistics:
    """For a shell whose memory is a StatisticsMemory: snapshots hold mean, variance and count."""

    _memory: StatisticsMemory

    def snapshot(self) -> bytes:
        self._memory.pack()
        return super().snapshot()  # type: ignore[misc,no-any-return]

    def restore(self, snapshot: bytes) -> None:
        self._memory.pack()
        super().restore(snapshot)  # type: ignore[misc]
        self._memory.unpack()
