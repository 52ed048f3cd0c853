"""Neighbour: another environment of the same program, in the same tier, stepped while an attack goes on.

``fairness`` is the exact figure, from many rounds. Within one attack only a starved neighbour stands out from noise.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from paddock.bench.hostile.attacks.attempt import QUIET
from paddock.core.spec import EnvSpec
from paddock.making import make
from paddock.sandbox.cgroup import controllers
from paddock.sandbox.policy import Policy

TIMES = 3.0  # how much longer than alone a step may take, at its 99th percentile
_STARVED_S = 0.25  # below this a busy machine alone may be the reason
_PAUSE_S = 0.005
_SETTLE_S = 0.5  # for an attack, to get going
_ATTACK = EnvSpec("Hostile/Everything-v0", "paddock.bench.hostile.attacks.resources:TakeEverything")
_ARGUMENTS = {"seconds": 60, "threads": 12, "megabytes": 16}


class Neighbour:
    """Steps a quiet environment in a thread until ``end``, and keeps its observations.

    It is told ``secret`` as an argument, and behind a wall as a variable too.
    """

    def __init__(self, isolation: Any, secret: str) -> None:
        if isinstance(isolation, Policy) or isolation not in ("none", "process"):
            policy = isolation if isinstance(isolation, Policy) else Policy(tier=isolation)
            isolation = replace(policy, variables={"SECRET": secret})
        self._env: Any = make(QUIET, isolation=isolation, env_kwargs={"secret": secret})
        self._over = threading.Event()
        self._observations: list[list[float]] = []
        self._alone_s: list[float] = []
        self._took_s = self._alone_s
        self._problem = ""
        self._thread = threading.Thread(target=self._step, daemon=True)
        self._thread.start()

    def attack_begins(self) -> None:
        """What was measured until now was without the attack."""
        self._took_s = []

    def _step(self) -> None:
        try:
            observation, _ = self._env.reset(seed=7)
            self._observations.append(observation.tolist())
            while not self._over.wait(_PAUSE_S):
                began = time.monotonic()
                observation, *_ = self._next(self._env, len(self._observations))
                self._took_s.append(time.monotonic() - began)
                self._observations.append(observation.tolist())
        except Exception as error:
            self._problem = f"{type(error).__name__}: {error}"[:200]

    def _next(self, env: Any, number: int) -> Any:
        # The same nine observations, again and again.
        return env.reset(seed=7) if number % 9 == 0 else env.step(0)

    def end(self) -> dict[str, Any]:
        """Its steps, how long they took, and what went wrong; the same steps are made here once more, alone."""
        self._over.set()
        self._thread.join(10.0)
        problem = self._problem or ("it hangs" if self._thread.is_alive() else "")
        if not problem:
            self._env.close()
            problem = "" if self._same() else "its observations differ from those of a run alone"
        alone_s, took_s = p99(self._alone_s), p99(self._took_s)
        if not problem and took_s > max(TIMES * alone_s, _STARVED_S):
            problem = f"a step took {took_s:.2f} s, alone {alone_s:.2f} s (99th percentile)"
        return {"steps": len(self._observations), "p99_s": took_s, "alone_p99_s": alone_s, "problem": problem}

    def _same(self) -> bool:
        alone = make(QUIET)
        expected = [alone.reset(seed=7)[0]]
        for number in range(1, min(len(self._observations), 9)):
            expected.append(self._next(alone, number)[0])
        alone.close()
        return all(np.array_equal(one, expected[at % 9].tolist()) for at, one in enumerate(self._observations))


def fairness(tier: str, *, rounds: int = 10, seconds: float = 1.0) -> list[tuple[float, float]]:
    """For each round the 99th percentile of a neighbour's steps: beside an idle session, and beside an attacker.

    The attacker spins, allocates and writes in threads, as much as it may. The two take turns at being first. Measured
    in a process of its own; where a CPU cgroup can be made, other load of this machine has next to no weight beside it.
    """
    with _shield() as place:
        argv = [sys.executable, "-m", __name__, place, tier, str(rounds), str(seconds)]
        done = subprocess.run(argv, stdout=subprocess.PIPE, check=True)  # noqa: S603
    return [(idle_s, attacked_s) for idle_s, attacked_s in json.loads(done.stdout)]


@contextmanager
def _shield() -> Iterator[str]:
    """The folder of a group of great weight, for a process that has not looked at its own groups yet; or ""."""
    cpu = next((one for one in controllers() if one.name == "cpu"), None)
    if cpu is None:
        yield ""
        return
    group = Path(cpu.folder, f"paddock-{os.getpid()}-shield")
    group.mkdir()
    leaf = group if cpu.version == 1 else group / "leaf"  # in v2 groups with others below them hold no processes
    try:
        if cpu.version == 1:
            (group / "cpu.shares").write_text("262144")
        else:
            (group / "cpu.weight").write_text("10000")
            (group / "cgroup.subtree_control").write_text("+cpu +memory +pids")
            leaf.mkdir()
        yield str(leaf)
    finally:
        for folder in dict.fromkeys((leaf, group)):
            with suppress(OSError):
                folder.rmdir()


def _measure(place: str, tier: str, rounds: str, seconds: str) -> None:
    if place:
        Path(place, "cgroup.procs").write_text(str(os.getpid()))
    rounds_s = []
    with make(QUIET, isolation=tier) as env:
        env.reset(seed=7)
        for number in range(int(rounds)):
            sides = [(0, QUIET, {}), (1, _ATTACK, _ARGUMENTS)]
            took_s = [0.0, 0.0]
            for at, spec, arguments in sides[:: -1 if number % 2 else 1]:
                with make(spec, isolation=tier, env_kwargs=arguments) as other:
                    other.reset(seed=7)
                    other.step(0)
                    time.sleep(_SETTLE_S)
                    steps_s: list[float] = []
                    now = time.perf_counter()
                    ends = now + float(seconds)
                    while now < ends:
                        env.step(0)
                        began, now = now, time.perf_counter()
                        steps_s.append(now - began)
                    took_s[at] = p99(steps_s)
            rounds_s.append(took_s)
    print(json.dumps(rounds_s))


def p99(values: list[float]) -> float:
    """The value below which 99 of 100 lie; 0 of none."""
    return sorted(values)[len(values) * 99 // 100] if values else 0.0


if __name__ == "__main__":
    _measure(*sys.argv[1:])
