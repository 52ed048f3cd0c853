"""One environment: ``paddock.make`` against ``gymnasium.make``, validation on, in one run.

    python benchmarks/single.py [--without-numba]

Rates are steps a second with a reset whenever an episode ends. Without ``--without-numba`` the script runs itself
once more in an interpreter that can't import Numba.
"""

from __future__ import annotations

import subprocess
import sys
import warnings

import gymnasium
import numpy as np
from _timing import Table, playing, rates, tail

WITHOUT = "--without-numba" in sys.argv
if WITHOUT:
    sys.modules["numba"] = None  # as if it were not installed

import paddock  # noqa: E402 - after Numba is hidden

WITH_BARS = {"CartPole-v1": 5, "MountainCar-v0": 5, "MountainCarContinuous-v0": 1.2}
WITH_BARS |= dict.fromkeys(("Pendulum-v1", "Acrobot-v1", "FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1"), 3)
WITH_BARS |= dict.fromkeys(("CliffWalkingSlippery-v1", "Taxi-v4", "Blackjack-v1"), 3)
WITHOUT_BARS = {"CartPole-v1": 3, "Pendulum-v1": 2.5, "Blackjack-v1": 2.5}


def actions_for(env):
    env.action_space.seed(0)
    sampled = [env.action_space.sample() for _ in range(4096)]
    return [int(a) for a in sampled] if np.ndim(sampled[0]) == 0 else sampled


def main() -> int:
    warnings.simplefilter("ignore")
    title = "without Numba" if WITHOUT else "with Numba"
    table = Table(f"One environment, {title}, against gymnasium.make")
    for id in WITH_BARS:
        theirs = gymnasium.make(id)
        if not WITHOUT:
            paddock.make(id).unwrapped.compile()  # into the cache: from then on make() takes it from there
        fresh = playing(paddock.make(id), actions_for(theirs))  # from its first step on
        longest = tail(lambda at, run=fresh: run(1), 5_000)
        actions = actions_for(theirs)
        found = rates({"ours": playing(paddock.make(id), actions), "gymnasium": playing(theirs, actions)}, rounds=9)
        table.row(id, found["ours"], found["gymnasium"], (WITHOUT_BARS if WITHOUT else WITH_BARS).get(id))
        table.note(f"    {longest}")
    failed = table.failed
    if not WITHOUT:
        failed |= subprocess.run([sys.executable, __file__, "--without-numba"], check=False).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
