"""Fixed scores that the tests of statistics and their oracle share: two policies, some episodes of several tasks."""

import numpy as np


def matrix(seed, episodes, tasks):
    """float64[episodes, tasks] with ties, values on thresholds and one far outlier."""
    rng = np.random.default_rng(seed)
    scores = np.round(rng.gamma(2.0, 0.3, size=(episodes, tasks)), 2)
    scores[0, 0] = 40.0
    return scores


def by_task(scores):
    return [np.ascontiguousarray(column) for column in scores.T]


SHAPES = [(10, 26), (7, 3), (10, 1), (1, 5), (33, 4)]
THRESHOLDS = np.linspace(0.0, 1.2, 25)
