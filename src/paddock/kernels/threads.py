"""Helper threads that share the lanes of one step. They wait on locks, never spin, and stand aside on a busy core.

A helper that the system takes off its core in the middle of a chunk holds up the whole step. So the time of a step
is watched: when sharing is slower than one thread was, the helpers rest for a while and are then tried again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise
from time import perf_counter_ns
from typing import Any

from paddock.kernels import driver
from paddock.kernels.compile import without_the_lock
from paddock.kernels.lanes import Lanes

_FORGET = 0.9  # weight of the past in the running mean of step times
_SHORTEST_REST, _LONGEST_REST = 16, 1024  # steps


class Helpers:
    """Steps lanes with ``threads`` threads, this one included."""

    def __init__(self, lanes: Lanes, threads: int) -> None:
        self._lanes = lanes
        bounds = [lanes.count * at // threads for at in range(threads + 1)]
        run = without_the_lock(lanes.run)
        self._blocks = [Part(lanes, run, first, last) for first, last in pairwise(bounds)]
        self._work = [threading.Lock() for _ in range(threads)]
        self._done = [threading.Lock() for _ in range(threads)]
        self._counts = [0] * threads
        self._closing = False
        for lock in (*self._work, *self._done):
            lock.acquire()
        self._threads = [threading.Thread(target=self._serve, args=(at,), daemon=True) for at in range(1, threads)]
        for thread in self._threads:
            thread.start()
        self._alone_ns, self._shared_ns = 0.0, 0.0
        self._rest, self._resting = _SHORTEST_REST, 1  # the first step is taken alone, to know what sharing must beat

    def step(self, address: int = 0) -> int:
        """Step every lane; as ``Lanes.step``."""
        began = perf_counter_ns()
        if self._resting > 0:
            self._resting -= 1
            count = self._lanes.step()
            self._alone_ns = _mean(self._alone_ns, perf_counter_ns() - began)
            self._shared_ns = 0.0 if self._resting == 0 else self._shared_ns
            return count
        refused = self._lanes.call(driver.VALIDATE)
        if refused < 0:
            return refused
        count = self._share()
        self._shared_ns = _mean(self._shared_ns, perf_counter_ns() - began)
        if self._shared_ns > self._alone_ns:
            self._rest = min(self._rest * 2, _LONGEST_REST)
            self._resting = self._rest
        else:
            self._rest = max(self._rest // 2, _SHORTEST_REST)
        return count

    def _share(self) -> int:
        for at in range(1, len(self._blocks)):
            self._work[at].release()
        count = self._blocks[0].run()
        for at in range(1, len(self._blocks)):
            self._done[at].acquire()
            count += self._counts[at]
        return count

    def _serve(self, at: int) -> None:
        while True:
            self._work[at].acquire()
            if self._closing:
                return
            self._counts[at] = self._blocks[at].run()
            self._done[at].release()

    def close(self) -> None:
        """End the helper threads."""
        if not self._closing:
            self._closing = True
            for at in range(1, len(self._work)):
                self._work[at].release()
            for thread in self._threads:
                thread.join()


class Part:
    """A range of lanes with a block of its own, so that threads do not share the words that say which lanes."""

    def __init__(self, lanes: Lanes, run: Callable[[int], int], first: int, last: int) -> None:
        self._lanes, self._run, self._first, self._last = lanes, run, first, last
        self._made_from: Any = None

    def run(self) -> int:
        """Step these lanes."""
        if self._made_from is not self._lanes.block:  # params were set since: the lanes have a new block
            self._made_from = self._lanes.block
            self._block = self._lanes.block_of(self._first, self._last)
            self._address = self._block.ctypes.data
        return self._run(self._address)


def _mean(past: float, now: float) -> float:
    return float(now) if past == 0.0 else _FORGET * past + (1.0 - _FORGET) * now
