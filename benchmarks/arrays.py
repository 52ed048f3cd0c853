"""Time of a step through an array conversion, around an environment whose step is free, against Gymnasium's.

    python benchmarks/arrays.py

Torch and JAX live in `.peers/arrays`: where they are missing, the script runs itself there. Bars: 1.05x for one
environment, half of the time for 1024 lanes.
"""

import os
import subprocess
import sys
from pathlib import Path

try:
    import jax.numpy as jnp
    import torch
except ModuleNotFoundError:
    root = Path(__file__).parents[1]
    made = subprocess.run([root / "scripts" / "peer", "arrays"], check=True, capture_output=True, text=True)
    os.environ.update(PYTHONPATH=str(root / "src"), OMP_NUM_THREADS="1")
    os.execv(made.stdout.strip(), [made.stdout.strip(), __file__])

import gymnasium
import numpy as np
from _timing import Table, rates
from gymnasium import spaces as their_spaces

import paddock
from paddock import spaces as our_spaces

LANES = 1024
torch.set_num_threads(1)


def free(base, spaces, xp, rows=()):
    """One environment, or with ``rows`` = (n,) lanes, of arrays of ``xp``."""
    seen, flags = xp.ones((*rows, 4), dtype=xp.float32), xp.zeros(rows, dtype=bool) if rows else False
    rewards = xp.ones(rows, dtype=xp.float32) if rows else 1.0

    class Free(base):
        num_envs = LANES
        observation_space = single_observation_space = spaces.Box(0, 9, (4,))
        action_space = single_action_space = spaces.Discrete(2)
        metadata = {"render_modes": [], "autoreset_mode": "of no matter here"}

        def reset(self, *, seed=None, options=None):
            return seen, {}

        def step(self, action):
            return seen, rewards, flags, flags, {}

    return Free()


def stepping(env, action):
    env.reset()

    def run(count):
        for _ in range(count):
            env.step(action)
        return count

    return run


def main():
    table = Table("steps a second through a conversion")
    single = (paddock.Env, gymnasium.Env, paddock.wrappers, gymnasium.wrappers, (), 1 / 1.05)
    lanes = (
        paddock.VectorEnv,
        gymnasium.vector.VectorEnv,
        paddock.wrappers.vector,
        gymnasium.wrappers.vector,
        (LANES,),
        2.0,
    )
    for our_base, their_base, ours, theirs, rows, bar in (single, lanes):
        for name, xp, to in (("NumpyToTorch", np, torch), ("JaxToNumpy", jnp, np), ("JaxToTorch", jnp, torch)):
            action = to.ones(rows, dtype=to.int64)
            found = rates(
                {
                    "ours": stepping(getattr(ours, name)(free(our_base, our_spaces, xp, rows)), action),
                    "theirs": stepping(getattr(theirs, name)(free(their_base, their_spaces, xp, rows)), action),
                }
            )
            table.row(f"{name}{f', {LANES} lanes' if rows else ''}", found["ours"], found["theirs"], bar)
    sys.exit(table.failed)


if __name__ == "__main__":
    main()
