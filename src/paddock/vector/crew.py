"""Crew: threads that share the jobs of one step, the caller's thread among them. They sleep in between.

Who does which job is left to chance, so jobs must not depend on it. A step that is interrupted ends only when no helper
is at work any more: what it was stepping is nobody else's until then.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

Job = tuple[Callable[[Any], None], Any]


class Crew:
    """``threads`` threads, this one included."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._helpers = _Helpers()
        weakref.finalize(self, _Helpers.dismiss, self._helpers)

    def run(self, jobs: Sequence[Job]) -> None:
        """Call ``function(argument)`` for each job and return when all are done. What one of them raises is raised."""
        if self.threads == 1 or len(jobs) == 1:
            for function, argument in jobs:
                function(argument)
            return
        if not self._helpers.ready():
            self._helpers.start(self.threads - 1)
            self.threads = 1 + len(self._helpers.threads)
        share = _Share(jobs)
        try:
            self._helpers.call(share)
            share.work()
            share.over.acquire()
        except BaseException:  # an interrupt comes at any point, so that nothing counted here can be relied on
            share.jobs.clear()
            self.rest()
            raise
        if share.error is not None:
            raise share.error

    def close(self) -> None:
        """End the helpers for good: what is still asked for is done by the caller's thread."""
        self.threads = 1
        self.rest()

    def rest(self) -> None:
        """End the helpers, when each is done with its job; the next ``run`` starts others."""
        leaving = self._helpers.threads
        self._helpers.dismiss()
        for thread in leaving:
            if thread.ident is not None:  # else an interrupt came before it was started
                thread.join()


class _Share:
    """The jobs of one step. ``over`` is released by whoever does the last of them."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = list(reversed(jobs))
        self.error: BaseException | None = None
        self.over = threading.Lock()
        self.over.acquire()
        self._left, self._counting = len(jobs), threading.Lock()

    def work(self) -> None:
        """Do jobs until none is left to begin. Hot: what is done here is done under the interpreter's lock."""
        jobs = self.jobs
        while True:
            try:
                function, argument = jobs.pop()
            except IndexError:
                return
            try:
                function(argument)
            except BaseException as error:  # an interrupt too: the others are stepped before it is raised
                self.error = self.error or error
            with self._counting:
                self._left -= 1
                last = self._left == 0
            if last:
                self.over.release()


class _Helpers:
    """The threads and their queue. They know nothing of the crew, so that one nobody holds any more is collected."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self._pid = 0

    def ready(self) -> bool:
        return bool(self.threads) and self._pid == os.getpid()  # threads do not survive a fork

    def start(self, count: int) -> None:
        self._pid, self.threads = os.getpid(), []
        self._work: SimpleQueue[_Share | None] = SimpleQueue()
        for _ in range(count):
            thread = threading.Thread(target=_help, args=(self._work,), name="paddock lanes", daemon=True)
            self.threads.append(thread)
            try:
                thread.start()
            except RuntimeError:  # a wall allows no more of them: those that there are do it all
                self.threads.remove(thread)
                return

    def call(self, share: _Share) -> None:
        for _ in self.threads:
            self._work.put(share)

    def dismiss(self) -> None:
        leaving, self.threads = self.threads, []
        if self._pid == os.getpid():
            for _ in leaving:
                self._work.put(None)


def usable_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _help(work: SimpleQueue[_Share | None]) -> None:
    while (share := work.get()) is not None:
        share.work()
        share = None  # a helper that waits holds on to nothing
