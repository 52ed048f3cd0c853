"""Seccomp's little machine: instructions, and a search tree over the numbers of system calls.

The kernel tries a filter on every number in advance and remembers which calls are always allowed: only those with tests
on their arguments cost anything later.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from paddock.sandbox.inside.syscall_rules import Rule, Test

    Instruction: TypeAlias = tuple[int, int, int, int]  # code, jump if true, jump if false, k
    Span: TypeAlias = tuple[int, int | Rule]  # first number, and what happens from there to the next span

LOAD, AND, RETURN = 0x20, 0x54, 0x06
JUMP, IF_EQUAL, IF_AT_LEAST = 0x05, 0x15, 0x35
LONGEST_JUMP = 255

ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # places in struct seccomp_data


def search(spans: list[Span]) -> list[Instruction]:
    """Find the span that the loaded number is in and do what it says."""
    if len(spans) == 1:
        return outcome(spans[0][1])
    middle = len(spans) // 2
    lower, upper = search(spans[:middle]), search(spans[middle:])
    pivot = spans[middle][0]
    if len(lower) <= LONGEST_JUMP:
        return [(IF_AT_LEAST, len(lower), 0, pivot), *lower, *upper]
    return [(IF_AT_LEAST, 0, 1, pivot), (JUMP, 0, 0, len(lower)), *lower, *upper]


def outcome(what: int | Rule) -> list[Instruction]:
    """Return that action; for a rule, allow what passes all its tests."""
    if isinstance(what, int):
        return [(RETURN, 0, 0, what)]
    code = [instruction for test, errno in what for instruction in check(test, ERRNO | errno)]
    return [*code, (RETURN, 0, 0, ALLOW)]


def check(test: Test, refusal: int) -> list[Instruction]:
    """Go on behind this code if the test holds; return the refusal otherwise."""
    argument, mask, values, wanted = test
    code = [(LOAD, 0, 0, ARGUMENTS + 8 * argument)]  # the lower half: both architectures are little-endian
    if mask != 0xFFFFFFFF:
        code.append((AND, 0, 0, mask))
    last = len(values)
    code += [(IF_EQUAL, last - place, 0, value) for place, value in enumerate(values)]
    if not wanted:  # what is equal jumps to the refusal, the rest over it
        code.append((JUMP, 0, 0, 1))
    return [*code, (RETURN, 0, 0, refusal)]


def packed(program: list[Instruction]) -> bytes:
    """As the kernel wants it: struct sock_filter, one after the other."""
    return b"".join([struct.pack("=HBBI", *instruction) for instruction in program])
