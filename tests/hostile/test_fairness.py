"""A neighbour of an attacker that takes as much of the machine as it may goes on nearly as if that one were idle."""

import statistics

import pytest

from paddock.bench.hostile.neighbour import TIMES, fairness
from paddock.sandbox import Machine

from .tiers import WALLS, linux_only, need

pytestmark = linux_only


@pytest.mark.process
@pytest.mark.parametrize("rounds", [3, pytest.param(11, marks=pytest.mark.full)])
@pytest.mark.parametrize("tier", WALLS)
def test_neighbours_steps_are_not_held_up(tier, rounds):
    """Not enough for the figure of 1.25 that benchmarks/sandbox.py --fairness asks for: the machine may be busy."""
    need(tier)
    if not any(one.name == "cpu" for one in Machine.here().cgroups):
        pytest.skip("no CPU cgroup may be made here; runs as root")
    ratios = [attacked / idle for idle, attacked in fairness(tier, rounds=rounds, seconds=0.5)]
    print(f"{tier}: p99 beside an attacker / beside an idle session: {', '.join(f'{one:.2f}' for one in ratios)}")
    assert statistics.median(ratios) <= TIMES
