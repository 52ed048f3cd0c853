"""ClientConnection: a whole websocket without I/O, from the handshake to the Close. Its driver only moves bytes.

The driver reads into ``buffer()``, calls ``received``, takes events with ``next`` until there are none, and then writes
what ``outgoing`` returns: answers to pings and to a Close. ``received`` itself returns a
small message that comes alone, and ``next`` does not.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

from paddock.hosting.websocket.endpoint import Endpoint, Handshake
from paddock.hosting.websocket.events import (
    ABNORMAL,
    NO_CODE,
    NORMAL,
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

Piece: TypeAlias = "bytes | bytearray | memoryview"

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA

_KEYS = 1024  # random bytes for this many frames are fetched at once: it is a system call
_SMALL_BYTES = 256  # up to here an integer is faster, measured
_LONG_FROM, _LONGER_FROM = 126, 1 << 16
_HEADERS = {126: struct.Struct("!BBH"), 127: struct.Struct("!BBQ")}
_FIN, _MASKED = 0x80, 0x80


class FrameWriter:
    """Makes whole frames, masked as the RFC demands with unpredictable keys.

    A mask hides nothing: it keeps bytes from looking like HTTP. Hot: once per request. The bytes of a small frame are
    one integer, which XOR changes faster than NumPy would.
    """

    def __init__(self) -> None:
        self._keys = b""
        self._next = 0

    def frame(self, opcode: int, payload: Piece) -> bytes | memoryview:
        """One frame with this payload, in one piece."""
        at, size = self._next, len(payload)
        self._next = at + 4
        key = self._keys[at : at + 4]
        if not key:
            self._keys, self._next = os.urandom(4 * _KEYS), 4
            key = self._keys[:4]
        first = opcode | _FIN
        if size < _LONG_FROM:  # hot: as ``mask``, without the call
            keys = int.from_bytes((key * 32)[:size], "little")
            hidden = (int.from_bytes(payload, "little") ^ keys).to_bytes(size, "little")
            return b"%c%c%b%b" % (first, _MASKED | size, key, hidden)
        form = 126 if size < _LONGER_FROM else 127
        header = _HEADERS[form].pack(first, _MASKED | form, size)
        if size <= _SMALL_BYTES:
            return b"%b%b%b" % (header, key, mask(payload, key))
        return _large(header + key, payload, key)


def mask(payload: Piece, key: bytes) -> bytes:
    """The payload XORed with the repeated key; applied twice it is the payload."""
    size = len(payload)
    keys = (key * (size + 3 >> 2))[:size]
    return (int.from_bytes(payload, "little") ^ int.from_bytes(keys, "little")).to_bytes(size, "little")


def _large(header: bytes, payload: Piece, key: bytes) -> memoryview:
    """Header and masked payload in one piece. The payload begins at a multiple of 8, or NumPy would go byte by byte."""
    size, start = len(payload), len(header) + 7 & -8
    # Not a bytearray: that one would be filled with zeros first.
    whole = np.empty(start + size, np.uint8)
    out = memoryview(whole)  # type: ignore[arg-type]  # NumPy's types do not say that it is a buffer
    out[start - len(header) : start] = header
    words = size >> 3
    source = np.frombuffer(payload, np.uint64, words)
    np.bitwise_xor(source, np.frombuffer(key * 2, np.uint64)[0], out=np.frombuffer(out, np.uint64, words, start))
    tail = words << 3
    if tail != size:
        out[start + tail :] = mask(memoryview(payload)[tail:], key)
    return out[start - len(header) :]


Split = Callable[[memoryview], int]

BUFFER_BYTES = 1 << 16
MESSAGE_BYTES = (1 << 28) + (1 << 21)  # the largest frame of the codec and some room
SPLIT_BYTES = 32  # of a message, at least, when ``split`` is called
_CONTINUATION = 0x0
_CONTROL_BYTES = 125
_FRAGMENTS = 1 << 16
_LARGEST_HEADER = 10
_FIN_BINARY = 0x80 | BINARY
# Codes that a peer may send: the RFC's, IANA's later ones, and those that belong to libraries and applications.
_SENDABLE = frozenset((1000, 1001, 1002, 1003, *range(1007, 1015)))


class MessageReader:
    """Turns a server's bytes into events, without I/O. The owner reads into ``buffer()`` and says how much came.

    So a large message goes from the socket straight to where it stays. ``split`` says, from the first bytes of a large
    message, how many of them come apart; the rest has memory of its own, which a decoder may keep and hand out views
    of. Messages that fit into the small buffer always come whole. Hot: once per reply.
    """

    def __init__(self, *, max_bytes: int = MESSAGE_BYTES, split: Split | None = None) -> None:
        self.max_bytes, self._split = max_bytes, split
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
        """``count`` bytes were put into the last ``buffer()``. Returns a small message that came alone."""
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

    def next(self) -> Event | None:
        """The next event that is here, or None. WebSocketError when the peer can't be followed any further."""
        if self._start == self._end and not self._parts:
            return None
        while not self._over:
            step = self._large() if self._parts else self._read_small_frame()
            if step is None:
                return None
            if step is not _NO_EVENT:
                return step
        return None

    def _read_small_frame(self) -> Event | None:
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
        if size > self.max_bytes - self._fragments_bytes:
            raise WebSocketError(f"a message has more than {self.max_bytes} bytes", TOO_LARGE)
        end = at + size
        if end <= self._end:
            payload = bytes(self._view[at:end])
            if end == self._end:
                self._start = self._end = 0
            else:
                self._start = end
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
            raise WebSocketError("a message began within another, or continued where none had begun")

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


_REASON_BYTES = 123


class ClientConnection:
    """One connection to ``endpoint``."""

    def __init__(self, endpoint: Endpoint, *, max_bytes: int = MESSAGE_BYTES, split: Split | None = None) -> None:
        self._handshake: Handshake | None = Handshake(endpoint)
        self._scratch = bytearray(4096)
        self._secure = endpoint.secure
        self.request = self._handshake.request
        self.subprotocol: str | None = None
        self._reader = MessageReader(max_bytes=max_bytes, split=split)
        self._writer = FrameWriter()
        # A message of bytes, as it goes onto the socket. These three are the hot ones, so no call lies in between.
        self.message: Callable[[Piece], bytes | memoryview] = partial(self._writer.frame, BINARY)
        # Where to put the next bytes from the socket.
        self.buffer: Callable[[], memoryview] = lambda: memoryview(self._scratch)
        # That many bytes were put there. UpgradeRefused if the server refuses.
        self.received: Callable[[int], Binary | None] = self._shake_hands
        self._pong: bytes | None = None
        self._closing: bytes | None = None  # a Close to send
        self._close_sent = False
        self.closed: Closed | None = None

    @property
    def is_open(self) -> bool:
        """Whether the handshake is done; also after the end."""
        return self._handshake is None

    def limit(self, max_bytes: int) -> None:
        """Refuse larger messages from now on."""
        self._reader.max_bytes = max_bytes

    def cut_off(self) -> ConnectionResetError:
        """The error for a server that closes during the handshake, as many with TLS do when plain HTTP comes."""
        hint = "" if self._secure else "; does it want https?"
        return ConnectionResetError(f"the server closed the connection in the middle of the handshake{hint}")

    def _shake_hands(self, count: int) -> None:
        assert self._handshake is not None, "afterwards it is the reader that receives"
        if self._handshake.feed(memoryview(self._scratch)[:count]):
            self.subprotocol = self._handshake.subprotocol
            self._reader.begin_with(self._handshake.rest)
            self._handshake, self._scratch = None, bytearray()
            self.buffer, self.received = self._reader.buffer, self._reader.received

    def next(self) -> Event | None:
        """The next event that is here, or None. After a WebSocketError only ``outgoing`` is of use."""
        if self.closed is not None:
            return None
        try:
            event = self._reader.next()
        except WebSocketError as error:
            self.closed = Closed(ABNORMAL, str(error))
            self.close(error.close_code, str(error))
            raise
        if event is None or type(event) is Binary:
            return event
        if type(event) is Ping:
            self._pong = event.data  # only the last of several must be answered
        elif type(event) is Closed:
            self.closed = event
            self.close(NORMAL if event.code == NO_CODE else event.code)
        return event

    def eof(self) -> Closed:
        """The other end closed the socket. UpgradeRefused if it did so while it refused."""
        if self._handshake is not None:
            self._handshake.eof()
        if self.closed is None:
            self.closed = Closed(ABNORMAL)
        return self.closed

    def outgoing(self) -> bytes:
        """What to write beside messages; nearly always empty."""
        if self._pong is None and self._closing is None:
            return b""
        pong, closing = self._pong, self._closing
        self._pong = self._closing = None
        frames = [] if pong is None or self._close_sent else [self._writer.frame(PONG, pong)]
        if closing is not None:
            frames.append(self._writer.frame(CLOSE, closing))
            self._close_sent = True
        return b"".join(frames)

    def text(self, text: str) -> bytes | memoryview:
        return self._writer.frame(TEXT, text.encode())

    def ping(self) -> bytes | memoryview:
        return self._writer.frame(PING, b"")

    def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Close: ``outgoing`` has the frame, the server's answer comes as Closed."""
        if not self._close_sent and self._closing is None:
            text = reason.encode("utf-8", "replace")[:_REASON_BYTES].decode("utf-8", "ignore").encode()
            self._closing = code.to_bytes(2, "big") + text
