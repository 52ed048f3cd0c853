"""WorkerPoll: which workers have something to say, or are gone. By poll: select refuses descriptors from 1,024 on."""

from __future__ import annotations

import select

from paddock.hosting.frames import milliseconds
from paddock.vector.lane_worker import LaneWorker


class WorkerPoll:
    """Workers by the descriptors of their channel and process. One that is gone must be unwatched: its numbers are
    used again.
    """

    def __init__(self) -> None:
        self._poll = select.poll()
        self._by_fd: dict[int, tuple[LaneWorker, bool]] = {}  # and whether it is the one of the process

    def watch(self, worker: LaneWorker) -> None:
        """From now on, until ``unwatch``."""
        for fd, of_process in ((worker.fd, False), (worker.process_fd, True)):
            if fd is not None:
                self._by_fd[fd] = worker, of_process
                self._poll.register(fd, select.POLLIN)

    def unwatch(self, worker: LaneWorker) -> None:
        """Safe for one that is not watched."""
        for fd in (worker.fd, worker.process_fd):
            if fd is not None and self._by_fd.get(fd, (None, False))[0] is worker:
                del self._by_fd[fd]
                self._poll.unregister(fd)

    def wait(self, timeout_s: float | None) -> dict[LaneWorker, bool]:
        """Workers that have written, or whose process has ended (True); none if the time is over first."""
        events = self._poll.poll(milliseconds(timeout_s))
        heard: dict[LaneWorker, bool] = {}
        for fd, _ in events:
            worker, gone = self._by_fd[fd]
            heard[worker] = heard.get(worker, False) or gone
        return heard
