"""The newest replies of a session, for requests that are sent again. Bounded in number and in bytes.

A reader would get wrong: the newest reply is kept however large it is, since a client with one request at a time must
always be able to get it.
"""

from __future__ import annotations

from collections import deque


class KeptReplies:
    """Replies with the digests of their requests; the oldest ones go first."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._kept: deque[tuple[bytes, bytes]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, request: bytes, reply: bytes) -> None:
        """The reply to the request with this digest; it is the newest from now on."""
        self._kept.append((request, reply))
        self._bytes += len(reply)
        while len(self._kept) > self._most or (self._bytes > self._most_bytes and len(self._kept) > 1):
            self._bytes -= len(self._kept.popleft()[1])

    def before_newest(self, steps: int) -> tuple[bytes, bytes] | None:
        """Digest and reply that many requests before the newest; None if it is not kept."""
        place = len(self._kept) - 1 - steps
        return self._kept[place] if place >= 0 else None

    def clear(self) -> None:
        """Keep none."""
        self._kept.clear()
        self._bytes = 0
