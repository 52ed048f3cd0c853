"""MessageReader: a server's bytes to events, without I/O. The owner reads into ``buffer()`` and says how much came.

So a large message goes from the socket straight to where it stays. A reader would get wrong: ``split`` is asked only
for messages that do not fit into the small buffer, all others come whole. Hot: once a reply.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from paddock.hosting.websocket.events import (
    NO_CODE,
    NOT_UTF8,
    TOO_LARGE,
    Binary,
    Closed,
    Event,
    Ping,
    Pong,
    Text,
    WebSocketError,
)
from paddock.hosting.websocket.masking import BINARY, CLOSE, PING, PONG, TEXT

Split = Callable[[memoryview], int]

BUFFER_BYTES = 1 << 16
MESSAGE_BYTES = (1 << 28) + (1 << 21)  # the largest frame of the seam and some room
SPLIT_BYTES = 32  # so many of a message are there when ``split`` is asked
_CONTINUATION = 0x0
_CONTROL_BYTES = 125
_FRAGMENTS = 1 << 16
_LARGEST_HEADER = 10
_FIN_BINARY = 0x80 | BINARY
# Codes that a peer may send: the RFC's, IANA's later ones, and those that belong to libraries and applications.
_SENDABLE = frozenset((1000, 1001, 1002, 1003, *range(1007, 1015)))


class MessageReader:
    """Reads one connection. ``split`` says of a large message, from its first bytes, how many of them come apart.

    The rest then has memory of its own, which a decoder may keep and hand out views of.
    """

    def __init__(self, *, max_bytes: int = MESSAGE_BYTES, split: Split | None = None) -> None:
        self._max_bytes, self._split = max_bytes, split
        self._small = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._small)
        self._start = self._end = 0
        self._first = 0  # first byte of the large frame that is being read
        self._parts: list[memoryview] = []  # of that frame, empty while there is none
        self._part = self._got = 0  # which of them, and how many of its bytes are here
        self._kind = 0  # opcode of the message that comes in fragments
        self._fragments: list[bytes | bytearray] = []
        self._fragments_bytes = 0
        self._over = False

    def buffer(self) -> memoryview:
        """Where the next bytes belong; never empty."""
        if self._parts:
            return self._parts[self._part][self._got :]
        if self._start:
            rest = self._end - self._start
            self._small[:rest] = self._small[self._start : self._end]
            self._start, self._end = 0, rest
        return self._view[self._end :] if self._end else self._view

    def received(self, count: int) -> Binary | None:
        """So many bytes were put into the last ``buffer()``. A small message that came alone is returned at once."""
        if self._parts:
            self._got += count
            return None
        small = self._small
        # Hot: nearly all. A length of more than 125 would stand in more bytes.
        if small[1] + 2 == count <= 127 and small[0] == _FIN_BINARY and not (self._end or self._kind or self._over):
            return Binary(bytes(self._view[2:count]))
        self._end += count
        return None

    def begin_with(self, data: bytes | bytearray | memoryview) -> None:
        """Bytes that came with the handshake; fewer than a buffer holds."""
        self._small[: len(data)] = data
        self._end = len(data)

    def feed(self, data: bytes) -> list[Event]:
        """All events of these bytes; for those who have bytes rather than a socket."""
        events: list[Event] = []
        rest = memoryview(data)
        while True:
            while (event := self.next()) is not None:
                events.append(event)
            if not rest:
                return events
            buffer = self.buffer()
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            if (alone := self.received(count)) is not None:
                events.append(alone)
            rest = rest[count:]

    def next(self) -> Event | None:
        """The next event that is here, or None. WebSocketError when the peer can't be followed any further."""
        if self._start == self._end and not self._parts:
            return None
        while not self._over:
            step = self._large() if self._parts else self._buffered()
            if step is None:
                return None
            if step is not _NO_EVENT:
                return step
        return None

    def _behind(self, end: int) -> None:
        if end == self._end:
            self._start = self._end = 0
        else:
            self._start = end

    def _buffered(self) -> Event | None:
        """A frame in the small buffer: its event, None while it is not all here."""
        start, here = self._start, self._end - self._start
        if here < 2:
            return None
        first, second = self._small[start], self._small[start + 1]
        self._check_header(first, second)
        size, at = second, start + 2
        if second >= 126:
            at = start + (4 if second == 126 else _LARGEST_HEADER)
            if at > self._end:
                return None
            size = int.from_bytes(self._view[start + 2 : at], "big")
            if size < (126 if second == 126 else 1 << 16):
                raise WebSocketError(f"a length of {size} is not written in the shortest form")
        if size > self._max_bytes - self._fragments_bytes:
            raise WebSocketError(f"a message has more than {self._max_bytes} bytes", TOO_LARGE)
        end = at + size
        if end <= self._end:
            payload = bytes(self._view[at:end])
            self._behind(end)
            return self._frame(first, payload)
        if end - start <= BUFFER_BYTES or self._end - at < SPLIT_BYTES:
            return None
        return self._begin_large(first, at, size)

    def _check_header(self, first: int, second: int) -> None:
        opcode = first & 0x0F
        if first & 0x70:
            raise WebSocketError("a frame has reserved bits set, though no extension was agreed on")
        if second & 0x80:
            raise WebSocketError("a server must not mask its frames")
        if opcode >= CLOSE:
            if opcode > PONG:
                raise WebSocketError(f"unknown opcode {opcode}")
            if not first & 0x80 or second > _CONTROL_BYTES:
                raise WebSocketError("a control frame is fragmented, or has more than 125 bytes")
        elif opcode > BINARY:
            raise WebSocketError(f"unknown opcode {opcode}")
        elif (opcode == _CONTINUATION) != bool(self._kind):
            raise WebSocketError("a message began within another, or went on where none had begun")

    def _begin_large(self, first: int, at: int, size: int) -> Event | None:
        lead = 0
        if first == _FIN_BINARY and self._split is not None:
            lead = min(max(0, self._split(self._view[at : self._end])), size)
        here = self._view[at : self._end]
        # Python's own would be filled with zeros first, and that takes as long as the reading.
        rest = [memoryview(np.empty(size - lead, np.uint8))] if 0 < lead < size else []  # type: ignore[arg-type]
        self._parts = [memoryview(bytearray(lead if rest else size)), *rest]
        self._first, self._part = first, 0
        for part in self._parts:
            self._got = min(len(here), len(part))
            part[: self._got] = here[: self._got]
            here = here[self._got :]
            if self._got < len(part):
                break
            self._part += 1
        self._start = self._end = 0
        return self._large()

    def _large(self) -> Event | None:
        parts = self._parts
        if self._got < len(parts[self._part]):
            return None
        self._part, self._got = self._part + 1, 0
        if self._part < len(parts):
            return None
        self._parts = []
        if len(parts) == 2:
            return Binary(bytes(parts[0]), parts[1])
        whole = parts[0].obj
        assert isinstance(whole, bytearray)
        return self._frame(self._first, whole)

    def _frame(self, first: int, payload: bytes | bytearray) -> Event:
        """A whole frame. _NO_EVENT for a fragment that is not the last."""
        opcode = first & 0x0F
        if opcode >= CLOSE:
            return self._control(opcode, bytes(payload))
        if opcode:
            self._kind = opcode
        if first & 0x80 and not self._fragments:
            return self._message(payload)
        if len(self._fragments) == _FRAGMENTS:
            raise WebSocketError(f"a message has more than {_FRAGMENTS} fragments", TOO_LARGE)
        self._fragments.append(payload)
        self._fragments_bytes += len(payload)
        if not first & 0x80:
            return _NO_EVENT
        whole = b"".join(self._fragments)
        self._fragments, self._fragments_bytes = [], 0
        return self._message(whole)

    def _message(self, payload: bytes | bytearray) -> Event:
        kind, self._kind = self._kind, 0
        if kind == BINARY:
            return Binary(payload)
        assert kind == TEXT
        return Text(_text(payload))

    def _control(self, opcode: int, payload: bytes) -> Event:
        if opcode == PING:
            return Ping(payload)
        if opcode == PONG:
            return Pong(payload)
        self._over = True
        if not payload:
            return Closed(NO_CODE)
        code = int.from_bytes(payload[:2], "big")
        if len(payload) == 1 or not (code in _SENDABLE or 3000 <= code < 5000):
            raise WebSocketError("a Close has a code that must not be sent")
        return Closed(code, _text(payload[2:]))


_NO_EVENT = Pong(b"a fragment")


def _text(payload: bytes | bytearray) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        raise WebSocketError("a text is not UTF-8", NOT_UTF8) from None
