"""The part of adapters.py about Stable-Baselines3: a VecEnv over compiled lanes, and its own DummyVecEnv.

    from _adapters_sb3 import add_rows
    add_rows(table)                     # a _timing.Table

    python benchmarks/_adapters_sb3.py  # this part alone

Both are measured in `.peers/sb3`, in one process, in interleaved rounds, with the same random actions: what is counted
is what an algorithm gets, observations, rewards, dones and infos. Episodes end as they come, about three in each step.
"""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

from _timing import Table, rates

HERE = Path(__file__).resolve()
ROOT = HERE.parents[1]
LANES, BAR = 64, 20.0


def add_rows(table: Table) -> None:
    """Measure in the peer's venv, which is made if it is missing, and print the rows."""
    made = subprocess.run([ROOT / "scripts" / "peer", "sb3"], check=True, capture_output=True, text=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [made.stdout.strip(), str(HERE), "measure"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found = json.loads(done.stdout.splitlines()[-1])
    table.row(f"SB3 VecEnv, {LANES} CartPoles, compiled", found["compiled"], found["dummy"], BAR)
    table.row(f"SB3 VecEnv, {LANES} CartPoles, in a loop", found["loop"], found["dummy"])


def measure() -> dict[str, float]:
    """Steps of environments a second."""
    import gymnasium
    from stable_baselines3.common.vec_env import DummyVecEnv

    from paddock.adapters.sb3 import vec_env

    return rates(
        {
            "compiled": stepping(vec_env("CartPole-v1", LANES)),
            "loop": stepping(vec_env("CartPole-v1", LANES, backend="loop")),
            "dummy": stepping(DummyVecEnv([lambda: gymnasium.make("CartPole-v1")] * LANES)),
        },
        rounds=15,
        seconds=0.15,
    )


def stepping(env):
    """A function that makes so many steps of the VecEnv, and returns how many its lanes made."""
    import numpy as np

    env.seed(0)
    env.reset()
    actions = itertools.cycle(np.random.default_rng(0).integers(0, 2, (997, LANES)))

    def run(count):
        for now in itertools.islice(actions, count):
            env.step(now)
        return count * LANES

    return run


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        print(json.dumps(measure()))
    else:
        table = Table("environment steps a second")
        add_rows(table)
        sys.exit(table.failed)
