"""Means and pass@k with intervals. Tasks are what is drawn again, not attempts: attempts at one task are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
_FEWEST, _DRAWS = 200, 20_000_000  # with very many tasks the interval is narrow, and need not be known so well
_AT_A_TIME = 1 << 20  # draws that are held in memory


@dataclass(frozen=True)
class Estimate:
    """A mean over ``tasks`` tasks; ``low`` to ``high`` is its interval, which two tasks or more are needed for."""

    value: float
    low: float | None
    high: float | None
    confidence: float
    tasks: int

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.3f}"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def mean_of(groups: Sequence[Sequence[float]], *, confidence: float = 0.95, seed: int = 0) -> Estimate | None:
    """The mean of all values, with a bootstrap interval over the groups (tasks); None if there is no value."""
    filled = [group for group in groups if group]
    sums = np.array([float(sum(sorted(group))) for group in filled])
    counts = np.array([float(len(group)) for group in filled])
    return _estimate(sums, counts, confidence, seed)


def pass_at_k(passed: Sequence[Sequence[bool]], k: int, *, confidence: float = 0.95, seed: int = 0) -> Estimate | None:
    """The chance that one of k attempts at a task passes, without bias from having made more than k.

    Tasks with fewer than k attempts are left out; None if that is all of them.
    """
    chances = np.array([_chance(len(group), sum(group), k) for group in passed if len(group) >= k])
    return _estimate(chances, np.ones(len(chances)), confidence, seed)


def _chance(attempts: int, passes: int, k: int) -> float:
    return 1.0 - comb(attempts - passes, k) / comb(attempts, k)


def _estimate(sums: NDArray[np.float64], counts: NDArray[np.float64], confidence: float, seed: int) -> Estimate | None:
    tasks = len(sums)
    if tasks == 0:
        return None
    order = np.lexsort((counts, sums))  # the same tasks give the same interval, in whatever order they came
    sums, counts = sums[order], counts[order]
    value = float(sums.sum() / counts.sum())
    if tasks == 1 or not np.isfinite(sums).all():
        return Estimate(value, None, None, confidence, tasks)
    rng = np.random.default_rng(seed)
    resamples = min(RESAMPLES, max(_FEWEST, _DRAWS // tasks))
    rows = max(1, _AT_A_TIME // tasks)
    means = []
    for begin in range(0, resamples, rows):
        drawn = rng.integers(tasks, size=(min(rows, resamples - begin), tasks))
        means.append(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    tail = (1.0 - confidence) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1.0 - tail])
    return Estimate(value, float(low), float(high), confidence, tasks)
