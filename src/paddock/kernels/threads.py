"""Helper threads that share the lanes of one step. They wait on locks, never spin, and stand aside on a busy core.

A helper that the system takes off its core in the middle of its part holds up the whole step. So what sharing costs
or saves against one thread is booked step by step: when the account is overdrawn the helpers rest, thirty times as
long as the time that was lost, and are then tried again. What it costs and gains is in docs/benchmarks.md.
"""

from __future__ import annotations

import os
import threading
from itertools import pairwise
from time import perf_counter_ns

import numpy as np

from paddock.kernels import driver
from paddock.kernels.compile import shared_run
from paddock.kernels.lanes import Lanes

_PARTS = 32  # of the lanes; a thread that is done with its own takes over those of a late one
_FORGET = 0.9  # weight of the past in the running mean of a step by one thread
_CREDIT, _OVERDRAFT = 8, 4  # in steps by one thread: what good steps may save up, and what bad ones may cost
_REST = 30  # steps of rest for each step's time that was lost


class Helpers:
    """Steps lanes with ``threads`` threads, this one included."""

    def __init__(self, lanes: Lanes, threads: int) -> None:
        self._lanes = lanes
        self._run = shared_run(lanes.run)
        self._parts_of = -1  # the version of the lanes' block that the parts were made from
        self._pending: list[int] = []  # helpers that were called and have not answered
        self._pid = os.getpid()
        self._work = [threading.Lock() for _ in range(threads)]
        self._done = [threading.Lock() for _ in range(threads)]
        self._counts = [0] * threads
        self._closing = False
        for lock in (*self._work, *self._done):
            lock.acquire()
        self._threads = [threading.Thread(target=self._serve, args=(at,), daemon=True) for at in range(1, threads)]
        for thread in self._threads:
            thread.start()
        self._alone_ns = 0.0
        self._balance_ns = 0.0  # below zero: sharing has cost more than it saved
        self._resting = 4  # the first steps are taken alone, to know what sharing must beat

    def step(self, address: int = 0) -> int:
        """Step every lane; as ``Lanes.step``."""
        if os.getpid() != self._pid:  # a forked child has no helpers
            return self._lanes.step()
        self._collect()  # an interrupt may have ended the step before this one early
        began = perf_counter_ns()
        if self._resting > 0:
            self._resting -= 1
            count = self._lanes.step()
            self._alone_ns = _mean(self._alone_ns, perf_counter_ns() - began)
            return count
        refused = self._lanes.call(driver.VALIDATE)
        if refused < 0:
            return refused
        count = self._share()
        self._book(perf_counter_ns() - began)
        return count

    def _book(self, took_ns: int) -> None:
        alone = max(self._alone_ns, 1.0)
        self._balance_ns = min(self._balance_ns + alone - took_ns, _CREDIT * alone)
        if self._balance_ns < -_OVERDRAFT * alone:
            self._resting = int(_REST * -self._balance_ns / alone)
            self._balance_ns = 0.0

    def _share(self) -> int:
        if self._parts_of != self._lanes.version:  # params were set since
            self._list_parts()
        self._claimed[:] = 0
        for at in range(1, len(self._work)):
            self._pending.append(at)
            self._work[at].release()
        return self._run(self._addresses[0]) + self._collect()

    def _collect(self) -> int:
        """Wait for the helpers that were called; what they counted."""
        count = 0
        while self._pending:
            at = self._pending[-1]
            self._done[at].acquire()
            self._pending.pop()
            count += self._counts[at]
        return count

    def _list_parts(self) -> None:
        """A block for each range of lanes, and for each thread the four words of ``shared_run``."""
        lanes = self._lanes
        bounds = [lanes.count * at // _PARTS for at in range(_PARTS + 1)]
        self._blocks = [lanes.block_of(first, last) for first, last in pairwise(bounds)]
        self._claimed = np.zeros(_PARTS, dtype=np.int64)
        self._block_list = np.array([block.ctypes.data for block in self._blocks], dtype=np.int64)
        shared = _PARTS, self._claimed.ctypes.data, self._block_list.ctypes.data
        threads = len(self._work)
        self._words = np.array([(_PARTS * at // threads, *shared) for at in range(threads)], dtype=np.int64)
        self._addresses = [int(words.ctypes.data) for words in self._words]
        self._parts_of = lanes.version

    def _serve(self, at: int) -> None:
        while True:
            self._work[at].acquire()
            if self._closing:
                return
            self._counts[at] = self._run(self._addresses[at])
            self._done[at].release()

    def close(self) -> None:
        """End the helper threads."""
        if not self._closing and os.getpid() == self._pid:
            self._collect()
            self._closing = True
            for at in range(1, len(self._work)):
                self._work[at].release()
            for thread in self._threads:
                thread.join()


def _mean(past: float, now: float) -> float:
    return float(now) if past == 0.0 else _FORGET * past + (1.0 - _FORGET) * now
