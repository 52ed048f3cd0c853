"""What it costs to open a session behind the wall: time, starts per second, memory, many at once.

    python benchmarks/sessions.py [--quick] [--many N]

Each row of opening is from connect to the first reset, over ``paddock serve`` with paddock's client; OpenEnv's stock
client on OpenEnv's own server, which has no wall, takes turns with it. ``--many``: how many sessions are alive at once
at the end (1,000), each stepped 20 times.
"""

from __future__ import annotations

import compileall
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path

from _remote_sides import HERE, OpenEnv, Paddock, peer_python

import paddock

QUICK = "--quick" in sys.argv
MANY = int(sys.argv[sys.argv.index("--many") + 1]) if "--many" in sys.argv else 1000
ROUNDS = 15 if QUICK else 61
SPREE_S = 3.0 if QUICK else 10.0
ALIVE = 64
MIB = 1 << 20
OPENENV = """
import asyncio, json, sys, time
from openenv.core.generic_client import GenericEnvClient
async def main():
    for _ in sys.stdin:
        began_s = time.perf_counter()
        client = GenericEnvClient(base_url=sys.argv[1])
        await client.connect()
        await client.reset()
        print(json.dumps(time.perf_counter() - began_s), flush=True)
        await client.close()
asyncio.run(main())
"""


class Bars:
    """Rows of figures with what they may be at most, or must be at least."""

    def __init__(self) -> None:
        self.failed = False

    def row(self, what: str, value: float, unit: str, *, most: float | None = None, least: float | None = None) -> None:
        missed = (most is not None and value > most) or (least is not None and value < least)
        self.failed |= missed
        bar = f"at most {most:g}" if most is not None else f"at least {least:g}" if least is not None else ""
        print(f"{what:62} {value:9.1f} {unit:5} {bar:14} {'MISSED' if missed else 'ok' if bar else ''}", flush=True)


def open_one(url: str) -> float:
    """Seconds from connect to the first reset."""
    began_s = time.perf_counter()
    env = paddock.make(url)
    env.reset(seed=0)
    took_s = time.perf_counter() - began_s
    env.close()
    return took_s


def post(server: Paddock, path: str, body: dict) -> float:
    """Seconds of one stateless request of OpenEnv's HTTP routes."""
    headers = {"authorization": f"Bearer {server.token}", "content-type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", json.dumps(body).encode(), headers)
    began_s = time.perf_counter()
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.CONFLICT:
            raise
        error.read()
    return time.perf_counter() - began_s


def opening(bars: Bars, server: Paddock, peer: OpenEnv, python: str) -> None:
    command, pipe = [python, "-c", OPENENV, f"http://127.0.0.1:{peer.port}"], subprocess.PIPE
    theirs = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def open_theirs() -> float:
        theirs.stdin.write("\n")
        theirs.stdin.flush()
        return json.loads(theirs.stdout.readline())

    cases = {
        "open a walled CartPole, connect to first reset": (lambda: open_one(server.url("CartPole-v1")), 25),
        "open a walled environment of a user's module": (lambda: open_one(server.url("Echo-v0")), 50),
        "stateless POST /reset": (lambda: post(server, "/CartPole-v1/reset", {}), 40),
        "stateless POST /step, whose answer is that it wants a reset": (
            lambda: post(server, "/CartPole-v1/step", {"action": {"action": 0}}),
            40,
        ),
        "peer: OpenEnv's client and server, without a wall": (open_theirs, None),
    }
    found = {name: [] for name in cases}
    for case, _ in cases.values():
        case()  # the first one starts the template
    for _ in range(ROUNDS):
        for name, (case, _) in cases.items():
            found[name].append(case() * 1e3)
    theirs.stdin.close()
    theirs.wait(30)
    theirs.stdout.close()
    for name, (_, most) in cases.items():
        bars.row(name, statistics.median(found[name]), "ms", most=most)
        bars.row("    its 95th percentile", sorted(found[name])[int(len(found[name]) * 0.95)], "ms")


def spree(bars: Bars, server: Paddock) -> None:
    """Open, reset and close without pause, from as many threads as would keep the cores busy."""
    url, ends_s = server.url("CartPole-v1"), time.monotonic() + SPREE_S

    def work(_: int) -> int:
        count = 0
        while time.monotonic() < ends_s:
            open_one(url)
            count += 1
        return count

    with ThreadPoolExecutor(4) as threads:
        bars.row("starts per second", sum(threads.map(work, range(4))) / SPREE_S, "/s", least=60)


def processes_below(pid: int) -> list[int]:
    found, seen = [pid], []
    while found:
        one = found.pop()
        seen.append(one)
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            found += map(int, task.read_text().split())
    return seen


def pss_bytes(pids: list[int]) -> int:
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
    return total


def memory(bars: Bars, server: Paddock) -> None:
    """What each of 64 sessions adds, once each has done 200 steps: all processes below the server's."""
    pid = server.process.pid
    with ExitStack() as stack:
        env = stack.enter_context(paddock.make(server.url("CartPole-v1")))
        env.reset(seed=0)
        before = pss_bytes(processes_below(pid))
        for _ in range(ALIVE):
            env = stack.enter_context(paddock.make(server.url("CartPole-v1")))
            env.reset(seed=0)
            for at in range(200):
                if env.step(at & 1)[2]:
                    env.reset()
        each = (pss_bytes(processes_below(pid)) - before) / ALIVE
        bars.row(f"PSS per session with {ALIVE} alive", each / MIB, "MiB", most=10)


def many(bars: Bars) -> None:
    """So many sessions alive at once, each stepped 20 times; nothing is left when they are closed."""
    with Paddock("CartPole-v1", "--max-sessions", str(MANY + 100)) as server:
        pid, url = server.process.pid, server.url("CartPole-v1")

        def begin(_: int):
            env = paddock.make(url)
            env.reset(seed=0)
            return env

        def play(env) -> bool:
            for at in range(20):
                if env.step(at & 1)[2]:
                    env.reset()
            return True

        began_s = time.monotonic()
        with ThreadPoolExecutor(8) as threads:
            envs = list(threads.map(begin, range(MANY)))
            took_s = time.monotonic() - began_s
            played = sum(threads.map(play, envs))
            count = len(processes_below(pid))
            list(threads.map(lambda env: env.close(), envs))
        bars.row(f"of {MANY} sessions alive at once, percent that did 20 steps", 100 * played / MANY, "%", least=100)
        bars.row(f"    to open them all ({count} processes)", took_s, "s")
        ends_s = time.monotonic() + 30
        while (left := len(processes_below(pid))) > 12 and time.monotonic() < ends_s:
            time.sleep(0.1)
        bars.row("    processes of the server when they are closed", left, "", most=12)


def main() -> int:
    compileall.compile_dir(Path(paddock.__file__).parent, quiet=2)
    python, bars = peer_python(), Bars()
    with (
        Paddock(str(HERE / "remote_worlds"), "CartPole-v1") as server,
        OpenEnv(python) as peer,
    ):
        opening(bars, server, peer, python)
        spree(bars, server)
        memory(bars, server)
        print(f"\nbeside {os.cpu_count()} busy neighbours")
        command = [sys.executable, "-c", "while True: pass"]
        busy = [subprocess.Popen(command, start_new_session=True) for _ in range(os.cpu_count() or 1)]
        try:
            opening(Bars(), server, peer, python)
            spree(Bars(), server)
        finally:
            for process in busy:
                process.kill()
                process.wait()
    many(bars)
    return int(bars.failed)


if __name__ == "__main__":
    raise SystemExit(main())
