"""Frames on a stream socket: whole frames in and out, and waiting for them. Hot: all of it runs once per step."""

from __future__ import annotations

import array
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from paddock.errors import BadFrame
from paddock.hosting.codec import PREFIX_BYTES, decode, decode_prefix
from paddock.hosting.messages import LIMITS, Limits, Message
from paddock.hosting.values import Unpickler

Piece: TypeAlias = "bytes | bytearray | memoryview"
WaitToWrite = Callable[[int, "float | None"], object]

_READ_BYTES = 1 << 16
_PIECES = 512  # a system call takes 1,024
LONGEST_MS = 2**31 - 1  # that poll can count


def write_frame(
    sock: socket.socket, pieces: Sequence[Piece], timeout: float | None = None, wait: WaitToWrite | None = None
) -> None:
    """Send all of a frame; TimeoutError if the peer has not taken it within ``timeout`` seconds.

    Pass ``wait`` to do something else meanwhile: it may return before its time is over.
    """
    rest: list[Piece] = list(pieces)
    ends: float | None = None
    while rest:
        try:
            sent = sock.send(rest[0]) if len(rest) == 1 else sock.sendmsg(rest[:_PIECES])
        except BlockingIOError:
            now = time.monotonic()
            if timeout is not None and ends is None:
                ends = now + timeout
            left = None if ends is None else ends - now
            if left is not None and left < 0:
                raise TimeoutError("the peer does not read what it is sent") from None
            if wait is None:
                wait_for(sock.fileno(), select.POLLOUT, left)
            else:
                wait(sock.fileno(), left)
            continue
        while rest and sent >= len(rest[0]):
            sent -= len(rest.pop(0))
        if sent:
            rest[0] = memoryview(rest[0])[sent:]


def wait_for(fd: int, event: int, timeout: float | None) -> bool:
    """Wait until ``fd`` is ready. By poll: select refuses descriptors from 1,024 on."""
    waiter = select.poll()
    waiter.register(fd, event)
    return bool(waiter.poll(None if timeout is None else min(max(0.0, timeout * 1000), LONGEST_MS)))


class FrameReader:
    """Reads frames from a socket as they arrive. It waits for bytes only if the socket is blocking.

    With ``descriptors=True``, the attribute ``descriptors`` collects file descriptors that come along.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        descriptors: bool = False,
        unpickler: Unpickler | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._sock, self._unpickler, self._limits = sock, unpickler, limits
        self.descriptors: list[int] = []
        self.takes_descriptors = descriptors
        self._small = bytearray(_READ_BYTES)  # several small frames fit: one system call for all of them
        self._view = memoryview(self._small)
        self._start = self._end = 0
        self._large: tuple[int, bytearray, bytearray, int] | None = None  # number, head, body, bytes read of both
        self.is_empty = True  # nothing that was received is left over
        self.began_s = 0.0  # when the first bytes of the frame came that is not complete yet (time.monotonic)

    def next(self) -> tuple[int, Message | BadFrame] | None:
        """The next frame's number and message, or None if not all of it is here. Hot.

        A frame that is not a message comes as the BadFrame that says so. EOFError when the peer closed its end; raises
        BadFrame when the stream can't be followed any further.
        """
        if self._large is not None:
            return self._read_large()
        was_empty = self.is_empty
        if not was_empty:
            if (frame := self._cut()) is not None or self._large is not None:
                return frame
            rest = self._end - self._start
            self._small[:rest] = self._small[self._start : self._end]
            self._start, self._end = 0, rest
        try:
            if self.takes_descriptors:
                count = self._receive_descriptors()
            else:
                count = self._sock.recv_into(self._view[self._end :] if self._end else self._small)
        except BlockingIOError:
            return None
        if count == 0:
            raise EOFError
        self._end += count
        self.is_empty = False
        frame = self._cut()
        if frame is None and was_empty:
            self.began_s = time.monotonic()
        return frame

    def _receive_descriptors(self) -> int:
        room = socket.CMSG_SPACE(array.array("i").itemsize)
        count, ancillary, _, _ = self._sock.recvmsg_into([self._view[self._end :]], room)
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
                self.descriptors += fds
        return count

    def _cut(self) -> tuple[int, Message | BadFrame] | None:
        """The frame at the beginning of what is here, if all of it is; one that can't fit becomes the large one."""
        head_at = self._start + PREFIX_BYTES
        if head_at > self._end:
            return None
        number, head_bytes, body_bytes = decode_prefix(self._view, self._start, limits=self._limits)
        body_at = head_at + head_bytes
        end = body_at + body_bytes
        if end <= self._end:
            head, body = self._small[head_at:body_at], self._small[body_at:end]
            self._start = end
            if end == self._end:
                self._start = self._end = 0
                self.is_empty = True
            try:
                return number, decode(head, body, limits=self._limits, unpickler=self._unpickler)
            except BadFrame as error:
                return number, error
        if end - self._start <= _READ_BYTES:
            return None
        head, body = bytearray(head_bytes), bytearray(body_bytes)
        here = self._view[head_at : self._end]
        in_head = min(len(here), head_bytes)
        head[:in_head] = here[:in_head]
        body[: len(here) - in_head] = here[in_head:]
        self._start = self._end = 0
        self._large = number, head, body, len(here)
        return self._read_large()

    def _read_large(self) -> tuple[int, Message | BadFrame] | None:
        assert self._large is not None
        number, head, body, got = self._large
        while got < len(head) + len(body):
            part, at = (head, got) if got < len(head) else (body, got - len(head))
            try:
                count = self._sock.recv_into(memoryview(part)[at:])
            except BlockingIOError:
                self._large = number, head, body, got
                return None
            if count == 0:
                raise EOFError
            got += count
        self._large, self.is_empty = None, True
        try:
            return number, decode(head, body, limits=self._limits, unpickler=self._unpickler)
        except BadFrame as error:
            return number, error


class FrameCutter:
    """Cuts a stream's bytes into whole frames, for code that passes frames on. It reads only their prefix.

    A bad prefix makes the stream ``bad``: what came before it counts, but feed it nothing more.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._rest = bytearray()  # the beginning of a frame that is not all here
        self._needed = 0  # how many bytes it takes until there can be one
        self.bad = False

    def cut(self, piece: memoryview) -> list[bytes]:
        """The frames that end in this piece, in their order. The piece itself is not kept."""
        if not self._rest:
            frames, rest = self._whole(piece)
            self._rest += rest
            return frames
        self._rest += piece
        if len(self._rest) < self._needed:
            return []
        here = self._rest
        frames, rest = self._whole(memoryview(here))
        self._rest = bytearray(rest)
        return frames

    def _whole(self, piece: memoryview) -> tuple[list[bytes], memoryview]:
        """The whole frames at the beginning of these bytes, and what is left."""
        frames: list[bytes] = []
        at, end = 0, len(piece)
        while (body_at := at + PREFIX_BYTES) <= end:
            try:
                _, head, body = decode_prefix(piece, at, limits=self._limits)
            except BadFrame:
                self.bad = True
                break
            after = body_at + head + body
            if after > end:
                self._needed = after - at
                break
            frames.append(bytes(piece[at:after]))
            at = after
        else:
            self._needed = PREFIX_BYTES
        return frames, piece[at:]


_MISSES = 3  # in a row: then requests come too late to spin for them
_ASLEEP = 200  # waits until spinning is tried again
_turn = threading.Lock()  # two threads of a process that spin would wait for each other


def count_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class SpinWait:
    """Waits until ``sock`` is readable, and spins for up to ``awake_s`` seconds before it sleeps.

    A process that sleeps takes tens of microseconds to wake, and begins with cold caches: more than a cheap
    environment's step. One that spins takes a core, so it does that only where there is another one, in one thread at
    a time, and while what it waits for keeps coming at once.
    """

    def __init__(self, sock: socket.socket, awake_s: float = 0.0) -> None:
        # By poll and not by a blocking read: that also wakes when the peer has read our reply.
        self._readable = select.poll()
        self._readable.register(sock, select.POLLIN)
        self.awake_s = awake_s
        self._misses = 0
        self._alone = count_cores() == 1

    def wait(self) -> None:
        """Return when there is something to read."""
        if not self.spin_until_readable():
            self._readable.poll()

    def spin_until_readable(self) -> bool:
        """Spin for up to ``awake_s`` where that has paid off lately; whether there is something to read now."""
        if not self.awake_s or self._alone:
            return False
        if self._misses >= _MISSES:
            self._misses = self._misses + 1 if self._misses < _ASLEEP else 0
            return False
        if not _turn.acquire(blocking=False):
            return False
        began = time.perf_counter()
        try:
            came = self._spin()
        finally:
            _turn.release()
        # Much later than planned: others want this core, and a process that yields it waits for their time slices.
        lost = time.perf_counter() - began > 2 * self.awake_s
        self._misses = _MISSES if lost else 0 if came else self._misses + 1
        return came

    def _spin(self) -> bool:
        ends = time.perf_counter() + self.awake_s
        while time.perf_counter() < ends:
            if self._readable.poll(0):
                return True
            os.sched_yield()  # to the process that would send it
        return False
