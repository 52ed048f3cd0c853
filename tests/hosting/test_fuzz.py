"""Any bytes are a message or a BadFrame: no other error, no crash, and no more memory than the bounds allow."""

import copy
import random
import resource
import struct

import msgspec
import pytest

from paddock.errors import BadFrame
from paddock.hosting.codec import PREFIX, PREFIX_BYTES, decode_frame, encode
from tests.hosting import golden

FRAMES = list(golden.stored().values())
SEED = 20_240_611
WORDS = [0, 1, 7, 8, 0x7F, 0x80, 0xFF, 2**16, 2**20, 2**20 + 1, 2**28, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 8]
KINDS = ["array", "scalar", "tuple", "dict", "text", "bytes", "int", "complex", "objects", "graph", "failed", "space"]
KINDS += ["spec", "generator", "pickled", "", "$"]
ODD = [None, True, 0, 1, -1, 2**31, 2**63, 2**64 - 1, -(2**63), 0.0, float("nan"), float("inf"), "", "$", "<f4", "|b1"]
ODD += ["<U1", "|S1", "O", "\0", "é", "9" * 300, b"", b"\0" * 16, [], {}, [0], [[]], {"$": "array"}, {"a": {}}, {1: 2}]
ODD += [[2**62, 4], [0, 2**62], [-1], [1.0], (1, 2), msgspec.msgpack.Ext(5, b"x"), '{"paddock":1,"type":"Box"}']


def noise(rng):
    return rng.randbytes(rng.randrange(0, 200))


def noise_in_a_frame(rng):
    head, body = rng.randbytes(rng.randrange(0, 60)), bytes(8 * rng.randrange(0, 4))
    return _framed(b"\x82\xa4type\xa4done\xa5value" + head if rng.random() < 0.7 else head, body)


def flipped(rng):
    data = bytearray(rng.choice(FRAMES))
    for _ in range(rng.choice((1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def flipped_inside(rng):
    """Bytes of the head changed, so that the lengths still fit."""
    head, body = _split(rng.choice(FRAMES))
    changed = bytearray(head)
    for _ in range(rng.choice((1, 1, 2, 4))):
        changed[rng.randrange(len(changed))] = rng.choice((rng.randrange(256), 0xDD, 0xDF, 0xC1, 0x80, 0xC9))
    return _framed(bytes(changed), body)


def cut(rng):
    data = rng.choice(FRAMES)
    if rng.random() < 0.5:
        return data[: rng.randrange(len(data))]
    head, body = _split(data)
    return _framed(head[: rng.randrange(len(head) + 1)], body[: 8 * rng.randrange(len(body) // 8 + 1)])


def spliced(rng):
    one, other = rng.choice(FRAMES), rng.choice(FRAMES)
    if rng.random() < 0.3:
        return one[: rng.randrange(len(one))] + other[rng.randrange(len(other)) :]
    (head, body), (other_head, other_body) = _split(one), _split(other)
    middle = rng.randrange(len(head) + 1)
    return _framed(head[:middle] + other_head[rng.randrange(len(other_head)) :], rng.choice((body, other_body)))


def with_other_lengths(rng):
    data = bytearray(rng.choice(FRAMES))
    at, form = rng.choice(((4, "<I"), (8, "<I"), (12, "<Q")))
    word = rng.choice(WORDS) if rng.random() < 0.7 else rng.randrange(300)
    data[at : at + struct.calcsize(form)] = struct.pack(form, word % (2**32 if form == "<I" else 2**64))
    return bytes(data)


def with_other_values(rng):
    """The head as data, some nodes exchanged, and written again: malformed only in meaning."""
    head, body = _split(rng.choice(FRAMES))
    plain = msgspec.msgpack.decode(head)
    for _ in range(rng.choice((1, 1, 2, 3))):
        plain = _exchanged(plain, rng)
    if rng.random() < 0.2:
        body = body + bytes(8) if rng.random() < 0.5 else rng.randbytes(len(body))
    return _framed(msgspec.msgpack.encode(plain), body)


def _exchanged(plain, rng):
    places = list(_places(plain))
    if not places:
        return _odd(rng)
    container, key = rng.choice(places)
    action = rng.random()
    if action < 0.12:
        del container[key]
    elif action < 0.24:
        container[key] = [container[key]] * rng.choice((1, 2, 3))
    elif action < 0.3:
        container[key] = _nested(container[key], rng)
    elif action < 0.45:
        container[key] = {"$": rng.choice(KINDS), **{name: _odd(rng) for name in _NAMES if rng.random() < 0.5}}
    elif key == "$" and action < 0.8:
        container[key] = rng.choice(KINDS)
    elif type(container[key]) is int and action < 0.8:
        container[key] = min(max(container[key] + rng.choice((-8, -1, 1, 8, 256)), -(2**63)), 2**64 - 1)
    elif type(container[key]) is str and container[key] and action < 0.8:
        at = rng.randrange(len(container[key]))
        container[key] = container[key][:at] + rng.choice('0179-"{}[],:eé\0') + container[key][at + 1 :]
    else:
        container[key] = _odd(rng)
    return plain


def _odd(rng):
    return copy.deepcopy(rng.choice(ODD))  # a later exchange may change it


_NAMES = ["dtype", "shape", "offset", "size", "items", "pairs", "data", "digits", "real", "imag", "json", "nodes"]
_NAMES += ["edges", "edge_links", "code", "message", "error_type", "trace", "state", "inc", "has_uint32", "uinteger"]


def _nested(value, rng):
    for _ in range(rng.choice((3, 40, 63, 64, 70, 200))):
        value = [value] if rng.random() < 0.5 else {"$": "tuple", "items": [value]}
    return value


def _places(plain):
    entries = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    for key, item in entries:
        yield plain, key
        yield from _places(item)


def _split(data):
    _, head_bytes, _, _ = PREFIX.unpack(data[:PREFIX_BYTES])
    return data[PREFIX_BYTES : PREFIX_BYTES + head_bytes], data[PREFIX_BYTES + head_bytes :]


def _framed(head, body):
    return PREFIX.pack(b"PDK1", len(head), 0, len(body)) + head + body


MUTATIONS = {
    noise: 5_000,
    noise_in_a_frame: 25_000,
    flipped: 20_000,
    flipped_inside: 40_000,
    cut: 10_000,
    spliced: 20_000,
    with_other_lengths: 5_000,
    with_other_values: 75_000,
}


def test_the_counts_are_what_the_issue_asks_for():
    assert sum(MUTATIONS.values()) >= 100_000


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_any_bytes_are_a_message_or_a_bad_frame(mutation):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(MUTATIONS[mutation]):
        rng = random.Random(f"{SEED} {mutation.__name__} {number}")
        data = mutation(rng)
        try:
            _, message = decode_frame(data)
        except BadFrame:
            continue
        except BaseException as error:
            raise AssertionError(f"{type(error).__name__}: {error}; frame {number}: {data.hex()}") from error
        # What was accepted is a message like any other: it can be written, and is no larger than it came.
        assert len(b"".join(encode(message))) <= 2 * len(data) + 200, data.hex()
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 64 << 10, f"{grown_kib} KiB"
