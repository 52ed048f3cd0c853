"""How large a frame may be, and what is in it. Both ends hold to the same: what one may send the other may read."""

from __future__ import annotations

import msgspec

# Text and bytes of this length or more lie in the body.
LONG_BYTES = 1024
# Decimal digits of an integer; Python reads 4,300.
INTEGER_DIGITS = 4096
# No more than this many environments, so numbers below it.
ENV_LIMIT = 1 << 32


class Limits(msgspec.Struct, frozen=True):
    """Bounds of one message, in bytes or in how many.

    What decoding may take, measured with tracemalloc (CPython 3.11, msgspec 0.22): a full head of 1 MiB at most
    86 MiB (maps that hold an empty map, 3 bytes that become 248), of lists 64 MiB, of markers 21 MiB. It is changed in
    place, so this is the peak, whether it is refused or not. Arrays take no memory beside the body. Long text may
    become four times as large (one rare letter makes all letters wide) and the JSON of a space 170 times (an alphabet
    of a Text), so both have bounds of their own: 256 MiB and 180 MiB. Time: about a second for the worst head.
    """

    head_bytes: int = 1 << 20
    body_bytes: int = 1 << 28
    # Containers within containers. The message's own field is the first.
    depth: int = 64
    # Pieces of the body: arrays, long texts, long bytes.
    pieces: int = 1 << 16
    # Axes of an array: what NumPy 1 can hold.
    ndim: int = 32
    # All long texts of a message together.
    text_bytes: int = 1 << 26
    # All spaces and specs of a message together.
    json_bytes: int = 1 << 20
    # Keys of one dict that are neither text, bytes nor 64-bit integers: a peer could choose such with equal hashes.
    odd_keys: int = 1 << 12


LIMITS = Limits()
# Requests of clients far away: a server takes no larger ones, so a client does not send them.
PEER_LIMITS = Limits(head_bytes=1 << 16, body_bytes=1 << 26, depth=32, pieces=1 << 12, odd_keys=1 << 8)
