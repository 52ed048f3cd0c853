"""What the benchmark scripts share: interleaved rounds, medians, and a table that says whether each bar is met."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any


def rates(cases: dict[str, Callable[[int], int]], *, rounds: int = 9, seconds: float = 0.08) -> dict[str, float]:
    """Median rate a second of each case; a case runs ``k`` calls and returns how many things it did.

    All cases take turns in every round, so that a slow moment of the machine hits them alike.
    """
    calls = {name: _calls_for(run, seconds) for name, run in cases.items()}
    found: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, run in cases.items():
            began = time.perf_counter()
            done = run(calls[name])
            found[name].append(done / (time.perf_counter() - began))
    return {name: statistics.median(values) for name, values in found.items()}


def playing(env: Any, actions: list[Any]) -> Callable[[int], int]:
    """Steps of one environment with 4,096 actions in turn, and a reset where an episode ends."""
    step, reset = env.step, env.reset
    reset(seed=0)

    def run(calls: int) -> int:
        for at in range(calls):
            result = step(actions[at % 4096])
            if result[2] or result[3]:
                reset()
        return calls

    return run


def tail(call: Callable[[int], Any], calls: int) -> str:
    """The 99.9th percentile and the longest of so many calls, as text; ``call`` takes the number of the call."""
    took = []
    for at in range(calls):
        began = time.perf_counter()
        call(at)
        took.append(time.perf_counter() - began)
    took.sort()
    return f"p99.9 {took[int(calls * 0.999)] * 1e3:.3f} ms, longest {took[-1] * 1e3:.3f} ms of {calls:,} steps"


def _calls_for(run: Callable[[int], int], seconds: float) -> int:
    calls = 4
    while True:
        began = time.perf_counter()
        run(calls)
        took = time.perf_counter() - began
        if took > seconds / 4:
            return max(1, int(calls * seconds / took))
        calls *= 4


class Table:
    """Rows of (what, ours, peer, ratio, bar); ``failed`` once a bar is missed."""

    def __init__(self, title: str) -> None:
        self.failed = False
        print(f"\n{title}\n{'':44} {'paddock':>12} {'peer':>12} {'ratio':>7}   bar")

    def row(self, what: str, ours: float, peer: float, bar: float | None = None) -> None:
        """Print a row: rates a second, and the least ratio asked for."""
        ratio = ours / peer
        verdict = "" if bar is None else f"{bar:g}x {'ok' if ratio >= bar else 'MISSED'}"
        self.failed |= bar is not None and ratio < bar
        print(f"{what:44} {ours:12,.0f} {peer:12,.0f} {ratio:7.2f}   {verdict}")

    def note(self, text: str) -> None:
        """Print a line below the rows."""
        print(text)
