"""64 rollouts of PythonCode at once, against the same workspaces without an environment around them.

What the sandboxes allow is the rate of bare runs: as many threads start the same program behind the same wall, give it
the same order, read its answers and end it. A rollout does that twice, by a run and a submission, and also resets,
grades, and keeps what came of it: with the environments in this process, as ``rollout`` makes them, and with each
behind a wall of its own. They are made before the clock starts, as a trainer keeps them. All sides take turns.
"""

from __future__ import annotations

import queue
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

from _timing import Table

import paddock
from paddock.agentic import CallTool, rollout
from paddock.agentic.envs.coding import workspace as running
from paddock.agentic.envs.coding.workspace import python, workspace_policy
from paddock.agentic.envs.python_code import PROBLEMS
from paddock.sandbox import workspace

ID, AT_ONCE, BAR = "paddock/PythonCode", 64, 0.9
CODE = "def solve(*arguments):\n    return 1\n\nprint(solve())\n"
RUNS = 2  # workspaces of one rollout
ARGV = [python(), "-I", "-S", "-u", "-c", running._program(), "call"]


def bare(order):
    """One workspace, and nothing else."""
    with workspace(ARGV, workspace_policy()) as program:
        program.socket.recv(1)
        answers = program.communicate(order, timeout_s=60)
    if not answers.startswith(b"=1\n"):
        raise RuntimeError(f"no answers: {answers!r}")


def policy(turn):
    """Try the program out, and hand it in."""
    return CallTool("submit" if turn.number else "run_code", {"code": CODE})


class Kept(paddock.Wrapper):
    """An environment that goes back to its shelf when it is closed."""

    def __init__(self, env, shelf):
        super().__init__(env)
        self._shelf = shelf

    def close(self):
        self._shelf.put(self)


def measure(table, *, rounds, seconds):
    """The rows of the rollouts."""
    calls = PROBLEMS["test"][0].task(0).hidden["tests"]
    order = repr((CODE.encode(), [tuple(arguments) for arguments, _ in calls])).encode()
    count = AT_ONCE * RUNS  # in a turn: short ones, and many of them, so that what else the machine does hits all alike
    with ExitStack() as stack, ThreadPoolExecutor(AT_ONCE) as threads:
        shelves = [_shelf(stack, threads, isolation) for isolation in (None, "sandbox")]
        cases = {"bare": lambda: list(threads.map(bare, [order] * count))}
        cases |= {
            name: partial(_roll, shelf, count // RUNS) for name, shelf in zip(("here", "apart"), shelves, strict=True)
        }
        found = {name: [] for name in cases}
        for _ in range(rounds):
            for name, run in cases.items():
                began_s = time.perf_counter()
                run()
                found[name].append(count / (time.perf_counter() - began_s))
    rates = {name: statistics.median(one) for name, one in found.items()}
    table.row(f"workspaces/s, {AT_ONCE} rollouts; peer: no environments", rates["here"], rates["bare"], BAR)
    table.row("the same, each environment behind a wall", rates["apart"], rates["bare"], BAR)


def _shelf(stack, threads, isolation):
    """As many environments as play at once."""
    shelf = queue.SimpleQueue()
    for env in threads.map(lambda _: paddock.make(ID, isolation=isolation), range(AT_ONCE)):
        stack.callback(env.close)
        shelf.put(Kept(env, shelf))
    return shelf


def _roll(shelf, count):
    tasks = [("test", at % len(PROBLEMS["test"])) for at in range(count)]
    done = rollout(ID, policy, tasks, concurrency=AT_ONCE, progress=False, make_env=lambda _: shelf.get())
    failed = [one.error for one in done if one.error is not None]
    if failed or any(len(one.rewards) != RUNS for one in done):
        raise RuntimeError(f"rollouts failed: {failed[:1]}")


if __name__ == "__main__":
    alone = Table("Rollouts alone")
    measure(alone, rounds=15, seconds=0.6)
    raise SystemExit(alone.failed)
