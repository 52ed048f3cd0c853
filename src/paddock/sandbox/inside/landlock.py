"""Landlock: files, TCP ports and neighbours that this process may touch; whatever no rule names is refused.

It does not cover metadata: stat and chmod by path still work, so that seccomp must refuse the changing ones.
"""

from __future__ import annotations

import os
import stat
import struct

from paddock.sandbox.inside import LockFailed
from paddock.sandbox.inside.syscalls import PR_SET_NO_NEW_PRIVS, prctl, syscall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446  # the same on every architecture
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_SYM = 1 << 7, 1 << 8, 1 << 9, 1 << 10, 1 << 12
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

# All rights on files that each version of Landlock knows; later ones know those of the last.
FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
ON_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # the rest is about what a folder holds
BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
ABSTRACT_SOCKETS, SIGNALS = 1 << 0, 1 << 1

READ = READ_FILE | READ_DIR
# No right to make devices; none to execute, which is named apart.
MAKE = MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM
WRITE = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE | REFER | TRUNCATE
USES = {
    "read": READ,
    "list": READ_DIR,
    "write": WRITE,
    "execute": READ | EXECUTE,
    "devices": READ | WRITE_FILE | TRUNCATE | IOCTL_DEV,
}

ASK_VERSION = 1
RULE_PATH, RULE_PORT = 1, 2
PT_INTERP = 3
PATH_MAX = 4096


def version() -> int:
    """The ABI of Landlock that this kernel has; 0 where there is none or it is switched off."""
    try:
        return syscall(LANDLOCK_CREATE_RULESET, None, 0, ASK_VERSION)
    except OSError:
        return 0


def confine(config: Mapping[str, Any]) -> None:
    """From now on, for this thread and all that it starts: these paths, these ports, and nothing else."""
    abi = version()
    if abi < 1:
        raise LockFailed("this kernel has no Landlock, or it is switched off")
    ports = config.get("connect_ports", ())
    if ports and abi < 4:
        raise LockFailed(
            f"Landlock ABI {abi} has no rules for TCP ports, so {list(ports)} can't be allowed (needs ABI 4, Linux 6.7)"
        )
    rights = FILE_RIGHTS[min(abi, 5)]
    try:
        words = [rights]
        if abi >= 4:
            words.append(BIND_TCP | CONNECT_TCP if ports is not None else 0)
        if abi >= 6:
            words.append(ABSTRACT_SOCKETS | SIGNALS)
        attributes = struct.pack(f"={len(words)}Q", *words)
        ruleset = syscall(LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    except OSError as error:
        raise LockFailed(f"Landlock {abi} took no rules: {error}") from error
    try:
        for use, wanted in USES.items():
            for path in config.get(use, ()):
                _allow(ruleset, path, wanted & rights)
        for path in {loader for loader in map(loader_of, config.get("execute", ())) if loader is not None}:
            _allow(ruleset, path, (READ | EXECUTE) & rights)
        for port in ports or ():
            syscall(LANDLOCK_ADD_RULE, ruleset, RULE_PORT, struct.pack("=QQ", CONNECT_TCP, port), 0)
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0)
    except OSError as error:
        raise LockFailed(f"Landlock {abi} refused: {error}") from error
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise LockFailed(f"{path!r} should be allowed, but can't be opened: {error}") from error
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= ON_A_FILE
        syscall(LANDLOCK_ADD_RULE, ruleset, RULE_PATH, struct.pack("=Qi", rights, place), 0)
    except OSError as error:
        raise LockFailed(f"Landlock took no rule for {path!r}: {error}") from error
    finally:
        os.close(place)


def loader_of(path: str) -> str | None:
    """The dynamic loader that an ELF program names: to run the program, the loader must be allowed to run too.

    ``/lib64/ld-linux-x86-64.so.2`` for most programs; None for folders, scripts and static programs. The program after
    a script's ``#!`` is not followed: the policy must name that one.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
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
    except (OSError, struct.error):
        return None
    finally:
        os.close(file)
    return None
