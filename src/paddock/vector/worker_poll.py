"""WorkerPoll: which workers have something to say, or are gone. By poll: select refuses descriptors from 1,024 on.

What workers print is taken in on the way, at most so often: one that floods must wait, not this process.
"""

from __future__ import annotations

import select
import time

from paddock.hosting.frames import milliseconds
from paddock.hosting.walled_channel import FLOOD_S
from paddock.vector.lane_worker import LaneWorker


class WorkerPoll:
    """Workers by the descriptors of their channel, process and output. One that is gone must be unwatched: its numbers
    are used again.
    """

    def __init__(self) -> None:
        self._poll = select.poll()
        # And whether it is the one of the process; None for what is printed.
        self._by_fd: dict[int, tuple[LaneWorker, bool | None]] = {}
        self._resting: dict[int, float] = {}  # outputs that are not watched until this time of time.monotonic

    def watch(self, worker: LaneWorker) -> None:
        """From now on, until ``unwatch``."""
        for fd, role in ((worker.fd, False), (worker.process_fd, True), (worker.output_fd, None)):
            if fd is not None:
                self._by_fd[fd] = worker, role
                self._poll.register(fd, select.POLLIN)

    def unwatch(self, worker: LaneWorker) -> None:
        """Safe for one that is not watched."""
        for fd in (worker.fd, worker.process_fd, worker.output_fd):
            if fd is not None and self._by_fd.get(fd, (None, False))[0] is worker:
                del self._by_fd[fd]
                if self._resting.pop(fd, None) is None:
                    self._poll.unregister(fd)

    def wait(self, timeout_s: float | None) -> dict[LaneWorker, bool]:
        """Workers that have written, or whose process has ended (True); none if the time is over first, or something
        was printed.
        """
        if self._resting:
            timeout_s = self._wake(timeout_s)
        events = self._poll.poll(milliseconds(timeout_s))
        heard: dict[LaneWorker, bool] = {}
        for fd, event in events:
            worker, gone = self._by_fd[fd]
            if gone is None:
                self._drain(fd, worker, event)
            else:
                heard[worker] = heard.get(worker, False) or gone
        return heard

    def _drain(self, fd: int, worker: LaneWorker, event: int) -> None:
        self._poll.unregister(fd)
        worker.channel.drain(event)
        if worker.channel.output_fd == fd:
            self._resting[fd] = time.monotonic() + FLOOD_S
        else:  # nothing more can come, and the number may be another's soon
            del self._by_fd[fd]

    def _wake(self, timeout_s: float | None) -> float | None:
        """Watch again what has rested; how long to wait at most."""
        now = time.monotonic()
        for fd, until in list(self._resting.items()):
            if until <= now:
                del self._resting[fd]
                self._poll.register(fd, select.POLLIN)
        if not self._resting:
            return timeout_s
        soonest = min(self._resting.values()) - now
        return soonest if timeout_s is None else min(timeout_s, soonest)
