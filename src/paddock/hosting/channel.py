"""Channel: carries a Request to a Host and returns the Reply. It never retries: a step is not safe to run twice."""

from __future__ import annotations

from typing import Protocol

from paddock.errors import WorkerLost
from paddock.hosting.messages import Request, StepReply


class Channel(Protocol):
    """Requests may be sent ahead; replies come back in the order of the requests."""

    def send(self, request: Request) -> None:
        """Send a request."""

    def recv(self, timeout: float | None = None) -> StepReply:
        """The reply to the oldest request without one; DeadlineExceeded after ``timeout`` seconds."""

    def kill(self, reason: str | None = None, *, cause: str | None = None) -> WorkerLost:
        """Kill the far end at once, from any thread; returns what later calls will raise."""

    def close(self) -> None:
        """Let the environments close, and free the far end; safe to call twice."""
