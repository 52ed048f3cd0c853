"""WorkerPoll: which workers have something to say. By poll: select refuses descriptors from 1,024 on."""

from __future__ import annotations

import select

from paddock.vector.lane_worker import LaneWorker


class WorkerPoll:
    """Workers by the descriptor of their channel. One that is gone must be unwatched: its number is used again."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._by_fd: dict[int, LaneWorker] = {}

    def watch(self, worker: LaneWorker) -> None:
        """From now on, until ``unwatch``."""
        self._by_fd[worker.fd] = worker
        self._poll.register(worker.fd, select.POLLIN)

    def unwatch(self, worker: LaneWorker) -> None:
        """Safe for one that is not watched."""
        if self._by_fd.get(worker.fd) is worker:
            del self._by_fd[worker.fd]
            self._poll.unregister(worker.fd)

    def wait(self, timeout_ms: float | None) -> list[LaneWorker]:
        """Workers that have written, or are gone; none if the time is over first."""
        return [self._by_fd[fd] for fd, _ in self._poll.poll(timeout_ms)]
