"""Waiting for the next request or reply: awake for a moment where that has paid off lately, else asleep.

A process that falls asleep costs tens of microseconds when it wakes, and begins with cold caches: more than a cheap
environment's steps. One that stays awake costs a core, so it does so only where there is another one, in one thread at
a time, and while what it waits for keeps coming at once.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time

_MISSES = 3  # in a row: then requests come too late to wait for them awake
_ASLEEP = 200  # waits until it is tried again
_CORES = os.cpu_count() or 1
_turn = threading.Lock()  # two threads of a process that wait awake would wait for each other


class Waiting:
    """Waits until ``sock`` is readable; up to ``awake_s`` seconds of that awake."""

    def __init__(self, sock: socket.socket, awake_s: float = 0.0) -> None:
        # By poll and not by a blocking read: that one is also woken when the peer has read our reply.
        self._readable = select.poll()
        self._readable.register(sock, select.POLLIN)
        self.awake_s = awake_s
        self._misses = 0

    def wait(self) -> None:
        """Return when there is something to read."""
        if not self.is_soon():
            self._readable.poll()

    def is_soon(self) -> bool:
        """Whether there is something to read now, after some waiting awake where that has paid off."""
        if not self.awake_s or _CORES == 1:
            return False
        if self._misses >= _MISSES:
            self._misses = self._misses + 1 if self._misses < _ASLEEP else 0
            return False
        if not _turn.acquire(blocking=False):
            return False
        began = time.perf_counter()
        try:
            came = self._came_while_awake()
        finally:
            _turn.release()
        # Much later than it was to be: others want this core. Who yields it then waits for their whole time slices.
        lost = time.perf_counter() - began > 2 * self.awake_s
        self._misses = _MISSES if lost else 0 if came else self._misses + 1
        return came

    def _came_while_awake(self) -> bool:
        ends = time.perf_counter() + self.awake_s
        while time.perf_counter() < ends:
            if self._readable.poll(0):
                return True
            os.sched_yield()  # to whoever would send it
        return False
