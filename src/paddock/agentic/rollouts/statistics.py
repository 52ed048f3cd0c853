"""Means and pass@k with intervals. Tasks are what is drawn, not attempts: attempts at one task are alike.

Shares (means of zeros and ones, pass@k) have Wilson's interval: a bootstrap has no width where nothing or all passed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import comb, sqrt
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

_Numbers: TypeAlias = NDArray[np.float64]

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
    """The mean of all values, with an interval over the groups (tasks); None if there is no value.

    Wilson's interval if all values are 0 or 1, else a bootstrap.
    """
    filled = [group for group in groups if group]
    sums = np.array([float(sum(sorted(group))) for group in filled])
    counts = np.array([float(len(group)) for group in filled])
    if all(value in (0.0, 1.0) for group in filled for value in group):
        return _estimate(sums, counts, confidence, partial(_wilson, attempts=int(counts.sum())))
    return _estimate(sums, counts, confidence, partial(_bootstrap, seed=seed))


def pass_at_k(passed: Sequence[Sequence[bool]], k: int, *, confidence: float = 0.95) -> Estimate | None:
    """The chance that one of k attempts at a task passes, without bias from having made more than k.

    Tasks with fewer than k attempts are left out; None if that is all of them.
    """
    enough = [group for group in passed if len(group) >= k]
    chances = np.array([_chance(len(group), sum(group), k) for group in enough])
    return _estimate(chances, np.ones(len(chances)), confidence, partial(_wilson, attempts=sum(map(len, enough))))


def _chance(attempts: int, passes: int, k: int) -> float:
    return 1.0 - comb(attempts - passes, k) / comb(attempts, k)


def _estimate(sums: _Numbers, counts: _Numbers, confidence: float, interval: Callable[..., Any]) -> Estimate | None:
    tasks = len(sums)
    if tasks == 0:
        return None
    order = np.lexsort((counts, sums))  # the same tasks give the same interval, in whatever order they came
    sums, counts = sums[order], counts[order]
    value = float(sums.sum() / counts.sum())
    known = tasks > 1 and np.isfinite(sums).all()
    low, high = interval(sums, counts, confidence) if known else (None, None)
    return Estimate(value, low, high, confidence, tasks)


def _wilson(sums: _Numbers, counts: _Numbers, confidence: float, *, attempts: int) -> tuple[float, float]:
    """Of a share, for as many independent attempts as it is worth.

    How much tasks differ tells how many: all attempts if no more than by chance, the tasks alone if attempts at one
    always agree. Where nothing or everything passed that can't be seen, and the tasks alone count.
    """
    share, tasks = float(sums.sum() / counts.sum()), len(sums)
    worth = float(counts.sum() ** 2 / (counts**2).sum())  # tasks; less where some have many more attempts than others
    spread = float(((sums - share * counts) ** 2).sum() / counts.sum() ** 2) * tasks / (tasks - 1)
    if 0.0 < share < 1.0:
        worth = max(worth, min(attempts, share * (1.0 - share) / spread) if spread else attempts)
    z = NormalDist().inv_cdf((1.0 + confidence) / 2)
    middle = (share + z * z / (2 * worth)) / (1 + z * z / worth)
    half = z * sqrt(share * (1 - share) / worth + (z / (2 * worth)) ** 2) / (1 + z * z / worth)
    return 0.0 if share == 0.0 else max(0.0, middle - half), 1.0 if share == 1.0 else min(1.0, middle + half)


def _bootstrap(sums: _Numbers, counts: _Numbers, confidence: float, *, seed: int) -> tuple[float, float]:
    tasks = len(sums)
    rng = np.random.default_rng(seed)
    resamples = min(RESAMPLES, max(_FEWEST, _DRAWS // tasks))
    rows = max(1, _AT_A_TIME // tasks)
    means = []
    for begin in range(0, resamples, rows):
        drawn = rng.integers(tasks, size=(min(rows, resamples - begin), tasks))
        means.append(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    tail = (1.0 - confidence) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1.0 - tail])
    return float(low), float(high)
