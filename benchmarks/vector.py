"""Compiled lanes against Gymnasium's CartPoleVectorEnv, EnvPool and a hand-written C loop, in one run.

    python benchmarks/vector.py [--quick]

Rates are env-steps a second through the public ``step``, one thread unless said. EnvPool comes with the ``bench``
extra; without it, or without a C compiler, those rows are left out with the reason.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import gymnasium
import numpy as np
from _timing import Table, rates

import paddock
from paddock import LaneOptions

QUICK = "--quick" in sys.argv
ROUNDS = 3 if QUICK else 9
REUSED = LaneOptions(copy=False)
ENVPOOL_IDS = {"Taxi-v4": "Taxi-v3", "CliffWalking-v1": "CliffWalking-v0"}


def actions_for(env):
    env.action_space.seed(0)
    return [np.ascontiguousarray(env.action_space.sample()) for _ in range(16)]


def stepping(env, n, actions):
    step = env.step

    def run(calls):
        for at in range(calls):
            step(actions[at & 15])
        return calls * n

    return run


def ours(id, n, lanes=None):
    env = paddock.make_vec(id, num_envs=n, lanes=lanes)
    env.reset(seed=0)
    return stepping(env, n, actions_for(env))


def gym_vector(n):
    env = gymnasium.make_vec("CartPole-v1", num_envs=n, vectorization_mode="vector_entry_point")
    env.reset(seed=0)
    return stepping(env, n, actions_for(env))


def envpool_vector(id, n):
    import envpool

    with contextlib.redirect_stdout(None):
        env = envpool.make(ENVPOOL_IDS.get(id, id), env_type="gymnasium", num_envs=n, num_threads=1, seed=0)
    env.reset()
    single = paddock.make_vec(id, num_envs=n)
    actions = [a.astype(env.action_space.dtype) for a in actions_for(single)]
    return stepping(env, n, actions)


def c_loop(n, folder):
    """The loop of cartpole.c with the same seeds and actions; checked to give the same bits first."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef("int64_t step_lanes(int64_t n, int64_t limit" + ", void *" * 12 + ");")
    lib = ffi.dlopen(str(shared_library(folder)))
    numbers = [np.zeros(n, np.int64), *(np.zeros(n) for _ in range(4)), np.zeros(n, np.int64), np.ones(n, np.uint8)]
    arrays = [*numbers, np.zeros((n, 4), np.float32), np.zeros(n), np.zeros(n, np.uint8), np.zeros(n, np.uint8)]
    arrays.append(np.zeros((n, 4), np.uint64))
    for lane in range(n):
        state, low = np.random.PCG64(np.random.SeedSequence(lane)).state["state"], (1 << 64) - 1
        arrays[-1][lane] = [state["state"] & low, state["state"] >> 64, state["inc"] & low, state["inc"] >> 64]
    pointers = [ffi.cast("void *", array.ctypes.data) for array in arrays]
    twin = paddock.make_vec("CartPole-v1", num_envs=n)
    actions, step = actions_for(twin), lib.step_lanes
    step(n, 500, *pointers)
    assert (arrays[7] == twin.reset(seed=0)[0]).all()
    for at in range(100):
        arrays[0][...] = actions[at & 15]
        step(n, 500, *pointers)
        assert (arrays[7] == twin.step(actions[at & 15])[0]).all(), "the C loop and the kernel differ"

    def run(calls):
        for at in range(calls):
            arrays[0][...] = actions[at & 15]
            step(n, 500, *pointers)
        return calls * n

    return run


def shared_library(folder):
    path = Path(folder) / "cartpole.so"
    if not path.exists():
        source = Path(__file__).with_name("cartpole.c")
        command = ["cc", "-O3", "-ffp-contract=off", "-shared", "-fPIC", "-o", str(path), str(source), "-lm"]
        subprocess.run(command, check=True)
    return path


def available(what, make):
    try:
        return make()
    except Exception as error:  # whatever it is: a peer that can't run here is named and left out
        print(f"left out: {what}: {type(error).__name__}: {error}")
        return None


def with_peers(cases, n, folder):
    """The cases with EnvPool's CartPole and the C loop beside them, as far as they run here."""
    peers = {
        "envpool": available("envpool", lambda: envpool_vector("CartPole-v1", n)),
        "c": available("c", lambda: c_loop(n, folder)),
    }
    return cases | {name: run for name, run in peers.items() if run is not None}


def many_lanes(folder):
    table = Table("CartPole, many lanes: fresh arrays against Gymnasium and EnvPool, reused buffers against C")
    for n, gym_bar in ((1024, 3.0), (16384, 1.6)):
        cases = {"fresh": ours("CartPole-v1", n), "reused": ours("CartPole-v1", n, REUSED), "gymnasium": gym_vector(n)}
        found = rates(with_peers(cases, n, folder), rounds=ROUNDS)
        table.row(f"n={n} fresh / Gymnasium CartPoleVectorEnv", found["fresh"], found["gymnasium"], gym_bar)
        if "envpool" in found:
            table.row(f"n={n} fresh / EnvPool", found["fresh"], found["envpool"], 30.0)
        if "c" in found:
            table.row(f"n={n} reused / C -O3 through cffi", found["reused"], found["c"], 0.9)
    return table.failed


def few_lanes(folder):
    table = Table("CartPole, few lanes, through the public step")
    for n, bar in ((1, 15.0), (8, 20.0), (64, 20.0)):
        cases = {"fresh": ours("CartPole-v1", n), "reused": ours("CartPole-v1", n, REUSED)}
        found = rates(with_peers(cases, n, folder), rounds=ROUNDS)
        if "envpool" in found:
            table.row(f"n={n} fresh / EnvPool", found["fresh"], found["envpool"], bar)
            table.row(f"n={n} reused / EnvPool", found["reused"], found["envpool"])
        if "c" in found:
            table.row(f"n={n} reused / C -O3 through cffi", found["reused"], found["c"])
    return table.failed


def other_environments():
    table = Table("The others, n=1024, fresh arrays, against EnvPool")
    bars = {"MountainCar-v0": 20, "FrozenLake-v1": 20, "Taxi-v4": 20, "CliffWalking-v1": 20, "Blackjack-v1": 12}
    bars |= {"Pendulum-v1": 7, "Acrobot-v1": 3}
    for id, bar in bars.items():
        cases = {"ours": ours(id, 1024)}
        run = available(f"EnvPool's {id}", lambda id=id: envpool_vector(id, 1024))
        if run is None:
            continue
        found = rates(cases | {"envpool": run}, rounds=ROUNDS)
        table.row(id, found["ours"], found["envpool"], float(bar))
    return table.failed


def threads():
    table = Table("CartPole, n=16384, two threads against one (paddock both)")
    one, two = ours("CartPole-v1", 16384, REUSED), ours("CartPole-v1", 16384, LaneOptions(copy=False, threads=2))
    found = rates({"one": one, "two": two}, rounds=ROUNDS, seconds=0.3)
    table.row("quiet machine", found["two"], found["one"], 1.4)
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        found = rates({"one": one, "two": two}, rounds=ROUNDS, seconds=0.3)
    finally:
        busy.kill()
        busy.wait()
    table.row("another process keeps a core busy", found["two"], found["one"], 0.9)
    return table.failed


def first_use():
    """Seconds from a fresh interpreter to a compiled step, with an empty and with a warm cache."""
    code = (
        "import time, sys; began = time.perf_counter(); import paddock, numpy as np\n"
        "env = paddock.make_vec('CartPole-v1', num_envs=8); env.reset(seed=0); env.step(np.zeros(8, np.int64))\n"
        "print(time.perf_counter() - began)"
    )
    # Bytecode is written as on any machine, whatever is set here.
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        times = []
        for cache in ("first", "kernels", "kernels", "kernels", "kernels"):
            done = subprocess.run(
                [sys.executable, "-c", code],
                env=settings | {"PADDOCK_CACHE": f"{folder}/{cache}", "PYTHONPYCACHEPREFIX": folder},
                check=True,
                capture_output=True,
                text=True,
            )
            times.append(float(done.stdout))
    cold, warm = times[1], sorted(times[2:])[1]  # the very first run also wrote everybody's bytecode
    print(f"\nFirst compiled use, a fresh interpreter: cold {cold:.2f} s (bar 3), warm cache {warm:.2f} s (bar 0.5)")
    return cold > 3.0 or warm > 0.5


def main() -> int:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        missed = [part(folder) for part in (many_lanes, few_lanes)]
    missed += [part() for part in (other_environments, threads, first_use)]
    return int(any(missed))


if __name__ == "__main__":
    sys.exit(main())
