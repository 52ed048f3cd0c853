"""What the wall costs: sandboxed workers against plain worker processes, in one run on one core.

    python benchmarks/sandbox.py [--quick] [--fairness]

Both sides of every pair have the same environment, transport and core, and take turns; the wall's checks of everything
that comes out are on. "Ready" is from ``make`` to the environment's description. ``--fairness``
measures only how much longer a neighbour's steps take beside an attacker, on all cores. A worker is forked from a
template; "fresh" starts an interpreter instead.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from contextlib import ExitStack

import numpy as np
from _timing import Table, rates

import paddock
from paddock import LaneOptions
from paddock.bench.hostile.neighbour import fairness
from paddock.sandbox import Machine, Policy

QUICK = "--quick" in sys.argv
ROUNDS = 7 if QUICK else 21
STARTS = 7 if QUICK else 21
ID = "CartPole-v1"


def stepping_one(env):
    env.reset(seed=0)

    def run(calls):
        for at in range(calls):
            if env.step(at & 1)[2]:
                env.reset()
        return calls

    return run


def stepping_lanes(envs):
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    actions = [rng.integers(0, 2, envs.num_envs) for _ in range(16)]

    def run(calls):
        for at in range(calls):
            envs.step(actions[at & 15])
        return calls * envs.num_envs

    return run


def lanes(count, isolation):
    """Lanes of plain Python in one worker, or here in a loop."""
    if isolation is None:
        return paddock.make_vec(ID, count, backend="loop")
    return paddock.make_vec(ID, count, isolation=isolation, lanes=LaneOptions(workers=1))


def steps(table):
    with ExitStack() as stack:
        made = {tier: stack.enter_context(paddock.make(ID, isolation=tier)) for tier in ("sandbox", "process")}
        found = rates({tier: stepping_one(env) for tier, env in made.items()}, rounds=ROUNDS, seconds=0.2)
    table.row("steps/s, one environment over the socket", found["sandbox"], found["process"], 0.9)
    for count in (1, 8):
        made = {tier: lanes(count, tier) for tier in ("sandbox", "process")}
        try:
            found = rates({tier: stepping_lanes(envs) for tier, envs in made.items()}, rounds=ROUNDS, seconds=0.2)
        finally:
            for envs in made.values():
                envs.close()
        table.row(f"steps/s, shared memory, lanes: {count}", found["sandbox"], found["process"], 0.85)


def many_lanes(table):
    made = {"sandbox": lanes(64, "sandbox"), "here": lanes(64, None)}
    try:
        found = rates({name: stepping_lanes(envs) for name, envs in made.items()}, rounds=ROUNDS, seconds=0.2)
    finally:
        for envs in made.values():
            envs.close()
    table.row("steps/s, 64 lanes; peer: in this process", found["sandbox"], found["here"], 0.4)


def start_s(isolation):
    began = time.perf_counter()
    env = paddock.make(ID, isolation=isolation)
    took = time.perf_counter() - began
    env.close()
    return took


def starts():
    """Medians of seconds to ready: plain process, sandbox from a template or fresh, sandbox from the warm pool."""
    found = {"process": [], "sandbox": [], "fresh": [], "warm": []}
    start_s("sandbox")  # starts the template
    for _ in range(STARTS):
        found["process"].append(start_s("process"))
        found["sandbox"].append(start_s("sandbox"))
        found["fresh"].append(start_s(Policy(fresh=True)))
        with paddock.warm(ID, spares=1) as pool:
            pool.wait(60)
            found["warm"].append(start_s("sandbox"))
    return {name: statistics.median(values) for name, values in found.items()}


def fair():
    """The 99th percentile of a neighbour's step beside an attacker, against that beside an idle session."""
    grouped = any(one.name == "cpu" for one in Machine.here().cgroups)
    failed = False
    for tier in ("sandbox", "landlock"):
        pairs = fairness(tier, rounds=10 if QUICK else 15)
        ratios = [attacked / idle for idle, attacked in pairs]
        idle, attacked = (statistics.median(values) * 1e6 for values in zip(*pairs, strict=True))
        ratio = statistics.median(ratios)
        failed |= grouped and ratio > 1.25
        bar = f"asked: at most 1.25x) {'ok' if ratio <= 1.25 else 'MISSED'}" if grouped else "no CPU cgroup here)"
        print(
            f"{tier:8} p99 of a neighbour's step: beside an attacker {attacked:.0f} us, beside an idle session "
            f"{idle:.0f} us; median of {len(ratios)}: {ratio:.2f}x, {min(ratios):.2f}x to {max(ratios):.2f}x ({bar}"
        )
    return failed


def main():
    unfair = fair()
    if "--fairness" in sys.argv:
        return int(unfair)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # workers inherit it
    table = Table("Sandboxed against plain worker processes, CartPole, one core")
    steps(table)
    many_lanes(table)
    took = starts()
    failed = table.failed or unfair
    for name, peer, bar in (
        ("sandbox", "fresh", 0.15),
        ("sandbox", "process", 1.6),
        ("fresh", "process", 1.6),
        ("warm", "process", 0.3),
    ):
        ratio = took[name] / took[peer]
        failed |= ratio > bar
        verdict = "ok" if ratio <= bar else "MISSED"
        table.note(
            f"start to ready, {name:8} {took[name] * 1e3:6.1f} ms against {took[peer] * 1e3:.1f} ms {peer}: "
            f"{ratio:.2f}x (asked: at most {bar}x) {verdict}"
        )
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
