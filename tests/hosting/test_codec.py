"""Frames: the same bytes for ever, read back as the same messages, and bounds on both sides."""

import struct
import time
import tracemalloc
from typing import get_args

import msgspec
import numpy as np
import pytest

from paddock.errors import BadFrame, NotTransferable
from paddock.hosting import messages
from paddock.hosting.codec import PREFIX_BYTES, decode, decode_frame, decode_prefix, encode
from paddock.hosting.messages import LIMITS, Call, Done, Failed, Limits, Make, Render, Reset, Restore, State, Step
from paddock.hosting.values import _READ_RULES as KINDS
from tests.case_names import case_name
from tests.hosting import golden
from tests.hosting.exactness import assert_same

FRAMES = golden.stored()


@pytest.mark.parametrize("name", golden.MESSAGES)
def test_messages_have_the_bytes_that_they_always_had(name):
    assert golden.frame_of(golden.MESSAGES[name]) == FRAMES[name]


@pytest.mark.parametrize("name", FRAMES)
def test_kept_frames_are_read_as_their_messages(name):
    id, message = decode_frame(FRAMES[name], unpickler=golden.unpickler)
    assert id == golden.REQUEST_ID
    if name == "value_pickled":
        assert message == golden.MESSAGES[name]
    else:
        assert_same(message, golden.ARRIVES.get(name, golden.MESSAGES[name]))


def test_every_message_and_every_kind_of_value_has_a_kept_frame():
    assert {type(message) for message in golden.MESSAGES.values()} == set(get_args(messages.Message))
    whole = b"".join(FRAMES.values())
    assert [kind for kind in KINDS if msgspec.msgpack.encode({"$": kind})[1:] not in whole] == []


def test_the_examples_in_the_docs_are_kept_frames():
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "wire.md").read_text()
    blocks = [part.split("```")[0] for part in page.split("```hex\n")[1:]]
    shown = [bytes.fromhex("".join(line.split("#")[0] for line in block.splitlines())) for block in blocks]
    assert shown == [FRAMES["done_step"], FRAMES["rows"]]


def test_small_frames_are_one_part_and_large_arrays_are_lent():
    assert len(encode(Done([[np.zeros(4, "f4"), 1.0, False, False, {}]]))) == 1
    array = np.zeros(1 << 20, "u1")
    parts = encode(Done([array, "x"]))
    assert np.shares_memory(np.frombuffer(parts[1], "u1"), array)
    assert_same(decode_frame(b"".join(parts))[1], Done([array, "x"]))


def test_large_snapshots_and_seeds_of_any_length_cross():
    for message in (Restore(1, bytes(3 << 20)), Reset(0, 2**200, None), Failed("E", "m" * (2 << 20))):
        assert_same(decode_frame(b"".join(encode(message)))[1], message)


def test_arrays_of_two_messages_share_no_memory():
    frame = bytearray(b"".join(encode(Done(np.zeros(8)))))
    _, first = decode_frame(frame)
    _, second = decode_frame(frame)
    first.value[:] = 5
    frame[-64:] = b"\xff" * 64
    assert not second.value.any() and (first.value == 5).all()


class Surface:
    pass


@pytest.mark.parametrize(
    ("message", "answers", "path"),
    [
        (Done([[0, 1.0, False, False, {"viewer": Surface()}]]), Step([3], [0]), "info['viewer']"),
        (Done([[Surface(), 1.0, False, False, {}]]), Step([3], [0]), "observation"),
        (Done([0, {Surface(): 1}]), Reset(0), "a key of info"),
        (Done([Surface()]), Call(0, "boards"), "boards[0]"),
        (Done(Surface()), Render(0), "render()"),
        (Done([Surface()]), None, "value[0]"),
        (Step([0], [Surface()]), None, "actions[0]"),
        (Reset(0, 1, {"a": Surface()}), None, "options['a']"),
        (Call(0, "f", [], {"a": Surface()}), None, "kwargs['a']"),
        (Make(0, {"fn": Surface}), None, "what['fn']"),
    ],
    ids=case_name,
)
def test_what_can_not_cross_is_called_by_the_users_name_for_it(message, answers, path):
    with pytest.raises(NotTransferable) as caught:
        encode(message, answers=answers)
    assert caught.value.path == path and str(caught.value).startswith(f"{path} is a ")


@pytest.mark.parametrize(
    "message",
    [Done(["x" * 1000] * 1100), Call(0, "n" * (1 << 21)), Call(0, "\ud800"), State(2**70)],
    ids=lambda m: m.__class__,
)
def test_a_message_that_no_frame_holds_is_refused(message):
    with pytest.raises(NotTransferable):
        encode(message)


def test_the_prefix_is_checked_before_anything_is_read():
    good = encode(Done(), 9)[0][:PREFIX_BYTES]
    assert decode_prefix(good) == (9, len(encode(Done())[0]) - PREFIX_BYTES, 0)
    for bad in (
        b"",
        good[:-1],
        b"PDK2" + good[4:],
        struct.pack("<4sIIQ", b"PDK1", LIMITS.head_bytes + 1, 0, 0),
        struct.pack("<4sIIQ", b"PDK1", 1, 0, LIMITS.body_bytes + 8),
        struct.pack("<4sIIQ", b"PDK1", 1, 0, 12),
        struct.pack("<4sIIQ", b"PDK1", 1, 0, 2**64 - 8),
    ):
        with pytest.raises(BadFrame):
            decode_prefix(bad)
    with pytest.raises(BadFrame, match="at most 4"):
        decode_prefix(good, limits=Limits(head_bytes=4))


def _head(**fields):
    return msgspec.msgpack.encode(fields)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\xc0",
        _head(),
        _head(type="unknown"),
        _head(type=3),
        _head(type="step"),
        _head(type="step", envs=[1.0]),
        _head(type="step", envs=[True]),
        _head(type="step", envs=[-1]),
        _head(type="step", envs=[2**63]),
        _head(type="step", envs=[0], actions={}),
        _head(type="state", env=2**40),
        _head(type="state", env=None),
        _head(type="close", env=-1),
        _head(type="reset", env=0, seed=1.5),
        _head(type="reset", env=0, seed=True),
        _head(type="reset", env=0, seed={"$": "int", "digits": "x"}),
        _head(type="make", env=0, what=[]),
        _head(type="make", env=0, what={"$": "tuple", "items": []}),
        _head(type="make", env=0, what={"$": "dict", "pairs": [[1, 2]]}),
        _head(type="call", env=0, name="f", kwargs={"$": "dict", "pairs": [[1, 2]]}),
        _head(type="call", env=0, name="f", how="delete"),
        _head(type="restore", env=0, snapshot="text"),
        _head(type="failed", code="E"),
        _head(type="failed", code="E", message=3),
        _head(type="attach", rows=-1, observations=None, actions=None),
        _head(type="done", value=1) + b"\0",
        _head(type="done", value=1)[:-1],
        _head(type="done", value=[msgspec.msgpack.Ext(4, b"x")]),
        b"\x82\xa4type\xa4done\xa5value\xd6\xff\x00\x00\x00\x00",  # a timestamp
        b"\x82\xa4type\xa4done\xa5value\xa1\xff",  # not UTF-8
        b"\x82\xa4type\xa4done\xa5value" + b"\x91" * 100_000,
        b"\x82\xa4type\xa4done\xa5other" + b"\x91" * 100_000,
        b"\x82\xa4type\xa4done\xa5value\xdd\xff\xff\xff\xff",
    ],
    ids=lambda head: repr(head)[:70],
)
def test_malformed_heads_are_bad_frames(head):
    with pytest.raises(BadFrame):
        decode(head, bytearray())


@pytest.mark.parametrize("marker", [{"$": None}, {"$": "array", "dtype": "<f4", "shape": [None], "offset": 0}])
@pytest.mark.parametrize("levels", [100, 800, 850, 900, 950, 1000])
def test_a_field_nested_to_the_edge_of_the_stack_is_a_bad_frame(marker, levels):
    nested = b"\x91" * levels + b"\xc0"
    head = _head(type="done", value=marker).replace(b"\xc0", nested)
    with pytest.raises(BadFrame):
        decode(head, bytearray())


def test_values_too_deep_for_what_is_left_of_the_stack_are_a_bad_frame():
    nested = []
    for _ in range(60):
        nested = [nested]
    head = _head(type="done", value=nested)

    def outcome_below(levels):
        if levels:
            return outcome_below(levels - 1)
        try:
            return type(decode(head, bytearray()))
        except (BadFrame, RecursionError) as error:  # the latter where not even decode could begin
            return type(error)

    def outcome(levels):
        try:
            return outcome_below(levels)
        except RecursionError:
            return RecursionError

    found = [outcome(levels) for levels in range(600, 1000)]
    assert list(dict.fromkeys(found)) == [Done, BadFrame, RecursionError]


def test_messages_without_values_have_no_body():
    for head in (
        _head(type="done", value=None),
        _head(type="state", env=0),
        _head(type="step rows"),
        _head(type="rows"),
    ):
        with pytest.raises(BadFrame, match="of which the values take 0"):
            decode(head, bytearray(8))


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [b"\x80", b"\x90", b"\x81\xa0\x80", b"\x81\xa0\x00", b"\x91\x90", b"\xa2\xc3\xa9", b"\xca\x00\x00\x00\x01"]
    + [msgspec.msgpack.encode(marker) for marker in (
        {"$": "tuple", "items": []},
        {"$": "dict", "pairs": [[0, 0]]},
        {"$": "objects", "shape": [0], "items": []},
        {"$": "scalar", "dtype": "|u1", "data": b"x"},
        {"$": "graph", "nodes": {}, "edges": {}, "edge_links": {}},
        {"$": "failed", "code": "", "message": "", "error_type": "", "trace": ""},
        {"$": "generator", "state": b"0" * 16, "inc": b"0" * 16, "has_uint32": False, "uinteger": 0},
        {"$": "array", "dtype": "|u1", "shape": [0] * 32, "offset": 0},
        {"$": "space", "json": '{"paddock":1,"type":"Discrete","n":1,"start":0,"dtype":"int8"}'},
        {"$": "spec", "json": '{"id":"A-v0"}'},
    )],
    ids=lambda unit: repr(unit)[:50],
)  # fmt: skip
def test_a_head_takes_no_more_memory_than_promised(unit):
    # An eighth of the longest head: what it takes grows in step, and the rest only takes time.
    count = (LIMITS.head_bytes // 8 - 24) // len(unit)
    head = b"\x82\xa4type\xa4done\xa5value\xdd" + struct.pack(">I", count) + unit * count
    tracemalloc.start()
    try:
        decode(head, bytearray())
    except BadFrame:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert 8 * peak < 100 << 20, f"{8 * peak / 2**20:.1f} MiB"


def test_keys_that_are_no_text_are_found_before_a_long_head_is_built():
    head = _head(type="done", value={(i, i): None for i in range(30_000)})
    with pytest.raises(BadFrame, match="the key of a map is not text"):
        decode(head, bytearray())


def test_long_heads_with_everything_in_them_pass_the_look_at_their_keys():
    values = [value for name, value in golden.VALUES.items() if name != "pickled"]
    message = Done(values * 30 + ["x" * n for n in range(400)] + [list(range(70_000)), b"y" * 300, {"k" * 300: 1}])
    frame = b"".join(encode(message))
    assert decode_prefix(frame[:PREFIX_BYTES])[1] > 1 << 16
    assert_same(decode_frame(frame)[1], message)


def test_the_worst_keys_take_no_long_time():
    # Pairs of integers with one and the same hash, in a head short enough not to be looked at first.
    prime_1, prime_2, prime_5 = 11400714785074694791, 14029467366897019727, 2870177450012600261
    mask, inverse = 2**64 - 1, pow(prime_2, -1, 2**64)
    keys, first = [], 0
    while len(keys) < 4000:
        first += 1
        mixed = (prime_5 + first * prime_2) & mask
        mixed = (((mixed << 31) | (mixed >> 33)) & mask) * prime_1 & mask
        second = (12345 - mixed) * inverse & mask
        if second < 2**61 - 1:
            keys.append((first, second))
    head = _head(type="done", value=dict.fromkeys(keys))
    started = time.process_time()
    with pytest.raises(BadFrame, match="expected a str"):
        decode(head, bytearray())
    assert time.process_time() - started < 5
