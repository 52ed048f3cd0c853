"""Lanes in worker processes against Gymnasium's AsyncVectorEnv, in one run.

    python benchmarks/processes.py [--quick]

Rates are env-steps a second through the public ``step``. The same Gymnasium environment runs in both, except where the
row says otherwise. All vector environments are made before the first round and take turns; idle ones only sleep. At the
end 4 and 8 CartPoles step beside as many busy neighbours as there are cores, in this session and in another one.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
import warnings
from functools import partial

import gymnasium
import numpy as np
from _timing import Table, rates, tail

import paddock
import paddock.gym
from paddock import LaneOptions
from paddock.spaces import Box, Discrete

QUICK = "--quick" in sys.argv
ROUNDS = 5 if QUICK else 15
CORES = 2
WARM_UP = 1_200
NEIGHBOUR_ROUNDS, TURNS, TURN_S = (4, 8, 0.05) if QUICK else (20, 20, 0.05)


def work_for(seconds):
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        pass


STEPS = {"cpu": partial(work_for, 0.001), "sleep": partial(time.sleep, 0.001), "image": lambda: None}
SHAPES = {"cpu": (4,), "sleep": (4,), "image": (84, 84, 4)}


def methods(kind):
    """Reset and step of a test environment; the same functions serve both libraries."""

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return self.observation, {}

    def step(self, action):
        STEPS[kind]()
        self.count += 1
        return self.observation, 1.0, self.count >= 200, False, {}

    def close(self):
        pass

    return {"reset": reset, "step": step, "close": close, "metadata": {"render_modes": []}, "render_mode": None}


def test_env(base, spaces, kind):
    dtype = np.uint8 if kind == "image" else np.float32
    env = type(f"{kind.title()}Env", (base,), methods(kind))()
    env.observation_space = spaces.Box(0, 255, SHAPES[kind], dtype)
    env.action_space = spaces.Discrete(2)
    env.observation = np.ones(SHAPES[kind], dtype)
    return env


class Borrowed(paddock.Env):
    """Gymnasium's CartPole, as its own ``make`` gives it, under paddock's spaces."""

    def __init__(self):
        self.theirs = gymnasium.make("CartPole-v1")
        space = self.theirs.observation_space
        self.observation_space, self.action_space = Box(space.low, space.high, dtype=np.float32), Discrete(2)
        self.reset, self.step, self.close = self.theirs.reset, self.theirs.step, self.theirs.close


def stepping(env, title=""):
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    actions = [rng.integers(0, 2, env.num_envs) for _ in range(16)]
    for _ in range(WARM_UP if "Cart" in title else 20):
        env.step(actions[0])

    def run(calls):
        for at in range(calls):
            env.step(actions[at & 15])
        return calls * env.num_envs

    return run


def in_processes(make_one, n, workers):
    """Lanes that are started as Gymnasium starts its own: forked."""
    return paddock.gym.vector.AsyncVectorEnv([make_one] * n, workers=workers)


def compare(title, cases, bars, seconds):
    """Print a row for each of ours against "async", and close everything."""
    table = Table(title)
    try:
        found = rates({name: stepping(env, title) for name, env in cases.items()}, rounds=ROUNDS, seconds=seconds)
        for name, bar in bars.items():
            table.row(name, found[name], found["async"], bar)
            table.note(tail(partial(_step_zeros, cases[name]), 1_000))
    finally:
        for env in cases.values():
            env.close()
    return table, found


def _step_zeros(env, at):
    env.step(np.zeros(env.num_envs, int))


def beside_neighbours(n, *, own_session):
    """A round is many short turns of both. True if the median of the rounds' ratios or the worst misses its bar."""
    make = partial(paddock.gym.make, "CartPole-v1")
    cases = {"ours": paddock.gym.vector.AsyncVectorEnv([make] * n)}
    cases["async"] = gymnasium.vector.AsyncVectorEnv([partial(gymnasium.make, "CartPole-v1")] * n)
    runs = {name: stepping(env, "Cart") for name, env in cases.items()}
    command = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(command, start_new_session=own_session) for _ in range(os.cpu_count() or 1)]
    try:
        ratios = [_round(runs) for _ in range(NEIGHBOUR_ROUNDS)]
        actions = np.zeros(n, int)
        print(f"    {tail(lambda at: cases['ours'].step(actions), 2_000)}")
    finally:
        for process in busy:
            process.kill()
            process.wait()
        for env in cases.values():
            env.close()
    median, worst = statistics.median(ratios), min(ratios)
    verdict = "ok" if median >= 1.0 and worst >= 0.9 else "MISSED"
    where = "another session" if own_session else "this session"
    print(
        f"n = {n}, neighbours in {where}: median {median:.2f}x, worst of {len(ratios)} rounds {worst:.2f}x   {verdict}"
    )
    return verdict != "ok"


def _round(runs):
    steps, took = dict.fromkeys(runs, 0), dict.fromkeys(runs, 0.0)
    for _ in range(TURNS):
        for name, run in runs.items():
            began = time.perf_counter()
            while time.perf_counter() - began < TURN_S:
                steps[name] += run(1)
            took[name] += time.perf_counter() - began
    return (steps["ours"] / took["ours"]) / (steps["async"] / took["async"])


def main():
    warnings.filterwarnings("ignore")
    theirs, failed = gymnasium.vector.AsyncVectorEnv, False
    cartpole = {
        "Gymnasium's CartPole, 2 workers": in_processes(Borrowed, 8, 2),
        "paddock's CartPole, 2 workers": in_processes(partial(paddock.make, "CartPole-v1"), 8, 2),
        "the same by make_vec, workers not forked": paddock.make_vec(
            "CartPole-v1", 8, isolation="process", lanes=LaneOptions(workers=2)
        ),
        "Gymnasium's CartPole, 8 workers": in_processes(Borrowed, 8, 8),
        "async": theirs([partial(gymnasium.make, "CartPole-v1")] * 8),
    }
    bars = {"Gymnasium's CartPole, 2 workers": 4, "paddock's CartPole, 2 workers": 6}
    table, _ = compare(
        "CartPole, n = 8, against AsyncVectorEnv", cartpole, bars | dict.fromkeys(list(cartpole)[2:4]), 0.2
    )
    failed |= table.failed

    for kind, workers, bar, title in (
        ("cpu", CORES, None, "1 ms of CPU a step, n = 8"),
        ("sleep", 8, 1.2, "1 ms of sleep a step, n = 8"),
        ("image", CORES, 4, "observations of 84x84x4 bytes, n = 8"),
    ):
        ours = in_processes(partial(test_env, paddock.Env, paddock.spaces, kind), 8, workers)
        peer = theirs([partial(test_env, gymnasium.Env, gymnasium.spaces, kind)] * 8)
        name = f"{workers} workers"
        table, found = compare(title, {name: ours, "async": peer}, {name: bar}, 0.4)
        failed |= table.failed
        if kind == "cpu":
            ideal = CORES / 0.001
            share = found[name] / ideal
            failed |= share < 0.97
            table.note(f"{share:.1%} of the {ideal:,.0f} a second that {CORES} cores could do (asked: 97 %)")
    print(f"\nCartPole beside {os.cpu_count()} busy neighbours, a worker for each lane, against AsyncVectorEnv")
    for n in (4, 8):
        for own_session in (False, True):
            failed |= beside_neighbours(n, own_session=own_session)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
