"""Crew: threads that share the jobs of one step, the caller's thread among them. They sleep in between.

Who does which job is left to chance, so jobs must not depend on it. A step that is interrupted ends only when no helper
is at work any more: what it was stepping is nobody else's until then.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

Job = tuple[Callable[[Any], None], Any]


class Crew:
    """``threads`` threads, this one included; without a number as many as there are cores for this process."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = usable_cores() if threads is None else threads
        self._helpers = _Helpers()
        weakref.finalize(self, _Helpers.dismiss, self._helpers)

    def run(self, jobs: Sequence[Job]) -> None:
        """Call ``function(argument)`` for each job and return when all are done. What one of them raises is raised."""
        if self.threads == 1 or len(jobs) == 1:
            for function, argument in jobs:
                function(argument)
            return
        helpers = self._helpers
        if not helpers.threads:
            helpers.start(self.threads - 1)
        try:
            helpers.share(jobs)
        except BaseException:  # an interrupt comes at any point, so that nothing counted here can be relied on
            self.rest()
            raise

    def rest(self) -> None:
        """End the helpers, when each is done with its job; the next ``run`` starts others."""
        leaving, self._helpers.threads = self._helpers.threads, []
        self._helpers.dismiss(leaving)
        for thread in leaving:
            thread.join()


class _Helpers:
    """The threads and their queues. They know nothing of the crew, so that one nobody holds any more is collected."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def start(self, count: int) -> None:
        self._pid = os.getpid()
        self._work: SimpleQueue[Job | None] = SimpleQueue()
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        for _ in range(count):
            thread = threading.Thread(target=_help, args=(self._work, self._done), name="paddock lanes", daemon=True)
            thread.start()
            self.threads.append(thread)

    def share(self, jobs: Sequence[Job]) -> None:
        if self._pid != os.getpid():  # threads do not survive a fork
            count, self.threads = len(self.threads), []
            self.start(count)
        work, own = self._work, 0
        for job in jobs:
            work.put(job)
        while (job := _taken(work)) is not None:
            own += 1
            job[0](job[1])
        for _ in range(len(jobs) - own):
            error = self._done.get()
            if error is not None:
                raise error

    def dismiss(self, threads: Sequence[threading.Thread] | None = None) -> None:
        leaving = self.threads if threads is None else threads
        if not leaving or self._pid != os.getpid():
            return
        while _taken(self._work) is not None:
            pass
        for _ in leaving:
            self._work.put(None)


def usable_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _taken(work: SimpleQueue[Job | None]) -> Job | None:
    try:
        return work.get_nowait()
    except Empty:
        return None


def _help(work: SimpleQueue[Job | None], done: SimpleQueue[BaseException | None]) -> None:
    while (job := work.get()) is not None:
        error: BaseException | None = None
        try:
            job[0](job[1])
        except BaseException as raised:  # noqa: BLE001 - for the caller's thread to raise
            error = raised
        job = None  # a helper that waits holds on to nothing
        done.put(error)
        error = None
