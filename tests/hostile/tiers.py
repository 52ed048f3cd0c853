"""Which attacks the fast suite runs, and which tiers this machine has."""

import os
import sys

import pytest

from paddock.bench.hostile.catalogue import ATTACKS
from paddock.bench.hostile.score import available

ROOT = sys.platform == "linux" and os.geteuid() == 0
WALLS = ("sandbox", "landlock")
# One of each group, quick ones; `make test-full` runs them all.
QUICK = ("F02", "N01", "P16", "K01", "R03", "L14", "I01", "T01")

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's: they run on Linux only")


def attacks():
    """Every attack as a parameter; all but the quick ones are marked `full`."""
    return [
        pytest.param(attack, id=attack.code, marks=[] if attack.code in QUICK else pytest.mark.full)
        for attack in ATTACKS
    ]


def need(tier):
    if not available(tier):
        if os.environ.get("PADDOCK_WALLS") == "needed":  # as in the workflow, where a skip would be a silent hole
            pytest.fail(f"this machine can't put up the tier {tier}: paddock doctor says why")
        pytest.skip(f"this machine can't put up the tier {tier} (paddock doctor says why); runs where it can")
