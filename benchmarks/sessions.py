"""What it costs to open a session behind the wall: time, starts per second, memory, many at once.

    python benchmarks/sessions.py [--quick] [--many N]

Each row of opening is from connect to the first reset, over ``paddock serve`` with paddock's client; OpenEnv's stock
client on OpenEnv's own server, which has no wall, takes turns with it. ``--many``: how many sessions are alive at once
at the end (1,000), each stepped 20 times. All of it is done once more beside as many busy neighbours as cores; no bar
holds there, except that nothing may fail or be left over.
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
from contextlib import ExitStack, closing, suppress
from http import HTTPStatus
from pathlib import Path
from tempfile import gettempdir

from _remote_sides import HERE, OpenEnv, Paddock, peer_python

import paddock
from paddock.sandbox import Machine

QUICK = "--quick" in sys.argv
MANY = int(sys.argv[sys.argv.index("--many") + 1]) if "--many" in sys.argv else 1000
ROUNDS = 15 if QUICK else 61
SPREE_S = 3.0 if QUICK else 10.0
ALIVE = 64
SPARES = 2  # that a server keeps by default
GROUPS = {one.folder for one in Machine.here().cgroups}
MIB = 1 << 20
SETTLE_S = 0.1  # in which the last session's worker ends and the next spare starts: `spree` measures the rush
PATIENCE_S = 300.0  # for an answer on a machine whose cores others keep busy
OPENENV = f"""
import asyncio, json, sys, time
from openenv.core.generic_client import GenericEnvClient
async def main():
    for _ in sys.stdin:
        began_s = time.perf_counter()
        client = GenericEnvClient(sys.argv[1], connect_timeout_s={PATIENCE_S}, message_timeout_s={PATIENCE_S})
        await client.connect()
        await client.reset()
        print(json.dumps(time.perf_counter() - began_s), flush=True)
        await client.close()
asyncio.run(main())
"""


class Bars:
    """Rows of figures with what they may be at most, or must be at least. ``busy``: beside others no time has a bar."""

    def __init__(self) -> None:
        self.failed = self.busy = False

    def row(self, what: str, value: float, unit: str, *, most: float | None = None, least: float | None = None) -> None:
        if self.busy and unit in ("ms", "/s"):
            most = least = None
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
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.CONFLICT:
            raise
        error.read()
    return time.perf_counter() - began_s


class Peer:
    """OpenEnv's client in a process of its own, opening one session after the other."""

    def __init__(self, python: str, server: OpenEnv) -> None:
        command, pipe = [python, "-c", OPENENV, f"http://127.0.0.1:{server.port}"], subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def open_one(self) -> float:
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)
        self._process.stdout.close()


def opening(bars: Bars, server: Paddock, peer: Peer, rounds: int) -> None:
    cases = {
        "open a walled CartPole, connect to first reset (aim: 15)": (lambda: open_one(server.url("CartPole-v1")), 25),
        "open a walled environment of a user's module": (lambda: open_one(server.url("Echo-v0")), 50),
        "stateless POST /reset": (lambda: post(server, "/CartPole-v1/reset", {}), 40),
        "stateless POST /step, whose answer is that it wants a reset": (
            lambda: post(server, "/CartPole-v1/step", {"action": {"action": 0}}),
            40,
        ),
        "peer: OpenEnv's client and server, without a wall": (peer.open_one, None),
    }
    found = {name: [] for name in cases}
    for case, _ in cases.values():
        case()  # the first one starts the template
    for _ in range(rounds):
        for name, (case, _) in cases.items():
            time.sleep(SETTLE_S)
            found[name].append(case() * 1e3)
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
            with suppress(OSError):  # it has ended meanwhile
                found += map(int, task.read_text().split())
    return seen


def traces(pids: list[int]) -> dict[str, set[Path]]:
    """What these processes of a server have made and is still there, and those of them that are workers."""
    return {
        "workers": {path for one in pids if name_of(path := Path(f"/proc/{one}")) == "paddock-worker"},
        "cgroups": {path for one in pids for folder in GROUPS for path in Path(folder).glob(f"paddock-{one}-*")},
        "scratch folders": {path for one in pids for path in Path(gettempdir()).glob(f"paddock-scratch-{one}-*")},
    }


def name_of(process: Path) -> str:
    with suppress(OSError):
        return (process / "comm").read_text().strip()
    return ""


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
        bars.row(f"PSS per session with {ALIVE} alive (aim: 6)", each / MIB, "MiB", most=10)


def begin(url: str):
    """A session that has been reset, or the error."""
    try:
        env = paddock.make(url)
        env.reset(seed=0)
    except paddock.PaddockError as error:
        return error
    return env


def play(env) -> bool:
    """Whether it did 20 steps. ``env`` may be the error that ``begin`` returned."""
    try:
        if isinstance(env, Exception):
            raise env
        for at in range(20):
            if env.step(at & 1)[2]:
                env.reset()
    except paddock.PaddockError as error:
        print(f"    {error}")
        return False
    return True


def many(bars: Bars) -> None:
    """So many sessions alive at once, each stepped 20 times; nothing is left when they are closed."""
    with Paddock("CartPole-v1", "--max-sessions", str(MANY + 100)) as server, ThreadPoolExecutor(8) as threads:
        pid, url = server.process.pid, server.url("CartPole-v1")
        began_s = time.monotonic()
        envs = list(threads.map(begin, [url] * MANY))
        took_s = time.monotonic() - began_s
        played = sum(threads.map(play, envs))
        count = len(processes_below(pid))
        list(threads.map(lambda env: env.close(), [env for env in envs if not isinstance(env, Exception)]))
        bars.row(f"of {MANY} sessions alive at once, percent that did 20 steps", 100 * played / MANY, "%", least=100)
        bars.row(f"    to open them all ({count} processes)", took_s, "s")
        most = {"workers": SPARES, "cgroups": SPARES * len(GROUPS), "scratch folders": 0}
        closed = wait_until(
            lambda: traces(processes_below(pid)), lambda found: all(len(found[what]) <= most[what] for what in most)
        )
        pids = processes_below(pid)
    paths = {Path(f"/proc/{one}") for one in pids}.union(*closed.values(), *traces(pids).values())
    left = wait_until(lambda: {path for path in paths if path.exists()}, lambda found: not found)
    for what, found in closed.items():
        bars.row(f"    {what} when they are closed, with the spares'", len(found), "", most=most[what])
    bars.row(f"    of these and all {len(pids)} processes, when the server has ended", len(left), "", most=0)


def wait_until(look, good):
    """What ``look`` finds, once that is good or a minute has passed."""
    ends_s = time.monotonic() + 60
    while not good(found := look()) and time.monotonic() < ends_s:
        time.sleep(0.1)
    return found


def measure(bars: Bars, python: str) -> None:
    rounds = ROUNDS // 3 if bars.busy else ROUNDS
    with (
        Paddock(str(HERE / "remote_worlds"), "CartPole-v1") as server,
        OpenEnv(python) as theirs,
        closing(Peer(python, theirs)) as peer,
    ):
        opening(bars, server, peer, rounds)
        spree(bars, server)
        memory(bars, server)
    many(bars)


def main() -> int:
    compileall.compile_dir(Path(paddock.__file__).parent, quiet=2)
    python, bars = peer_python(), Bars()
    measure(bars, python)
    print(f"\nbeside {os.cpu_count()} busy neighbours")
    bars.busy = True
    command = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(command, start_new_session=True) for _ in range(os.cpu_count() or 1)]
    try:
        measure(bars, python)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    return int(bars.failed)


if __name__ == "__main__":
    raise SystemExit(main())
