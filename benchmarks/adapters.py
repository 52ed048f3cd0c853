"""Environments in and out: adapters and lanes of simulators against the libraries' own, in one run.

    python benchmarks/adapters.py [--quick]

Rates are env-steps a second through the public ``step``, with the same random actions in both. Lanes are n = 16 with
two threads in each library. EnvPool brings its own builds of MuJoCo and of the ALE. Pictures are scaled to 84x84, gray
and four stacked; a step is four frames and shows the maximum of the last two; up to 30 idle frames come before it all.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings

import ale_py
import envpool
import gymnasium
import numpy as np
from _adapters_sb3 import add_rows
from _timing import Table, playing, rates

import paddock
from paddock import LaneOptions
from paddock.adapters.gymnasium import to_gymnasium

QUICK = "--quick" in sys.argv
ROUNDS = 7 if QUICK else 21
SECONDS = 0.15 if QUICK else 0.4
LANES, THREADS = 16, 2
PICTURES = {"img_height": 84, "img_width": 84, "stack_num": 4, "noop_max": 30, "use_fire_reset": True}
STICKY = {"repeat_action_probability": 0.0, "episodic_life": False, "full_action_space": False}


def single():
    """One environment as a trainer gets it."""
    table = Table("to_gymnasium(CartPole) against gymnasium.make")
    cases = {"ours": to_gymnasium(paddock.make("CartPole-v1")), "theirs": gymnasium.make("CartPole-v1")}
    actions = np.random.default_rng(0).integers(0, 2, 4096).tolist()
    found = rates({name: playing(env, actions) for name, env in cases.items()}, rounds=ROUNDS)
    table.row("CartPole-v1", found["ours"], found["theirs"], 3)
    return table.failed


def sb3():
    """Stable-Baselines3, measured in its own venv."""
    table = Table("Stable-Baselines3's VecEnv against its DummyVecEnv, n = 64")
    add_rows(table)
    return table.failed


def stepping(env, actions):
    """Steps of lanes that restart by themselves."""
    env.reset()
    for batch in actions[:8]:
        env.step(batch)

    def run(calls):
        for at in range(calls):
            env.step(actions[at % len(actions)])
        return calls * LANES

    return run


def compared(cases, actions):
    """Rates of vector environments that take turns; all are closed at the end."""
    try:
        return rates({name: stepping(env, actions) for name, env in cases.items()}, rounds=ROUNDS, seconds=SECONDS)
    finally:
        for env in cases.values():
            env.close()


def physics():
    """MuJoCo in lanes."""
    table = Table(f"MuJoCo, n = {LANES}, {THREADS} threads")
    for id in ("HalfCheetah-v5", "Ant-v5"):
        cases = {
            "ours": paddock.make_vec(id, LANES, lanes=LaneOptions(threads=THREADS)),
            "one": paddock.make_vec(id, LANES, lanes=LaneOptions(threads=1)),
            "EnvPool": envpool.make(id, env_type="gymnasium", num_envs=LANES, num_threads=THREADS),
            "Sync": gymnasium.make_vec(id, LANES, vectorization_mode="sync"),
        }
        space = cases["ours"].action_space
        rng = np.random.default_rng(0)
        found = compared(cases, [rng.uniform(space.low, space.high).astype(np.float32) for _ in range(64)])
        table.row(f"{id} against EnvPool", found["ours"], found["EnvPool"], 0.85)
        table.row(f"{id} against Gymnasium's SyncVectorEnv", found["ours"], found["Sync"], 1.5)
        table.row(f"{id}, one thread, against SyncVectorEnv", found["one"], found["Sync"])
    return table.failed


def games():
    """Atari games in the ALE's own lanes."""
    table = Table(f"Pong, n = {LANES}, {THREADS} threads")
    # Each library has its own words for the same; frames of four with their maximum are EnvPool's only way.
    ale = {"grayscale": True, "frameskip": 4, "maxpool": True, "reward_clipping": True}
    pool = {"gray_scale": True, "frame_skip": 4, "reward_clip": True}
    lanes = LaneOptions(threads=THREADS)
    cases = {
        "ours": paddock.make_vec("ALE/Pong-v5", LANES, backend="ale", lanes=lanes, **PICTURES, **STICKY, **ale),
        "EnvPool": envpool.make(
            "Pong-v5", env_type="gymnasium", num_envs=LANES, num_threads=THREADS, **PICTURES, **STICKY, **pool
        ),
    }
    found = compared(cases, list(np.random.default_rng(0).integers(0, 6, (64, LANES))))
    table.row("Pong against EnvPool", found["ours"], found["EnvPool"], 1)
    return table.failed


def main() -> int:
    warnings.filterwarnings("ignore")
    gymnasium.register_envs(ale_py)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # MuJoCo writes its warnings into a file where it stands
        failed = [section() for section in (single, sb3, physics, games)]
    return int(any(failed))


if __name__ == "__main__":
    sys.exit(main())
