"""The trajectory digest changes with everything that an agent sees or does, and with nothing else."""

import numpy as np
import pytest

from paddock.errors import NoCanonicalForm
from paddock.record import TrajectoryDigest

STEP = (1, np.array([0.5, 1.5], np.float32), 1.0, False, False)


def digest(*, seed=7, first=(0.0, 0.0), steps=(STEP,)):
    trajectory = TrajectoryDigest()
    trajectory.reset(seed, np.array(first, np.float32))
    for step in steps:
        trajectory.step(*step)
    return trajectory.hexdigest()


def test_the_same_trajectory_has_the_same_digest_for_good():
    # A golden value: records that were written keep their meaning only while this holds.
    assert digest() == "ee79e3511a853a55908c389b25637c0ac9ee71356abae49af095e84fc51ddeba"
    assert digest(steps=[(np.int64(1), STEP[1].copy(), np.float32(1.0), np.False_, np.False_)]) == digest()


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 8},
        {"seed": None},
        {"first": (0.0, 1e-30)},
        {"steps": ()},
        {"steps": (STEP, STEP)},
        {"steps": [(0, *STEP[1:])]},
        {"steps": [(1, STEP[1].astype(np.float64), *STEP[2:])]},
        {"steps": [(*STEP[:2], 1.0 + 2**-52, False, False)]},
        {"steps": [(*STEP[:3], True, False)]},
        {"steps": [(*STEP[:3], False, True)]},
        {"steps": [(*STEP[:3], True, True)]},
    ],
    ids=str,
)
def test_any_difference_changes_the_digest(other):
    assert digest(**other) != digest()


def test_reading_the_digest_does_not_end_it():
    trajectory = TrajectoryDigest()
    trajectory.reset(7, np.zeros(2, np.float32))
    before = trajectory.hexdigest()
    trajectory.step(*STEP)
    assert trajectory.hexdigest() == digest() != before


def test_a_refused_step_leaves_the_digest_as_it_was():
    trajectory = TrajectoryDigest()
    trajectory.reset(7, 0)
    before = trajectory.hexdigest()
    with pytest.raises(NoCanonicalForm):
        trajectory.step(1, object(), 1.0, False, False)
    assert trajectory.hexdigest() == before
