"""Channel: carries a Request to a Host and returns the Reply. It never retries: a step is not safe to run twice."""

from __future__ import annotations

from collections import deque
from typing import Protocol, runtime_checkable

from paddock.errors import ClosedEnvironmentError, NoAsyncCallError, WorkerLost
from paddock.hosting.host import Host
from paddock.hosting.messages import Close, Reply, Request


class Channel(Protocol):
    """Requests may be sent ahead; replies come back in the order of the requests."""

    def send(self, request: Request) -> None:
        """Send a request."""

    def recv(self, timeout: float | None = None) -> Reply:
        """The reply to the oldest request without one; DeadlineExceeded after ``timeout`` seconds."""

    def close(self) -> None:
        """Free the far end; safe to call twice."""


@runtime_checkable
class Killable(Protocol):
    """A channel whose far end can be killed at once."""

    def kill(self, reason: str | None = None, *, cause: str | None = None) -> WorkerLost:
        """Kill the far end; returns what later calls will raise."""


class DirectChannel:
    """To a Host in this process, for tests: ``recv`` carries the request out."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._sent: deque[Request] = deque()
        self._closed = False

    def send(self, request: Request) -> None:
        if self._closed:
            raise ClosedEnvironmentError("This channel is closed. Make the environment again.")
        self._sent.append(request)

    def recv(self, timeout: float | None = None) -> Reply:
        if not self._sent:
            raise NoAsyncCallError("recv() has no request to wait for. Call send(request) first.", "recv")
        return self._host.handle(self._sent.popleft())

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._host.handle(Close())
