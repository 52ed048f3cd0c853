"""A look at a long head before anything is built of it. msgspec would take any msgpack key, arrays too, into a dict.

Tuples can be chosen so that all have the same hash: a head of 1 MiB would keep the reader busy for a minute. Text
has secret hashes, so a head whose keys are text is read in milliseconds; this scan takes at most half a second.
"""

from __future__ import annotations

from paddock.errors import BadFrame

# Shorter heads are not worth the scan: the worst of them takes a quarter of a second.
SCAN_BYTES = 1 << 16

# First byte of an item: how many bytes it has, or how many bytes of length follow, and what it counts.
_WIDTH = [1] * 256
_LENGTH = [0] * 256
for _code, _bytes in zip(range(0xCA, 0xD4), (5, 9, 2, 3, 5, 9, 2, 3, 5, 9), strict=True):
    _WIDTH[_code] = _bytes
for _code, _bytes in zip(range(0xD4, 0xD9), (3, 4, 6, 10, 18), strict=True):
    _WIDTH[_code] = _bytes
for _code in range(0xA0, 0xC0):
    _WIDTH[_code] = 1 + (_code & 31)
for _code, _bytes in zip(range(0xC4, 0xCA), (1, 2, 4) * 2, strict=True):
    _LENGTH[_code] = _bytes
for _code, _bytes in zip(range(0xD9, 0xE0), (1, 2, 4, 2, 4, 2, 4), strict=True):
    _LENGTH[_code] = _bytes
_TEXT = frozenset([*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB])
_LISTS = frozenset([*range(0x90, 0xA0), 0xDC, 0xDD])
_MAPS = frozenset([*range(0x80, 0x90), 0xDE, 0xDF])
_EXTENSIONS = frozenset([0xC7, 0xC8, 0xC9])


def check_keys(head: bytes) -> None:
    """Raise BadFrame unless the key of every map is text. A head that is no msgpack passes: the reader will say so."""
    at, end = 0, len(head)
    left, in_map = 1, False  # items of the innermost list or map; a map has two for each pair
    outer: list[tuple[int, bool]] = []
    while at < end:
        code = head[at]
        if in_map and not left & 1 and code not in _TEXT:
            raise BadFrame(f"the key of a map is not text, at byte {at} of the head")
        left -= 1
        width = _WIDTH[code]
        count = code & 15
        if length := _LENGTH[code]:
            count = int.from_bytes(head[at + 1 : at + 1 + length], "big")
            width += length
        if code in _LISTS or code in _MAPS:
            outer.append((left, in_map))
            in_map = code in _MAPS
            left = 2 * count if in_map else count
        elif length:
            width += count + (code in _EXTENSIONS)
        at += width
        while not left and outer:
            left, in_map = outer.pop()
