"""What returns say, and how surely: robust averages with stratified-bootstrap intervals, over one task or many.

Scores are one array per task, with the episodes on the last axis; further axes before it are resamples. Intervals are
drawn from a stream that a digest seeds, so anyone who has the record gets the same ones, with any release of NumPy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from paddock.agentic.rollouts.results import RESAMPLES, Estimate, mean_of

Numbers: TypeAlias = NDArray[np.float64]
Scores: TypeAlias = Sequence[Numbers]
Statistic: TypeAlias = Callable[..., Any]  # takes one Scores or two, reduces the last axis

CONFIDENCE = 0.95
ENOUGH_EPISODES = 10  # per task, for a claim about a policy
ENOUGH_POLICIES = 5  # trained independently, for a claim about an algorithm
_FEWEST, _DRAWS = 200, 4_000_000  # with very many episodes the interval is narrow, and need not be known so well
_AT_A_TIME = 1 << 20  # draws that are held in memory


# ── Statistics ──


def mean(scores: Scores) -> Any:
    """Return the mean of the tasks' means."""
    return _task_means(scores).mean(axis=-1)


def median(scores: Scores) -> Any:
    """Return the median of the tasks' means; of one task, the median of its episodes."""
    return np.median(scores[0] if len(scores) == 1 else _task_means(scores), axis=-1)


def iqm(scores: Scores) -> Any:
    """Return the interquartile mean: of the episodes of all tasks, the mean without the lowest and highest quarter."""
    pooled = np.sort(np.concatenate(scores, axis=-1), axis=-1)
    cut = pooled.shape[-1] // 4
    return pooled[..., cut : pooled.shape[-1] - cut].mean(axis=-1)


def optimality_gap(scores: Scores, goal: float = 1.0) -> Any:
    """Return by how much the mean misses ``goal``, where an episode above it counts as one that reaches it."""
    return goal - _task_means([np.minimum(task, goal) for task in scores]).mean(axis=-1)


def profile(scores: Scores, thresholds: Numbers) -> Any:
    """Return for each threshold the share of episodes above it, with the thresholds on the last axis."""
    shares = [np.stack([(task > one).mean(axis=-1) for one in thresholds], axis=-1) for task in scores]
    return np.mean(shares, axis=0)


def probability_of_improvement(ours: Scores, theirs: Scores) -> Any:
    """Return how probably an episode of ``ours`` has the higher score, averaged over tasks. A tie counts one half."""
    return np.mean([_probability(a, b) for a, b in zip(ours, theirs, strict=True)], axis=0)


def difference(ours: Scores, theirs: Scores) -> Any:
    """Return how much higher the IQM of ``ours`` is."""
    return iqm(ours) - iqm(theirs)


def _task_means(scores: Scores) -> Any:
    return np.stack([task.mean(axis=-1) for task in scores], axis=-1)


def _probability(ours: Numbers, theirs: Numbers) -> Any:
    wins = [
        np.searchsorted(row, values, "left").sum() + np.searchsorted(row, values, "right").sum()
        for row, values in zip(
            np.sort(theirs, axis=-1).reshape(-1, theirs.shape[-1]), ours.reshape(-1, ours.shape[-1]), strict=True
        )
    ]
    return np.reshape(wins, ours.shape[:-1]) / (2.0 * ours.shape[-1] * theirs.shape[-1])


# ── Intervals ──


def draws(digest: str, *samples: Scores) -> Iterator[list[list[Any]]]:
    """Yield the indices of the resamples, some at a time: for each sample and task an array of int64[resamples, n]."""
    seed = int.from_bytes(hashlib.sha256(f"paddock-bootstrap-v1 {digest}".encode()).digest(), "big")
    bits = np.random.PCG64(seed)
    sizes = [[task.shape[-1] for task in scores] for scores in samples]
    episodes = sum(map(sum, sizes))
    resamples = min(RESAMPLES, max(_FEWEST, _DRAWS // episodes))
    rows = max(1, _AT_A_TIME // episodes)
    for begin in range(0, resamples, rows):
        count = min(rows, resamples - begin)
        # Raw bits, for NumPy may change how it makes integers of them.
        yield [[(bits.random_raw((count, n)) % np.uint64(n)).astype(np.int64) for n in own] for own in sizes]


def interval(
    statistic: Statistic, *samples: Scores, indices: Iterator[list[list[Any]]], confidence: float = CONFIDENCE
) -> tuple[Any, Any]:
    """Return the percentile interval of ``statistic`` over resamples, which are drawn within each task."""
    values = []
    for drawn in indices:
        pairs = (zip(scores, own, strict=True) for scores, own in zip(samples, drawn, strict=True))
        values.append(statistic(*([task[at] for task, at in pair] for pair in pairs)))
    tail = (1.0 - confidence) / 2
    low, high = np.quantile(np.concatenate(values), [tail, 1.0 - tail], axis=0)
    return low, high


def estimate(statistic: Statistic, *samples: Scores, digest: str) -> Estimate:
    """Return the statistic, with an interval if each task has at least two episodes and all scores are finite.

    >>> estimate(iqm, [np.arange(8.0)], digest="00").value
    3.5
    """
    fewest = min(task.shape[-1] for scores in samples for task in scores)
    value = float(statistic(*samples))
    if fewest < 2 or not all(np.isfinite(task).all() for scores in samples for task in scores):
        return Estimate(value, None, None, CONFIDENCE, fewest)
    low, high = interval(statistic, *samples, indices=draws(digest, *samples))
    return Estimate(value, float(low), float(high), CONFIDENCE, fewest)


# ── What a report says of one task, and of all ──


@dataclass(frozen=True)
class Figures:
    """The statistics of one task's returns. ``failures`` are among them, with the value that the task counts for one.

    ``gap`` is the optimality gap of normalized scores; None without a floor and a ceiling.
    """

    n: int
    failures: int
    mean: Estimate
    median: Estimate
    iqm: Estimate
    gap: Estimate | None
    lowest: float
    highest: float
    binary: bool

    def document(self) -> dict[str, Any]:
        """Return the figures as JSON data, each estimate as its value and its interval."""
        return {
            name: {"value": found.value, "low": found.low, "high": found.high} if type(found) is Estimate else found
            for name, found in vars(self).items()
        }


def describe(
    returns: Sequence[float] | Numbers, *, digest: str, failures: int = 0, scale: tuple[float, float] | None = None
) -> Figures:
    """Return the figures of a task. ``scale``: its floor and its ceiling. If all returns are 0 or 1, the mean's
    interval is Wilson's.
    """
    values = np.asarray(returns, np.float64)
    binary = bool(np.isin(values, (0.0, 1.0)).all())

    def figure(statistic: Statistic, scores: Numbers) -> Estimate:
        return _bare(statistic, [scores]) if binary else estimate(statistic, [scores], digest=digest)

    average = mean_of([[value] for value in values.tolist()]) if binary else None
    return Figures(
        n=len(values),
        failures=failures,
        mean=average or figure(mean, values),
        median=figure(median, values),
        iqm=figure(iqm, values),
        gap=None if scale is None else figure(optimality_gap, normalize(values, scale)),
        lowest=float(values.min()),
        highest=float(values.max()),
        binary=binary,
    )


def average_tasks(scores: Scores, *, digest: str) -> dict[str, Estimate]:
    """Return the averages over tasks, by name; with intervals as ``describe`` has them."""
    kinds = {"mean": mean, "median": median, "IQM": iqm, "optimality gap": optimality_gap}
    if not all(np.isin(task, (0.0, 1.0)).all() for task in scores):
        return {name: estimate(kind, scores, digest=digest) for name, kind in kinds.items()}
    found = {name: _bare(kind, scores) for name, kind in kinds.items()}
    if len({len(task) for task in scores}) == 1:
        found["mean"] = mean_of([[value] for task in scores for value in task.tolist()]) or found["mean"]
    return found


def _bare(statistic: Statistic, scores: Scores) -> Estimate:
    return Estimate(float(statistic(scores)), None, None, CONFIDENCE, min(map(len, scores)))


def normalize(values: Numbers, scale: tuple[float, float]) -> Numbers:
    """Return scores in which the task's floor is 0 and its ceiling 1."""
    floor, ceiling = scale
    return (values - floor) / (ceiling - floor)


def doubts(counts: Sequence[int], *, policies: int = 1) -> list[str]:
    """Return why figures over so many episodes per task don't carry a claim; empty if they do for these policies."""
    found = []
    if min(counts) < ENOUGH_EPISODES:
        found.append(f"{min(counts)} episodes of a task are too few for a claim; it takes {ENOUGH_EPISODES}")
    if policies < ENOUGH_POLICIES:
        trained = "one policy" if policies == 1 else f"{policies} policies"
        found.append(
            f"this is about {trained}, not about an algorithm, which takes {ENOUGH_POLICIES} trained independently"
        )
    return found
