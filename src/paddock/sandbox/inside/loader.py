"""The dynamic loader that an ELF program names: who may run the program must be allowed to run the loader too.

A script's ``#!`` program is not followed: that one must be named by the policy.
"""

from __future__ import annotations

import os
import struct

PT_INTERP = 3
PATH_MAX = 4096


def loader_of(path: str) -> str | None:
    """``/lib64/ld-linux-x86-64.so.2`` for most programs; None for folders, scripts and static programs."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return _interpreter(file)
    except (OSError, struct.error):
        return None
    finally:
        os.close(file)


def _interpreter(file: int) -> str | None:
    head = os.pread(file, 64, 0)
    if head[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian: both architectures that we know
        return None
    (table,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    for number in range(count):
        entry = os.pread(file, size, table + number * size)
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", entry)
        if kind == PT_INTERP and 1 < length <= PATH_MAX:
            return os.fsdecode(os.pread(file, length, offset).rstrip(b"\0"))
    return None
