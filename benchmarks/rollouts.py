"""Many rollouts at once: what paddock adds to a bare asyncio loop, and what its client of models costs.

    python benchmarks/rollouts.py [--quick]

The model is a sleep of 50 ms, so that only the framework's own work counts: 5 turns of a tool call each, in an
environment in this process, and four rollouts in each place. The reference is a bare asyncio loop that steps the same
environments, and keeps nothing. paddock records all steps in a trace. Over HTTP on loopback an endpoint answers after
50 ms, to the built-in client and to the stock ``openai`` client (scripts/peers/rollouts.txt), each in a process of its
own. All sides take turns; figures are medians.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _timing import Table

from paddock.agentic import CallTool, Task, Tasks, ToolEnv, arollout, tool

TURNS, SLEEP_S = 5, 0.05
EACH = 4  # rollouts, one after another, in each place
BARS = {64: 0.85, 256: 0.85, 1024: 0.6}
CPU_BAR_MS = 0.08
HERE = Path(__file__).parent


class Count(ToolEnv):
    """Count to five."""

    tasks = Tasks(train=lambda i: Task(seed=i, prompt="Count."))

    def begin(self, task):
        self._count = 0

    @tool
    def add(self, number: int) -> str:
        """Add a number.

        Args:
            number: any.
        """
        self._count += 1
        if self._count == TURNS:
            self.award(1.0)
            self.finish()
        return str(self._count)


class Unlimited(Count):
    """Count to five, with tools that can't hang."""

    timeout_s = begin_timeout_s = None


async def policy(turn):
    await asyncio.sleep(SLEEP_S)
    return CallTool("add", {"number": 1})


async def bare(kind, count):
    async def one(place):
        env = kind()
        for index in range(EACH * place, EACH * (place + 1)):
            env.reset(options={"index": index})
            over = False
            while not over:
                await asyncio.sleep(SLEEP_S)
                _, _, over, _, _ = env.step(CallTool("add", {"number": 1}))
        env.close()

    await asyncio.gather(*map(one, range(count)))


async def ours(kind, count):
    with tempfile.TemporaryDirectory() as folder:
        trace = f"{folder}/run.jsonl"
        done = await arollout(kind, policy, EACH * count, concurrency=count, trace=trace, progress=False)
    if [one.total_return for one in done] != [1.0] * EACH * count:
        raise RuntimeError(f"rollouts failed: {done.errors[:1]}")


def measure(run):
    """Wall and CPU seconds."""
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    asyncio.run(run)
    return time.perf_counter() - wall, time.process_time() - cpu


def loops(table, rounds):
    """How near to the ideal wall, against the bare loop; and CPU per turn above it."""
    for kind in (Unlimited, Count):
        for count, bar in BARS.items():
            found = {name: [] for name in ("bare", "ours")}
            for _ in range(rounds):
                for name, play in (("bare", bare), ("ours", ours)):
                    found[name].append(measure(play(kind, count)))
            wall = {name: statistics.median(one[0] for one in times) for name, times in found.items()}
            cpu = {name: statistics.median(one[1] for one in times) for name, times in found.items()}
            ideal = EACH * TURNS * SLEEP_S
            what = f"{count} rollouts, {'no limits' if kind is Unlimited else 'default limits'}"
            # In turns a second: the share of the ideal is the same for both.
            most = count * EACH * TURNS
            table.row(f"turns/s, {what}; peer: bare loop", most / wall["ours"], most / wall["bare"], bar)
            print(f"    of the ideal: {ideal / wall['ours']:.2f}, the bare loop {ideal / wall['bare']:.2f}", flush=True)
            above = (cpu["ours"] - cpu["bare"]) / count / EACH / TURNS * 1e3
            print(f"    CPU above the bare loop: {above:.3f} ms a turn, at most {CPU_BAR_MS}", flush=True)
            table.failed += above > CPU_BAR_MS and kind is Unlimited


def verifiers(table, rounds, counts):
    """The same turns by the loop of verifiers, in a process of its own."""
    python = peer("verifiers")
    for count in counts:
        found: dict[str, list[float]] = {}
        for _ in range(rounds):
            wall, cpu = measure(ours(Count, count))
            command = [python, str(HERE / "_rollouts_verifiers.py"), *map(str, (count, EACH, TURNS, SLEEP_S))]
            done = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            for name, value in {
                "wall": wall,
                "cpu": cpu,
                "their wall": done["wall_s"],
                "their cpu": done["cpu_s"],
            }.items():
                found.setdefault(name, []).append(value)
        middle = {name: statistics.median(values) for name, values in found.items()}
        turns = count * EACH * TURNS
        what = f"{count} rollouts; peer: verifiers"
        table.row(f"turns/s, {what}", turns / middle["wall"], turns / middle["their wall"], 1.0)
        table.row(f"turns per CPU second, {what}", turns / middle["cpu"], turns / middle["their cpu"], 1.0)


def peer(name):
    """The Python of a peer's venv."""
    made = subprocess.run([HERE.parent / "scripts" / "peer", name], capture_output=True, text=True, check=True)
    return made.stdout.strip()


def clients(table, rounds):
    """Calls of the built-in client against the stock one's, per second of the client's CPU."""
    program = str(HERE / "_rollouts_http.py")
    pythons = {"ours": sys.executable, "openai": peer("rollouts")}
    server = subprocess.Popen([sys.executable, program, "endpoint"], stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().strip()
        for at_once in (64,):  # more, and calls of the stock client fail on a busy machine
            found = {name: [] for name in pythons}
            for _ in range(rounds):
                for name, python in pythons.items():
                    command = [python, program, name, url, str(10 * at_once), str(at_once)]
                    done = subprocess.run(command, capture_output=True, text=True, check=True)
                    found[name].append(json.loads(done.stdout))
            cpu = {name: statistics.median(one["per_cpu_second"] for one in them) for name, them in found.items()}
            rate = {name: statistics.median(one["per_second"] for one in them) for name, them in found.items()}
            table.row(f"calls per CPU second, {at_once} at once; peer: openai", cpu["ours"], cpu["openai"], 3.0)
            table.row(f"calls per second, {at_once} at once; peer: openai", rate["ours"], rate["openai"], 1.0)
    finally:
        server.kill()
        server.wait()


def main():
    quick = "--quick" in sys.argv
    table = Table(f"Rollouts at once, a model that sleeps {SLEEP_S * 1e3:.0f} ms, {os.cpu_count()} cores")
    loops(table, 3 if quick else 7)
    verifiers(table, 1 if quick else 3, (64,) if quick else (64, 256))
    clients(table, 3 if quick else 5)
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
