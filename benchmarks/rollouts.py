"""Many rollouts at once: what paddock adds to a bare asyncio loop, and what its client of models costs.

    python benchmarks/rollouts.py [--quick] [--peers PYTHON]

The model is a sleep of 50 ms, so that only the framework's own work counts: 5 turns of a tool call each, in an
environment in this process. The reference is a bare asyncio loop that steps the same environments, each once per
rollout, and keeps nothing. paddock records all steps in a trace. Over HTTP on loopback an endpoint in a process of its
own answers after 50 ms, to the built-in client, to the stock ``openai`` client, and to verifiers' own loop, if PYTHON
has these (scripts/peers/rollouts.txt). All sides take turns; figures are medians.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from _timing import Table

from paddock.agentic import CallTool, Task, Tasks, ToolEnv, arollout, tool

TURNS, SLEEP_S = 5, 0.05
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
    async def one(index):
        env = kind()
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
        done = await arollout(kind, policy, count, concurrency=count, trace=trace, progress=False)
    if [one.total_return for one in done] != [1.0] * count:
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
            ideal = TURNS * SLEEP_S
            what = f"{count} rollouts, {'no limits' if kind is Unlimited else 'default limits'}"
            table.row(f"efficiency, {what}; peer: bare loop", ideal / wall["ours"], ideal / wall["bare"], bar)
            above = (cpu["ours"] - cpu["bare"]) / count / TURNS * 1e3
            print(f"    CPU above the bare loop: {above:.3f} ms a turn, at most {CPU_BAR_MS}", flush=True)
            table.failed += above > CPU_BAR_MS and kind is Unlimited


def main():
    quick = "--quick" in sys.argv
    table = Table(f"Rollouts at once, a model that sleeps {SLEEP_S * 1e3:.0f} ms, {os.cpu_count()} cores")
    loops(table, 3 if quick else 7)
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
