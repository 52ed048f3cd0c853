"""Numbers of requests on the wire: 1 to 2³² − 1, then 1 again. Inside, requests are counted without end, from 1.

0 is the handshake's number, and as a count it means "none yet".
"""

from __future__ import annotations

import struct

HANDSHAKE = 0
_LARGEST = 0xFFFFFFFF
_NUMBER = struct.Struct("<I")
_NUMBER_AT = 8  # in a frame's prefix, see codec.PREFIX


def on_wire(count: int) -> int:
    """The number of the request with this count."""
    return (count - 1) % _LARGEST + 1 if count else HANDSHAKE


def nearest(number: int, count: int) -> int:
    """The count with this number that lies nearest to ``count``; below 1 if it would lie before the first request."""
    if number == HANDSHAKE:
        return 0
    ahead = (number - count) % _LARGEST
    return count + (ahead if ahead <= _LARGEST // 2 else ahead - _LARGEST)


def number_of(frame: bytes | bytearray | memoryview) -> int:
    """The number in a frame's prefix."""
    number: int = _NUMBER.unpack_from(frame, _NUMBER_AT)[0]
    return number
