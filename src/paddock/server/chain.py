"""The chain over what a session carried out, and its repetition into a new worker. Equal heads mean equal episodes.

``h_i = sha256(h_(i-1) + sha256(request_i) + sha256(reply_i))`` over whole frames. h_0 is the digest of the journal's
header, so the same requests in another environment have another chain.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from hashlib import sha256

Frame = bytes | bytearray | memoryview


def digest(frame: Frame) -> bytes:
    """What stands for a frame: 32 bytes."""
    return sha256(frame).digest()


def extended(head: bytes, request: bytes, reply: bytes) -> bytes:
    """The next head, from the digests of a request and of its reply."""
    return sha256(head + request + reply).digest()


class Replay:
    """Requests to put to a new worker, in this order, and what came of it.

    Send ``frames`` (several ahead if you like), give each reply to ``add``, and the whole to ``Session.rebuilt`` once
    ``complete``. The replies must come as the session would have got them: the same bytes, with the same numbers.
    """

    def __init__(self, origin: bytes, frames: Sequence[bytes], *, window: int) -> None:
        self.frames, self.chain = frames, origin
        self.done = 0
        self.tail: deque[tuple[bytes, bytes]] = deque(maxlen=window)  # digest of a request, its reply

    @property
    def complete(self) -> bool:
        """Whether every request has its reply."""
        return self.done == len(self.frames)

    def add(self, reply: bytes) -> None:
        """The next reply."""
        request = digest(self.frames[self.done])
        self.chain = extended(self.chain, request, digest(reply))
        self.tail.append((request, reply))
        self.done += 1
