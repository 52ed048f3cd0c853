"""The kernel by number, through libc's ``syscall`` and ``prctl``. A refusal is an OSError, never a return value."""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False  # not typing's: importing typing would take longer than putting up the wall
if TYPE_CHECKING:
    from typing import Any

# Names of os.uname().machine with (AUDIT_ARCH, seccomp, capget, capset): what the wall itself calls by number.
ARCHITECTURES = {
    "x86_64": (0xC000003E, 317, 125, 126),
    "aarch64": (0xC00000B7, 277, 90, 91),
}

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NAME, PR_SET_NO_NEW_PRIVS = 1, 4, 15, 38
CLONE_THREAD = 0x10000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def syscall(number: int, *arguments: Any) -> int:
    """Whole numbers go as 64 bits, anything else as ctypes passes it (bytes and structures as pointers)."""
    passed = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    return _check(_libc.syscall(ctypes.c_long(number), *passed))


def prctl(option: int, *arguments: int) -> int:
    """All four arguments are passed: several options refuse unless those that they do not use are 0."""
    padded = [*arguments, 0, 0, 0, 0][:4]
    return _check(_libc.prctl(ctypes.c_int(option), *(ctypes.c_ulong(one) for one in padded)))


def name_process(name: bytes) -> None:
    """What ``ps`` shows, at most 15 bytes: a fork has the command line of its parent."""
    _libc.prctl(ctypes.c_int(PR_SET_NAME), name)


def several_threads() -> bool:
    """Whether this process has more threads than this one. Landlock and prctl lock the calling thread only."""
    try:
        # Does nothing in a process of one thread and is EINVAL in others; needs no /proc.
        _check(_libc.unshare(ctypes.c_int(CLONE_THREAD)))
    except OSError as error:
        return error.errno == 22
    return False


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
