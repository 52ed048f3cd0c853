"""Carry bytes between two sockets. Neither side is understood here: who may be connected was decided before."""

from __future__ import annotations

import select
import socket
from contextlib import suppress

_PIECE = 64 * 1024


class _Way:
    """One direction: what was read and not yet written, and how far it has ended."""

    def __init__(self, source: socket.socket, sink: socket.socket, left: int, early: bytes) -> None:
        self.source, self.sink, self.left = source, sink, left - len(early)
        self.waiting = bytearray(early)
        self.reads, self.over = True, False

    def read(self) -> None:
        try:
            piece = self.source.recv(_PIECE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            piece = b""
        self.reads = bool(piece)
        self.left -= len(piece)
        self.waiting += piece

    def write(self) -> None:
        try:
            sent = self.sink.send(self.waiting) if self.waiting else 0
            del self.waiting[:sent]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.waiting.clear()
            self.reads = False
        if not self.waiting and not self.reads and not self.over:
            self.over = True
            with suppress(OSError):
                self.sink.shutdown(socket.SHUT_WR)


def relay(near: socket.socket, far: socket.socket, *, idle_s: float, limit: int, early: bytes = b"") -> str:
    """Until both sides have ended ("served"), none has said anything for ``idle_s`` or one way is past ``limit`` bytes.

    ``early`` is what ``near`` has sent already.
    """
    ways = (_Way(near, far, limit, early), _Way(far, near, limit, b""))
    near.setblocking(False)
    far.setblocking(False)
    while not all(way.over for way in ways):
        if any(way.left < 0 for way in ways):
            return "too large"
        if not _turn(ways, idle_s):
            return "timeout"
    return "served"


def _turn(ways: tuple[_Way, _Way], idle_s: float) -> bool:
    """Move what can be moved; False if nothing could within ``idle_s``."""
    wanted: dict[int, int] = {}
    for way in ways:
        # One piece at a time: the reader's pace is the writer's.
        if way.waiting or (not way.reads and not way.over):
            wanted[way.sink.fileno()] = wanted.get(way.sink.fileno(), 0) | select.POLLOUT
        elif way.reads:
            wanted[way.source.fileno()] = wanted.get(way.source.fileno(), 0) | select.POLLIN
    poll = select.poll()
    for fd, events in wanted.items():
        poll.register(fd, events)
    ready = dict(poll.poll(idle_s * 1000))
    for way in ways:
        if way.waiting or (not way.reads and not way.over):
            if ready.get(way.sink.fileno(), 0):
                way.write()
        elif way.reads and ready.get(way.source.fileno(), 0):
            way.read()
    return bool(ready)
