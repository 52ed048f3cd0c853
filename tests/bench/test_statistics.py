"""Statistics of returns: rliable's numbers, kept here and asked again in its venv, and what intervals promise."""

from pathlib import Path

import numpy as np
import pytest

from paddock.bench import statistics
from paddock.bench.statistics import (
    average_tasks,
    describe,
    difference,
    doubts,
    draws,
    estimate,
    interval,
    iqm,
    mean,
    median,
    normalize,
    optimality_gap,
    probability_of_improvement,
    profile,
)
from tests.bench.scores import by_task, matrix
from tests.peers import run_with_peer

# rliable 1.2.0 on tests.bench.scores: mean, median, IQM and optimality gap of matrix(1, …), and its probability of
# improvement over matrix(2, two episodes more, …).
GOLDEN = {
    (10, 26): (0.7232307692307691, 0.562, 0.5100769230769231, 0.4673076923076923, 0.5205128205128206),
    (7, 3): (2.441904761904762, 0.72, 0.5, 0.4614285714285714, 0.42328042328042326),
    (1, 5): (8.51, 0.65, 0.7433333333333333, 0.29000000000000004, 0.6666666666666667),
    (33, 4): (0.8280303030303031, 0.5562121212121214, 0.4896969696969697, 0.4934090909090909, 0.4834415584415585),
}


@pytest.mark.parametrize("shape", GOLDEN)
def test_point_estimates_are_rliables(shape):
    ours, theirs = by_task(matrix(1, *shape)), by_task(matrix(2, shape[0] + 2, shape[1]))
    found = [mean(ours), median(ours), iqm(ours), optimality_gap(ours), probability_of_improvement(ours, theirs)]
    assert found == pytest.approx(GOLDEN[shape], abs=1e-12, rel=0)


@pytest.mark.peers
def test_all_statistics_and_intervals_are_rliables_given_its_resamples():
    found = run_with_peer("rliable", (Path(__file__).parent / "rliable_oracle.py").read_text())
    assert {name: len(pairs) for name, pairs in found.items()} == {"points": 154, "intervals": 178, "wilson": 8}
    for pairs in found.values():
        assert max(abs(ours - theirs) for ours, theirs in pairs) <= 1e-12


def test_the_digest_alone_decides_the_interval():
    scores = by_task(matrix(1, 10, 1))
    known = estimate(iqm, scores, digest="ab" * 32)
    assert (known.low, known.high) == pytest.approx((0.34, 7.210458333333331), abs=1e-12)
    assert estimate(iqm, scores, digest="ab" * 32) == known
    assert estimate(iqm, scores, digest="cd" * 32) != known


def test_resamples_are_the_same_whether_drawn_at_once_or_in_parts(monkeypatch):
    scores = by_task(matrix(1, 9, 1))
    whole = interval(mean, scores, indices=draws("00", scores))
    monkeypatch.setattr(statistics, "_AT_A_TIME", 50)
    assert interval(mean, scores, indices=draws("00", scores)) == pytest.approx(whole)


def test_each_task_is_drawn_from_its_own_episodes():
    low, high = np.zeros(5), np.ones(7)
    found = estimate(mean, [low, high], digest="00")
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)


def test_one_episode_has_no_interval():
    found = estimate(mean, [np.array([3.0])], digest="00")
    assert (found.value, found.low, found.high) == (3.0, None, None)


def test_a_return_that_is_not_finite_has_no_interval():
    assert estimate(mean, [np.array([1.0, np.inf])], digest="00").low is None


@pytest.mark.parametrize(("passed", "low", "high"), [(0, 0.0, 0.2775327998628899), (10, 0.7224672001371109, 1.0)])
def test_a_binary_mean_has_wilsons_interval_which_has_a_width_at_the_ends_too(passed, low, high):
    found = describe([1.0] * passed + [0.0] * (10 - passed), digest="00")
    assert found.binary
    assert (found.mean.low, found.mean.high) == pytest.approx((low, high), abs=1e-12)


def test_of_zeros_and_ones_only_the_mean_has_an_interval():
    """A bootstrap of ten zeros has no width, as if it were certain that nothing ever passes."""
    found = describe([0.0] * 10, digest="00", scale=(0.0, 1.0))
    assert [found.median.low, found.iqm.low, found.gap.low] == [None] * 3
    tasks = average_tasks([np.zeros(10), np.ones(10)], digest="00")
    assert (tasks["mean"].low, tasks["mean"].high) == pytest.approx((0.2992980081982124, 0.7007019918017876))
    assert tasks["IQM"].low is None


def test_figures_of_a_task():
    found = describe([0.0, 2.0, 4.0, 100.0], digest="00", failures=1, scale=(0.0, 4.0))
    assert (found.n, found.failures, found.lowest, found.highest, found.binary) == (4, 1, 0.0, 100.0, False)
    assert (found.mean.value, found.median.value, found.iqm.value) == (26.5, 3.0, 3.0)
    assert found.gap.value == 1.0 - (0.0 + 0.5 + 1.0 + 1.0) / 4
    assert describe([0.0, 2.0], digest="00").gap is None


def test_normal_scores_are_0_at_the_floor_and_1_at_the_ceiling():
    assert normalize(np.array([10.0, 20.0, 40.0]), (10.0, 20.0)).tolist() == [0.0, 1.0, 3.0]


def test_a_profile_falls_from_all_episodes_to_none():
    shares = profile([np.array([1.0, 2.0, 3.0, 4.0])], np.array([0.0, 2.0, 4.0]))
    assert shares.tolist() == [1.0, 0.5, 0.0]


def test_the_difference_of_equal_scores_straddles_zero():
    scores = by_task(matrix(1, 20, 3))
    found = estimate(difference, scores, scores, digest="00")
    assert found.value == 0.0
    assert found.low < 0.0 < found.high


@pytest.mark.full
def test_intervals_cover_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(0)
    rounds = 400
    covered = sum(
        found.low <= 0.5 <= found.high
        for found in (estimate(mean, [rng.uniform(size=30)], digest=f"{one:x}") for one in range(rounds))
    )
    assert 0.90 <= covered / rounds <= 0.98


def test_few_episodes_and_few_policies_carry_no_claim():
    few, one = doubts([9, 50])
    assert "9 episodes of a task are too few for a claim; it takes 10" in few
    assert "one policy, not about an algorithm, which takes 5" in one
    assert doubts([10, 50], policies=5) == []
