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
Wait = Callable[[int, int, "float | None"], bool]

_READ_BYTES = 1 << 16
_PIECES = 512  # a system call takes 1,024
_LONGEST_MS = 2**31 - 1


def write_frame(
    sock: socket.socket, pieces: Sequence[Piece], timeout: float | None = None, wait: Wait | None = None
) -> None:
    """Send all of a frame; TimeoutError if the peer has not taken it within ``timeout`` seconds.

    Pass ``wait`` in place of ``wait_for`` to do something else meanwhile.
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
            if (left is not None and left < 0) or not (wait or wait_for)(sock.fileno(), select.POLLOUT, left):
                raise TimeoutError("the peer does not read what it is sent") from None
            continue
        while rest and sent >= len(rest[0]):
            sent -= len(rest.pop(0))
        if sent:
            rest[0] = memoryview(rest[0])[sent:]


def wait_for(fd: int, event: int, timeout: float | None) -> bool:
    """Wait until ``fd`` is ready. By poll: select refuses descriptors from 1,024 on."""
    waiter = select.poll()
    waiter.register(fd, event)
    return bool(waiter.poll(milliseconds(timeout)))


def milliseconds(seconds: float | None) -> float | None:
    """A time limit as poll takes it: not negative, and within what it can count."""
    return None if seconds is None else min(max(0.0, seconds * 1000), _LONGEST_MS)


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
        self.began_s = 0.0  # when the first bytes of the frame came that is not complete yet (time.monotonic)

    @property
    def is_empty(self) -> bool:
        """Whether nothing that was received is left over."""
        return self._start == self._end and self._large is None

    def next(self) -> tuple[int, Message | BadFrame] | None:
        """The next frame's number and message, or None if not all of it is here.

        A frame that is not a message comes as the BadFrame that says so. EOFError when the peer closed its end; raises
        BadFrame when the stream can't be followed any further.
        """
        if self._large is not None:
            return self._read_large()
        empty = self._start == self._end
        if not empty and (frame := self._read_small_frame()) is not None:
            return frame
        if self._large is not None:
            return None
        count = self._receive()
        if count is None:
            return None
        self._end += count
        frame = self._read_small_frame()
        if frame is None and empty:
            self.began_s = time.monotonic()
        return frame

    def _receive(self) -> int | None:
        """Read what the socket has, after what is here already: how many bytes, None for none yet."""
        if self._start:
            rest = self._end - self._start
            self._small[:rest] = self._small[self._start : self._end]
            self._start, self._end = 0, rest
        try:
            if self.takes_descriptors:
                room = socket.CMSG_SPACE(array.array("i").itemsize)
                count, ancillary, _, _ = self._sock.recvmsg_into([self._view[self._end :]], room)
                for level, kind, data in ancillary:
                    if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                        fds = array.array("i")
                        fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
                        self.descriptors += fds
            else:
                count = self._sock.recv_into(self._view[self._end :] if self._end else self._small)
        except BlockingIOError:
            return None
        if count == 0:
            raise EOFError
        return count

    def _read_small_frame(self) -> tuple[int, Message | BadFrame] | None:
        """A frame that is complete in the small buffer; one that can't fit there becomes the large one."""
        at = self._start + PREFIX_BYTES
        if at > self._end:
            return None
        number, head_bytes, body_bytes = decode_prefix(self._view[self._start : at], limits=self._limits)
        end = at + head_bytes + body_bytes
        if end <= self._end:
            head, body = self._small[at : at + head_bytes], self._small[at + head_bytes : end]
            self._start = end
            if self._start == self._end:
                self._start = self._end = 0
            try:
                return number, decode(head, body, limits=self._limits, unpickler=self._unpickler)
            except BadFrame as error:
                return number, error
        if end - self._start > _READ_BYTES:
            self._begin_large(number, bytearray(head_bytes), bytearray(body_bytes), at)
            return self._read_large()
        return None

    def _begin_large(self, number: int, head: bytearray, body: bytearray, at: int) -> None:
        here = self._view[at : self._end]
        in_head = min(len(here), len(head))
        head[:in_head] = here[:in_head]
        body[: len(here) - in_head] = here[in_head:]
        self._start = self._end = 0
        self._large = number, head, body, len(here)

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
        self._large = None
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
                _, head, body = decode_prefix(piece[at:body_at], limits=self._limits)
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
_CORES = os.cpu_count() or 1
_turn = threading.Lock()  # two threads of a process that spin would wait for each other


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

    def wait(self) -> None:
        """Return when there is something to read."""
        if not self.spin_until_readable():
            self._readable.poll()

    def spin_until_readable(self) -> bool:
        """Spin for up to ``awake_s`` where that has paid off lately; whether there is something to read now."""
        if not self.awake_s or _CORES == 1:
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
