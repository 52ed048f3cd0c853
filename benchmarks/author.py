"""An author's kernel, examples/reservoir.py, against the built-in CartPole: is a new environment as fast? One run.

python benchmarks/author.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from _timing import Table, rates

import paddock

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import reservoir  # noqa: F401 - registers its id

BAR = 0.5  # of CartPole's rate


def stepping(id: str, lanes: int):
    env = paddock.make(id, num_envs=lanes)
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = [np.asarray(env.action_space.sample()) for _ in range(16)]

    def run(calls: int) -> int:
        for at in range(calls):
            env.step(actions[at % 16])
        return calls * lanes

    return run


def main() -> int:
    table = Table("The example of docs/kernels.md, fresh arrays, against CartPole (paddock both)")
    for lanes in (1, 8, 64, 1024, 16384):
        found = rates({"example": stepping("me/Reservoir-v0", lanes), "cartpole": stepping("CartPole-v1", lanes)})
        table.row(f"n={lanes}", found["example"], found["cartpole"], BAR)
    return int(table.failed)


if __name__ == "__main__":
    sys.exit(main())
