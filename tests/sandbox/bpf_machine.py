"""A small interpreter of the kernel's classic BPF, as far as seccomp uses it: it judges calls without making them."""

import struct

ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000


def judge(program, *, audit, number, arguments=()):
    """``"allow"``, ``"kill"``, or the errno that the filter answers such a call with."""
    words = [one & 0xFFFFFFFFFFFFFFFF for one in (*arguments, *([0] * (6 - len(arguments))))]
    data = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, audit, 0, *words)
    result = run(program, data)
    if result == ALLOW:
        return "allow"
    if result == KILL:
        return "kill"
    assert result & 0xFFFF0000 == ERRNO, hex(result)
    return result & 0xFFFF


def run(program, data):
    place, accumulator = 0, 0
    while True:
        code, if_true, if_false, k = program[place]
        assert 0 <= if_true <= 255 and 0 <= if_false <= 255 and 0 <= k <= 0xFFFFFFFF
        place += 1
        if code == 0x20:
            assert k % 4 == 0
            (accumulator,) = struct.unpack_from("=I", data, k)
        elif code == 0x54:
            accumulator &= k
        elif code == 0x05:
            place += k
        elif code == 0x15:
            place += if_true if accumulator == k else if_false
        elif code == 0x35:
            place += if_true if accumulator >= k else if_false
        elif code == 0x06:
            return k
        else:
            raise AssertionError(f"no instruction {code:#x}")
