"""rliable's numbers for the fixed scores, and ours beside them: a program for its venv."""

import json

import numpy as np
from rliable import library, metrics
from statsmodels.stats.proportion import proportion_confint

from paddock.bench import statistics as ours
from tests.bench.scores import SHAPES, THRESHOLDS, by_task, matrix

RESAMPLES = 300


def points():
    pairs = []
    for shape in SHAPES:
        a, b = matrix(1, *shape), matrix(2, shape[0] + 2, shape[1])
        mine, other = by_task(a), by_task(b)
        pairs += [(ours.mean(mine), metrics.aggregate_mean(a)), (ours.iqm(mine), metrics.aggregate_iqm(a))]
        pairs.append((ours.optimality_gap(mine), metrics.aggregate_optimality_gap(a)))
        if shape[1] > 1:
            pairs.append((ours.median(mine), metrics.aggregate_median(a)))
        pairs.append((ours.probability_of_improvement(mine, other), metrics.probability_of_improvement(a, b)))
        pairs.append((ours.probability_of_improvement(mine, mine), metrics.probability_of_improvement(a, a)))
        pairs += zip(ours.profile(mine, THRESHOLDS), library.score_distributions(a, THRESHOLDS), strict=True)
    return pairs


def intervals():
    """rliable draws from NumPy's global stream; the same draws, made beforehand, are given to ours."""
    pairs = []
    for shape in SHAPES[:3]:
        a, b = matrix(3, *shape), matrix(4, shape[0] + 1, shape[1])
        one = [
            (metrics.aggregate_mean, ours.mean),
            (metrics.aggregate_iqm, ours.iqm),
            (metrics.aggregate_optimality_gap, ours.optimality_gap),
            (lambda x: library.score_distributions(x, THRESHOLDS), lambda x: ours.profile(x, THRESHOLDS)),
        ]
        if shape[1] > 1:
            one.append((metrics.aggregate_median, ours.median))
        for theirs, mine in one:
            pairs += compare(theirs, mine, a)
        pairs += compare(metrics.probability_of_improvement, ours.probability_of_improvement, a, b)
    return pairs


def compare(theirs, mine, *matrices):
    scores = {"x": matrices[0] if len(matrices) == 1 else list(matrices)}
    np.random.seed(5)
    _, found = library.get_interval_estimates(scores, lambda *x: np.atleast_1d(theirs(*x)), reps=RESAMPLES)
    np.random.seed(5)
    drawn = [[np.random.choice(len(m), m.shape, replace=True) for m in matrices] for _ in range(RESAMPLES)]
    stacked = [np.stack([draw[at] for draw in drawn]) for at in range(len(matrices))]
    indices = [[[whole[:, :, task] for task in range(whole.shape[2])] for whole in stacked]]
    low, high = ours.interval(mine, *map(by_task, matrices), indices=iter(indices))
    return [*zip(np.atleast_1d(low), found["x"][0], strict=True), *zip(np.atleast_1d(high), found["x"][1], strict=True)]


def wilson():
    pairs = []
    for passed, n in ((0, 10), (3, 10), (10, 10), (51, 200)):
        found = ours.describe([1.0] * passed + [0.0] * (n - passed), digest="").mean
        low, high = proportion_confint(passed, n, method="wilson")
        pairs += [(found.low, low), (found.high, high)]
    return pairs


if __name__ == "__main__":
    found = {"points": points(), "intervals": intervals(), "wilson": wilson()}
    print(json.dumps({name: [[float(a), float(b)] for a, b in pairs] for name, pairs in found.items()}))
