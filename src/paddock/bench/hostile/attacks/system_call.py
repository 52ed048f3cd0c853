"""System calls by name, past libc. Dangerous ones get arguments that the kernel can only refuse."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from typing import Any

from paddock.bench.hostile.attacks.attempt import name_of

# name: number on x86_64, on aarch64
_NUMBERS = {
    "acct": (163, 89),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "clone3": (435, 435),
    "fanotify_init": (300, 262),
    "getpid": (39, 172),
    "init_module": (175, 105),
    "io_uring_setup": (425, 425),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "mount": (165, 40),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "prctl": (157, 167),
    "process_vm_readv": (310, 270),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "timer_create": (222, 107),
    "timer_delete": (226, 111),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
# What a wall answers. Any other error, or none, comes from the code behind it.
WALL = (errno.EPERM, errno.EACCES, errno.ENOSYS)
NULL = ctypes.c_void_p(None)


def number_of(name: str) -> int:
    """The call's number on this machine."""
    return _NUMBERS[name][platform.machine() == "aarch64"]


def call(name: str, *arguments: Any) -> int:
    """The call's result; its error as OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result: int = libc.syscall(ctypes.c_long(number_of(name)), *wide)
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def reached(name: str, *arguments: Any) -> str:
    """Whether the kernel looked at the arguments at all; OSError if it was kept from it."""
    try:
        return f"reached: {call(name, *arguments)}"
    except OSError as error:
        if error.errno in WALL:
            raise
        return f"reached: {name_of(error)}"
