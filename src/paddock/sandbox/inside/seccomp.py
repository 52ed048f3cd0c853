"""The list of system calls as a filter of the kernel. What is not on it is EPERM: code inside can report the refusal.

Only calls in another architecture's tongue, which no honest program makes, kill.
"""

from __future__ import annotations

import ctypes
import os

from paddock.sandbox.inside.bpf import (
    ALLOW,
    ARCHITECTURE,
    ERRNO,
    IF_EQUAL,
    KILL,
    LOAD,
    NUMBER,
    RETURN,
    packed,
    search,
)
from paddock.sandbox.inside.failed import LockFailed
from paddock.sandbox.inside.syscall_numbers import NEWEST, numbers
from paddock.sandbox.inside.syscall_rules import ENOSYS, EPERM, refusals, rules
from paddock.sandbox.inside.syscalls import ARCHITECTURES, PR_SET_NO_NEW_PRIVS, prctl, syscall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from paddock.sandbox.inside.bpf import Instruction, Span

OPTIONS = {"fork", "exec", "network", "locks", "truncate", "devices", "memory_files"}
SET_MODE_FILTER = 1
ALL_THREADS = 1  # SECCOMP_FILTER_FLAG_TSYNC
X32 = 0x40000000  # numbers from here on are the other way to call x86_64, with lists of its own


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def restrict(options: Mapping[str, Any], *, machine: str, more: Mapping[str, Any] | None = None) -> None:
    """Let through what ``syscall_rules.rules`` says for these options, now and for all that this process becomes."""
    options = {**(more or {}), **options}
    unknown = options.keys() - OPTIONS
    if unknown:
        raise LockFailed(f"seccomp has no option {sorted(unknown)[0]!r}; it has {', '.join(sorted(OPTIONS))}")
    code = packed(program(options, machine=machine, own_pid=os.getpid()))
    number = ARCHITECTURES[machine][1]
    try:
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        stuck = syscall(number, SET_MODE_FILTER, ALL_THREADS, ctypes.byref(_Program(len(code) // 8, code)))
    except OSError as error:
        raise LockFailed(f"the kernel took no seccomp filter: {error}") from error
    if stuck:
        raise LockFailed(f"thread {stuck} could not be put under the seccomp filter")


def program(options: Mapping[str, Any], *, machine: str, own_pid: int) -> list[Instruction]:
    """The whole filter for that architecture, which need not be this machine's."""
    audit = ARCHITECTURES[machine][0]
    return [
        (LOAD, 0, 0, ARCHITECTURE),
        (IF_EQUAL, 1, 0, audit),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
        *search(spans(options, machine=machine, own_pid=own_pid)),
    ]


def spans(options: Mapping[str, Any], *, machine: str, own_pid: int) -> list[Span]:
    """Numbers in order with what happens to each, neighbours of the same fate as one."""
    known = numbers(machine)
    fates: dict[int, Any] = {}
    for name, errno in refusals(options).items():
        if name in known:
            fates[known[name]] = ERRNO | errno
    for name, rule in rules(options, own_pid).items():
        if name in known:
            fates[known[name]] = rule or ALLOW
    found: list[Span] = []
    for number in range(max(NEWEST, *fates) + 2):
        # A call that is newer than this list: who makes it has an older one to fall back on.
        fate = fates.get(number, ERRNO | (EPERM if number < NEWEST else ENOSYS))
        if not found or found[-1][1] != fate:
            found.append((number, fate))
    if machine == "x86_64":
        found.append((X32, KILL))
    return found
