"""Frames on a stream socket: whole frames in and out. A peer that sends half of one costs nobody more than its time.

Steps in shared memory and their replies differ from the ones before only in their number, so they are recognised by
their bytes and neither encoded nor decoded again. Hot: everything here runs once a worker and step.
"""

from __future__ import annotations

import array
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from paddock.errors import BadFrame
from paddock.hosting.codec import PREFIX_BYTES, decode, decode_prefix, encode
from paddock.hosting.limits import LIMITS, Limits
from paddock.hosting.messages import Done, Message, Step
from paddock.hosting.one_step import read
from paddock.hosting.values import Unpickler

Piece: TypeAlias = "bytes | bytearray | memoryview"
Wait = Callable[[int, int, "float | None"], bool]

_READ_BYTES = 1 << 16
_PIECES = 512  # a system call takes 1,024
_LONGEST_MS = 2**31 - 1
_NUMBER = struct.Struct("<I")
_NUMBER_AT, _NUMBER_END = 8, 12  # where a frame's number lies


class SameFrame:
    """A frame that is sent again and again, each time with another number."""

    def __init__(self, message: Message) -> None:
        self._bytes = bytearray().join(encode(message))

    def numbered(self, number: int) -> bytearray:
        """Its bytes; valid until the next call."""
        _NUMBER.pack_into(self._bytes, _NUMBER_AT, number)
        return self._bytes


def write_frame(
    sock: socket.socket, pieces: Sequence[Piece], timeout: float | None = None, wait: Wait | None = None
) -> None:
    """Send all of a frame; TimeoutError if the peer has not taken it within ``timeout`` seconds.

    ``wait`` takes the place of ``wait_for``, for one that has something else to do meanwhile.
    """
    wait = wait or wait_for
    rest: list[Piece] = list(pieces)
    ends = None if timeout is None else time.monotonic() + timeout
    while rest:
        try:
            sent = sock.send(rest[0]) if len(rest) == 1 else sock.sendmsg(rest[:_PIECES])
        except BlockingIOError:
            left = None if ends is None else ends - time.monotonic()
            if (left is not None and left < 0) or not wait(sock.fileno(), select.POLLOUT, left):
                raise TimeoutError("the peer does not read what it is sent") from None
            continue
        while rest and sent >= len(rest[0]):
            sent -= len(rest.pop(0))
        if sent:
            rest[0] = memoryview(rest[0])[sent:]


def write_same(
    sock: socket.socket, frame: SameFrame, number: int, timeout: float | None = None, wait: Wait | None = None
) -> None:
    """Send a frame again, under this number."""
    data = frame.numbered(number)
    sent = 0
    with suppress(BlockingIOError):
        sent = sock.send(data)
    if sent != len(data):
        write_frame(sock, [memoryview(data)[sent:]], timeout, wait)


def wait_for(fd: int, event: int, timeout: float | None) -> bool:
    """Wait until ``fd`` is ready. By poll: select refuses descriptors from 1,024 on."""
    waiter = select.poll()
    waiter.register(fd, event)
    return bool(waiter.poll(milliseconds(timeout)))


def milliseconds(seconds: float | None) -> float | None:
    """A time limit as poll takes it: not negative, and no longer than it can count."""
    return None if seconds is None else min(max(0.0, seconds * 1000), _LONGEST_MS)


class FrameReader:
    """Frames from a socket as they arrive. It waits for bytes only if the socket does.

    With ``descriptors``, file descriptors that come along are kept in ``descriptors`` for their owner to take.
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
        self._same = b""  # the last frame that may come again, and its message
        self._same_message: Message = Done()

    @property
    def is_empty(self) -> bool:
        """Whether nothing that was received is left over."""
        return self._start == self._end and self._large is None

    def next(self) -> tuple[int, Message | BadFrame] | None:
        """The next frame's number and message, or None if not all of it is here.

        A frame that is no message comes as the BadFrame that says so. EOFError when the peer closed its end; BadFrame
        is raised when the stream can't be followed any further.
        """
        if self._start != self._end and self._large is None and (frame := self._buffered()) is not None:
            return frame
        if self._large is not None:
            return self._go_on_with_large()
        empty = self._start == self._end
        count = self._receive()
        if count is None:
            return None
        self._end += count
        if self._start == 0 and count == len(self._same) == self._end:
            small, same = self._small, self._same
            if small[_NUMBER_END:count] == same[_NUMBER_END:] and small[:_NUMBER_AT] == same[:_NUMBER_AT]:
                self._end = 0
                return _NUMBER.unpack_from(small, _NUMBER_AT)[0], self._same_message
        if self._start == 0 and (usual := read(bytes(self._view[: self._end]))) is not None:
            self._end = 0
            return usual
        frame = self._buffered()
        if frame is None and empty:
            self.began_s = time.monotonic()
        return frame

    def _receive(self) -> int | None:
        """Read what is there behind what is here: how many bytes, None for none yet."""
        if self._start:
            rest = self._end - self._start
            self._small[:rest] = self._small[self._start : self._end]
            self._start, self._end = 0, rest
        try:
            if self.takes_descriptors:
                count = self._receive_with_descriptors()
            else:
                count = self._sock.recv_into(self._view[self._end :] if self._end else self._small)
        except BlockingIOError:
            return None
        if count == 0:
            raise EOFError
        return count

    def _receive_with_descriptors(self) -> int:
        room = socket.CMSG_SPACE(array.array("i").itemsize)
        count, ancillary, _, _ = self._sock.recvmsg_into([self._view[self._end :]], room)
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
                self.descriptors += fds
        return count

    def _buffered(self) -> tuple[int, Message | BadFrame] | None:
        """A frame that lies complete in the small buffer; one that can't fit there becomes the large one."""
        at = self._start + PREFIX_BYTES
        if at > self._end:
            return None
        number, head_bytes, body_bytes = decode_prefix(self._view[self._start : at], limits=self._limits)
        end = at + head_bytes + body_bytes
        if end <= self._end:
            frame = self._small[self._start : end]
            head, body = self._small[at : at + head_bytes], self._small[at + head_bytes : end]
            self._start = end
            if self._start == self._end:
                self._start = self._end = 0
            message = self._decoded(head, body)
            if _comes_again(message):
                self._same, self._same_message = bytes(frame), message  # type: ignore[assignment]
            return number, message
        if end - self._start > _READ_BYTES:
            self._begin_large(number, bytearray(head_bytes), bytearray(body_bytes), at)
            return self._go_on_with_large()
        return None

    def _begin_large(self, number: int, head: bytearray, body: bytearray, at: int) -> None:
        here = self._view[at : self._end]
        in_head = min(len(here), len(head))
        head[:in_head] = here[:in_head]
        body[: len(here) - in_head] = here[in_head:]
        self._start = self._end = 0
        self._large = number, head, body, len(here)

    def _go_on_with_large(self) -> tuple[int, Message | BadFrame] | None:
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
        return number, self._decoded(head, body)

    def _decoded(self, head: bytearray, body: bytearray) -> Message | BadFrame:
        try:
            return decode(head, body, limits=self._limits, unpickler=self._unpickler)
        except BadFrame as error:
            return error


def _comes_again(message: Message | BadFrame) -> bool:
    """Whether the very same message may stand for a later one: it holds nothing that anybody could change."""
    if type(message) is Step:
        return message.actions is None
    return type(message) is Done and message.value is None
