"""Frames from a client, masked as the RFC demands. A mask hides nothing: it keeps bytes from looking like HTTP.

Hot: once a request. The bytes of a small frame are one integer, which XOR changes faster than NumPy would.
"""

from __future__ import annotations

import os
import struct
from typing import TypeAlias

import numpy as np

Piece: TypeAlias = "bytes | bytearray | memoryview"

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA

_KEYS = 1024  # for so many frames random bytes are fetched at once: it is a system call
_SMALL_BYTES = 256  # up to here an integer is faster, measured
_LONG_FROM, _LONGER_FROM = 126, 1 << 16
_HEADERS = {126: struct.Struct("!BBH"), 127: struct.Struct("!BBQ")}
_FIN, _MASKED = 0x80, 0x80


class FrameWriter:
    """Makes whole frames, each with a key that nobody can foretell."""

    def __init__(self) -> None:
        self._keys = b""
        self._next = 0

    def frame(self, opcode: int, payload: Piece, *, fin: bool = True) -> bytes | memoryview:
        """One frame with this payload, in one piece."""
        at, size = self._next, len(payload)
        self._next = at + 4
        key = self._keys[at : at + 4]
        if not key:
            self._keys, self._next = os.urandom(4 * _KEYS), 4
            key = self._keys[:4]
        first = opcode | _FIN if fin else opcode
        if size < _LONG_FROM:  # hot: as ``masked``, without the call
            keys = int.from_bytes((key * 32)[:size], "little")
            hidden = (int.from_bytes(payload, "little") ^ keys).to_bytes(size, "little")
            return b"%c%c%b%b" % (first, _MASKED | size, key, hidden)
        form = 126 if size < _LONGER_FROM else 127
        header = _HEADERS[form].pack(first, _MASKED | form, size)
        if size <= _SMALL_BYTES:
            return b"%b%b%b" % (header, key, masked(payload, key))
        return _large(header + key, payload, key)


def masked(payload: Piece, key: bytes) -> bytes:
    """The payload with the key over it, again and again; applied twice it is the payload."""
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
        out[start + tail :] = masked(memoryview(payload)[tail:], key)
    return out[start - len(header) :]
