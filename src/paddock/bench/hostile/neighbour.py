"""Neighbour: another environment of the same program, in the same tier, stepped while an attack goes on."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from paddock.bench.hostile.quiet import QUIET
from paddock.making import make

_SLOW_S = 1.0  # of one step, microseconds of work: beyond this it was starved
_PAUSE_S = 0.005


class Neighbour:
    """Steps a quiet environment in a thread until ``end``, and keeps what it saw."""

    def __init__(self, isolation: Any) -> None:
        self._env: Any = make(QUIET, isolation=isolation)
        self._over = threading.Event()
        self._seen: list[list[float]] = []
        self._slowest_s = 0.0
        self._problem = ""
        self._thread = threading.Thread(target=self._step, daemon=True)
        self._thread.start()

    def _step(self) -> None:
        try:
            observation, _ = self._env.reset(seed=7)
            self._seen.append(observation.tolist())
            while not self._over.wait(_PAUSE_S):
                began = time.monotonic()
                observation, *_ = self._next(self._env, len(self._seen))
                self._slowest_s = max(self._slowest_s, time.monotonic() - began)
                self._seen.append(observation.tolist())
        except Exception as error:
            self._problem = f"{type(error).__name__}: {error}"[:200]

    def _next(self, env: Any, number: int) -> Any:
        # The same nine observations, again and again.
        return env.reset(seed=7) if number % 9 == 0 else env.step(0)

    def end(self) -> dict[str, Any]:
        """Its steps, the slowest, and what went wrong; the same steps are made here once more, alone."""
        self._over.set()
        self._thread.join(10.0)
        problem = self._problem or ("it hangs" if self._thread.is_alive() else "")
        if not problem:
            self._env.close()
            problem = "" if self._same() else "its observations differ from those of a run alone"
        if not problem and self._slowest_s > _SLOW_S:
            problem = f"a step took {self._slowest_s:.2f} s"
        return {"steps": len(self._seen), "slowest_s": self._slowest_s, "problem": problem}

    def _same(self) -> bool:
        alone = make(QUIET)
        expected = [alone.reset(seed=7)[0]]
        for number in range(1, min(len(self._seen), 9)):
            expected.append(self._next(alone, number)[0])
        alone.close()
        return all(np.array_equal(self._seen[at], expected[at % 9].tolist()) for at in range(len(self._seen)))
