"""Whether bytes that are to be a state of the ALE are laid out as its states are: names, lengths, counts and banks.

The ALE believes what it reads: told of more memory than there is, it writes past the end of its own. It is not asked to
read such a state. What else a state forged with care could do to it, nobody has proved to be nothing.
"""

from __future__ import annotations

import re
import struct

_GENERATOR = re.compile(rb"(?:\d+ ){624}\d+")
_BYTE = (0, 255)
_MEMORY = [(128, 128), *[_BYTE] * 128]
_FETCHERS = [(8, 8), *[_BYTE] * 8]
# By the kind of cartridge, what its first numbers may be: of a bank, a count, or a place in its memory.
_LIMITS = {
    b"2K": [],
    b"4K": [],
    b"FE": [],
    b"F8": [(0, 1)],
    b"F6": [(0, 3)],
    b"F8SC": [(0, 1), *_MEMORY],
    b"F6SC": [(0, 3), *_MEMORY],
    b"E0": [(4, 4), *[(0, 7)] * 4],
    b"DPC": [(0, 1), *_FETCHERS * 2, (8, 8), *[(0, 0x7FF)] * 8, (8, 8)],
}
_KINDS = b"|".join(sorted(_LIMITS, reverse=True))  # F8SC before F8
_NAMES = rb"[0-9a-f]{32}|System|M6502Low|M6502High|M6532|TIASound|TIA|Cartridge(?P<kind>" + _KINDS + b")"
_NAME = re.compile(rb"[\x03-\x20]\0{3}(?:" + _NAMES + b")")  # its length before it


def generators(bits: bytes) -> list[bytes]:
    """Its random streams: where the ALE can't read one it keeps its own, and says nothing."""
    return _GENERATOR.findall(bits)


def is_laid_out(bits: bytes, present: bytes) -> bool:
    """Whether ``bits`` are a state like ``present``, which is one of the same game."""
    if any(_number(bits, one.start() - 4) != len(one.group()) for one in _GENERATOR.finditer(bits)):
        return False
    parts, wanted = _GENERATOR.split(bits), _GENERATOR.split(present)
    return [len(part) for part in parts] == [len(part) for part in wanted] and all(map(_alike, parts, wanted))


def _alike(part: bytes, wanted: bytes) -> bool:
    for one in _NAME.finditer(wanted):
        limits = _MEMORY if one.group().endswith(b"M6532") else []
        if kind := one["kind"]:
            limits = _LIMITS[kind]
        numbers = (_number(part, one.end() + 4 * place) for place in range(len(limits)))
        if part[one.start() : one.end()] != one.group():
            return False
        if not all(low <= number <= high for number, (low, high) in zip(numbers, limits, strict=True)):
            return False
    return True


def _number(part: bytes, place: int) -> int:
    return int(struct.unpack_from("<i", part, place)[0]) if 0 <= place <= len(part) - 4 else -1
