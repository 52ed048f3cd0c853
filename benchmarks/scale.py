"""Many environments at once: lanes in Ray actors, and sessions of slow environments on one server.

    python benchmarks/scale.py [--quick] [ray] [sessions] [walled]

* ray: lane-steps per second with 100 lanes to a call, against one environment per actor stepped by its own calls (plain
  Ray, without paddock around it) on the same cluster, in interleaved rounds. Needs the peer ``rllib``. Bar: 20 times.
* sessions: an environment that takes 100 ms, in 64 sessions. Bar: 90 % of 64 times ten steps per second.
* walled: an environment that takes 1 s, in 512 sessions behind the wall. Bars: every step succeeds, p99 at most 1.2 s.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import paddock

ROOT = Path(__file__).resolve().parents[1]
QUICK = "--quick" in sys.argv
WORLD = """
import time
import paddock

class Slow(paddock.Env):
    observation_space = paddock.spaces.Box(0.0, 1.0, (4,))
    action_space = paddock.spaces.Discrete(2)
    takes_s = 0.1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        time.sleep(self.takes_s)
        return self.observation_space.sample(), 1.0, False, False, {}

class Slower(Slow):
    takes_s = 1.0

paddock.register("Tenth-v0", Slow)
paddock.register("Second-v0", Slower)
"""
RAY = """
import json, os, statistics, sys, time
import numpy as np
import ray
import paddock
from paddock import LaneOptions

rounds, calls = int(sys.argv[1]), 200
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)

@ray.remote
class One:  # what many write by hand: an environment in an actor, one step to a call
    def __init__(self):
        self.env = paddock.make("CartPole-v1")
        self.env.reset(seed=0)

    def step(self, action):
        result = self.env.step(action)
        if result[2] or result[3]:
            self.env.reset()
        return result

one = One.remote()
lanes = paddock.make_vec("CartPole-v1", 100, backend="ray", lanes=LaneOptions(lanes_per_actor=100))
lanes.reset(seed=0)
actions = np.zeros(100, np.int64)
ray.get(one.step.remote(0))
found = {"one": [], "many": []}
for _ in range(rounds):
    began = time.perf_counter()
    for _ in range(calls):
        ray.get(one.step.remote(0))
    found["one"].append(calls / (time.perf_counter() - began))
    began = time.perf_counter()
    for _ in range(calls):
        lanes.step(actions)
    found["many"].append(100 * calls / (time.perf_counter() - began))
lanes.close()
print(json.dumps({name: statistics.median(rates) for name, rates in found.items()}))
"""


class Server:
    """``paddock serve`` of the slow environments; ``with`` ends it."""

    def __init__(self, id: str, sessions: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        Path(self.folder.name, "slow_world.py").write_text(WORLD)
        self.token = secrets.token_hex(16)
        Path(self.folder.name, "tokens").write_text(f"operator {self.token}\n")
        argv = [sys.executable, "-m", "paddock", "serve", f"slow_world:{id}", "--port", "0", "--token-file", "tokens"]
        argv += ["--max-sessions", str(2 * sessions)]
        paths = os.pathsep.join((self.folder.name, str(ROOT / "src")))
        environ = {**os.environ, "PYTHONPATH": paths}
        self.process = subprocess.Popen(argv, cwd=self.folder.name, env=environ, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split()[-1]

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()


async def step_all(server: Server, sessions: int, steps: int, spread_s: float = 0.0) -> tuple[list[float], float, int]:
    """Step all sessions at once: the seconds of each step, those of all together, and how many failed.

    Each begins at a moment of its own within ``spread_s``, or all would ask in the same millisecond of every second.
    """
    remote = paddock.RemoteOptions(token=server.token, connect_s=300.0)
    envs = await asyncio.gather(*(paddock.make_async(server.url, remote=remote) for _ in range(sessions)))
    await asyncio.gather(*(env.reset(seed=at) for at, env in enumerate(envs)))
    taken, failures = [], 0

    async def play(at: int, env: object) -> None:
        nonlocal failures
        await asyncio.sleep(spread_s * at / sessions)
        for _ in range(steps):
            began = time.perf_counter()
            try:
                await env.step(0)  # type: ignore[attr-defined]
            except paddock.PaddockError:
                failures += 1
            taken.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(play(at, env) for at, env in enumerate(envs)))
    whole = time.perf_counter() - began
    await asyncio.gather(*(env.close() for env in envs))
    return taken, whole, failures


def row(name: str, figure: str, bar: str, met: bool) -> bool:
    print(f"{name:44} {figure:38} {bar:22} {'met' if met else 'MISSED'}", flush=True)
    return met


def measure_ray() -> bool:
    python = subprocess.run([ROOT / "scripts/peer", "rllib"], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        environ = {
            **os.environ,
            "RAY_TMPDIR": folder,
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_AUTH_MODE": "token",
        }
        environ |= {"PYTHONPATH": str(ROOT / "src"), "RAY_USAGE_STATS_ENABLED": "0"}
        argv = [python, "-c", RAY, "3" if QUICK else "9"]
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    rates = json.loads(done.stdout.splitlines()[-1])
    ratio = rates["many"] / rates["one"]
    figure = f"{rates['many']:,.0f} against {rates['one']:,.0f} per s, {ratio:.1f}x"
    return row("ray: 100 lane-steps per call", figure, "at least 20x", ratio >= 20)


def measure_sessions() -> bool:
    sessions, steps = 64, 20 if QUICK else 50
    with Server("Tenth-v0", sessions) as server:
        _, whole, failures = asyncio.run(step_all(server, sessions, steps))
    share = sessions * steps / whole / (sessions * 10.0)
    figure = f"{sessions * steps / whole:,.0f} steps/s, {share:.1%}, {failures} failed"
    return row("sessions: 64 of a 100 ms environment", figure, "at least 90 %", share >= 0.9 and not failures)


def measure_walled() -> bool:
    sessions, steps = 64 if QUICK else 512, 10
    with Server("Second-v0", sessions) as server:
        taken, _, failures = asyncio.run(step_all(server, sessions, steps, 1.0))
    p99 = statistics.quantiles(taken, n=100)[98]
    figure = f"{1 - failures / len(taken):.2%} succeed, p99 {p99:.3f} s"
    return row(
        f"walled: {sessions} sessions of a 1 s environment", figure, "100 %, p99 1.2 s", p99 <= 1.2 and not failures
    )


def main() -> int:
    parts = {"ray": measure_ray, "sessions": measure_sessions, "walled": measure_walled}
    chosen = [name for name in parts if name in sys.argv] or list(parts)
    met = [parts[name]() for name in chosen]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
