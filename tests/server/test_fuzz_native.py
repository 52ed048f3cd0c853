"""Native frames by strangers: any bytes cost their sender an answer, never the session, and take no time."""

import struct

import msgspec
import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from paddock.hosting import messages as m
from paddock.hosting.codec import PREFIX, encode
from tests.server.in_process import vault_server
from tests.server.native_episode import Episode
from tests.server.raw_peers import TEXT
from tests.serving import shared

pytestmark = pytest.mark.process


server = shared(lambda folder: vault_server(folder, "Vault-v0", "Picky-v0"))


@pytest.fixture(scope="module")
def episode(server):
    episode = Episode(server)
    yield episode
    episode.peer.sock.close()


def frame(number, head, body=b"", *, magic=b"PDK1", head_bytes=None, body_bytes=None):
    sizes = (len(head) if head_bytes is None else head_bytes, len(body) if body_bytes is None else body_bytes)
    return PREFIX.pack(magic, sizes[0], number, sizes[1]) + head + body


pack = msgspec.msgpack.encode


def nested(depth, end=b"\xc0"):
    return b"\x91" * depth + end


def bad_frames(number):
    step = b"".join(encode(m.Step([0], [1]), number))
    head = pack({"type": "step", "envs": [0], "actions": [1]})
    return {
        "empty": b"",
        "no prefix": b"PDK1",
        "other magic": frame(number, head, magic=b"PDK2"),
        "cut": step[:-1],
        "too long": step + b"x",
        "head said larger": frame(number, head, head_bytes=len(head) + 1),
        "head said huge": frame(number, head, head_bytes=0xFFFFFFFF),
        "body said huge": frame(number, head, body_bytes=1 << 60),
        "no head": frame(number, b""),
        "not msgpack": frame(number, b"\xc1"),
        "no map": frame(number, pack([1])),
        "no type": frame(number, pack({})),
        "unknown type": frame(number, pack({"type": "steal"})),
        "a reply": b"".join(encode(m.Done(1), number)),
        "a failure": b"".join(encode(m.Failed("X", "y"), number)),
        "another hello": b"".join(encode(m.Hello(), number)),
        "hello once more": b"".join(encode(m.Hello(), 0)),
        "its answer written by itself": b"".join(encode(m.Refuse("X", "y"), number)),
        "a welcome": b"".join(encode(m.Welcome("a", "b", 1, 0, 1.0), number)),
        "shared memory": b"".join(encode(m.Attach(1, None, None), number)),
        "no envs": frame(number, pack({"type": "step"})),
        "envs of another kind": frame(number, pack({"type": "step", "envs": "0", "actions": [1]})),
        "depth": frame(number, b"\x82\xa4type\xa4step\xa4envs" + nested(100_000)),
        "depth of actions": frame(number, b"\x83\xa4type\xa4step\xa4envs\x91\x00\xa7actions" + nested(100_000)),
        "twice the same key": frame(
            number, b"\x84\xa4type\xa4step\xa4envs\x91\x00\xa7actions\x91\x01\xa4type\xa5reset"
        ),
        "claims a billion items": frame(number, b"\x83\xa4type\xa4step\xa4envs\xdd\x3f\xff\xff\xff"),
        "claims a gigabyte": frame(number, b"\x83\xa4type\xa4step\xa4envs\xdb\x3f\xff\xff\xff"),
        "extension": frame(number, b"\x83\xa4type\xa4step\xa4envs\x91\x00\xa7actions\x91\xc7\x03\x05abc"),
        "not UTF-8": frame(number, b"\x82\xa4type\xa5\xff\xfe\xfd\xfc\xfb\xa4envs\x90"),
        "large head": frame(number, pack({"type": "step", "envs": [0], "actions": [list(range(200_000))]})),
        "many lists": frame(number, pack({"type": "step", "envs": [0], "actions": [[[]] * 120_000]})),
        "many maps": frame(number, pack({"type": "step", "envs": [0], "actions": [[{}] * 120_000]})),
        "sixteen million lists": frame(
            number, b"\x83\xa4type\xa4step\xa4envs\x91\x00\xa7actions\x91\xdd\x01" + b"\0" * 3 + b"\x90" * (1 << 24)
        ),
        "number ahead": b"".join(encode(m.Step([0], [1]), number + 50)),
        "number zero": b"".join(encode(m.Step([0], [1]), 0)),
        "number far behind": b"".join(encode(m.Step([0], [1]), number + (1 << 31))),
        "names code": b"".join(encode(m.Make(0, {"entry_point": "os:system"}), number)),
        "a kwarg that is not declared": b"".join(encode(m.Make(0, {"kwargs": {"x": 1}}), number)),
        "another environment": b"".join(encode(m.Make(1, {}), number)),
        "with autoreset": b"".join(encode(m.Make(0, {}, "NEXT_STEP"), number)),
        "make in a call": frame(number, pack({"name": "make", "type": "call", "env": 0})),
        "make and a call": frame(number, b"\x84\xa4type\xa4make\xa3env\x00\xa4what\x80\xa4type\xa4call"),
        "a make that says so late": frame(
            number, pack({"env": 0, "what": {"entry_point": "os:system"}, "type": "make"})
        ),
        "its own": b"".join(encode(m.Call(0, "_fail", ["x"]), number)),
        "dunder": b"".join(encode(m.Call(0, "__class__", how="get"), number)),
        "dotted": b"".join(encode(m.Call(0, "unwrapped._fail", ["x"]), number)),
    }


@pytest.mark.parametrize("name", bad_frames(0))
def test_a_bad_frame_is_refused_at_once_and_the_episode_goes_on(episode, name):
    answer = episode.bad(bad_frames(episode.count + 1)[name])
    assert isinstance(answer, m.Failed), answer
    assert answer.trace == "" and len(answer.message) < 2000
    episode.check()


def bad_requests():
    """Frames in order, of requests that can't be carried out: they are taken, and answered by the worker."""
    return [
        m.Step([0], [7]),
        m.Step([0], [8]),
        m.Step([0], [-1]),
        m.Step([0], [1.5]),
        m.Step([0], [None]),
        m.Step([0], ["x" * 5000]),
        m.Step([0], [np.zeros(100_000)]),
        m.Step([0], [np.int64(9)]),
        m.Step([0], [float("nan")]),
        m.Step([0], [{"a": [1, 2]}]),
        m.Step([0], [10**400]),
        m.Step([0], []),
        m.Step([0], None),
        m.Step([5], [1]),
        m.Step([-1], [1]),
        m.Reset(0, -1),
        m.Reset(0, options={"any": "thing"}),
        m.Reset(9),
        m.State(7),
        m.Render(0),
        m.Restore(0, b"\x80\x04\x95not a snapshot"),
        m.Call(0, "nothing"),
        m.Call(0, "step", [7]),
        m.Call(0, "public_state", ["too", "many"]),
    ]


@pytest.mark.parametrize("request_", bad_requests(), ids=lambda one: str(one)[:60])
def test_a_request_that_fails_does_not_end_the_episode(episode, request_):
    answer = episode.bad(b"".join(encode(request_, episode.count + 1)))
    if isinstance(answer, m.Done) and isinstance(answer.value, list):
        assert all(isinstance(one, m.Failed) for one in answer.value), answer
    else:
        assert isinstance(answer, m.Failed), answer
    episode.check()


@pytest.mark.parametrize("pieces", [2, 5, 50])
def test_fragments_are_one_message(episode, pieces):
    payload = b"".join(encode(m.Step([0], [1]), episode.count + 1))
    assert isinstance(episode.send(payload, pieces=pieces), m.Done)
    episode.count, episode.steps = episode.count + 1, episode.steps + 1
    assert isinstance(episode.bad(b"PDK1" * 10, pieces=pieces), m.Failed)
    episode.check()


def test_text_is_refused_and_costs_nothing(episode):
    for payload in (b"{}", "é".encode(), b"\xff\xfe", b""):
        assert episode.send(payload, opcode=TEXT).code == "BAD_FRAME"
        episode.check()


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 66), 1 << 66)
    | st.floats()
    | st.text(max_size=9)
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
REQUESTS = st.one_of(
    st.builds(m.Step, st.lists(st.integers(-1, 2), max_size=3), st.none() | st.lists(VALUES, max_size=3)),
    st.builds(m.State, st.integers(-1, 3)),
    st.builds(m.Render, st.integers(-1, 3)),
    st.builds(m.Restore, st.integers(-1, 3), st.binary(max_size=20)),
    st.builds(m.Call, st.integers(-1, 1), st.text(max_size=9), st.lists(VALUES, max_size=2)),
    st.builds(m.Make, st.integers(1, 3), st.dictionaries(st.text(max_size=5), VALUES, max_size=2)),
    st.builds(m.Reset, st.just(0), st.just(-1), VALUES),
)


@st.composite
def payloads(draw):
    """For ``(number) -> bytes``: a request, changed in some bytes."""
    parts = b"".join(encode(draw(REQUESTS), 0))
    changes = draw(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4))
    cut = draw(st.none() | st.integers(0, len(parts)))
    moved = draw(st.sampled_from([0, 0, 0, 0, 1, -1, 7, -9]))

    def make(number):
        data = bytearray(parts)
        struct.pack_into("<I", data, 8, (number + moved) % (1 << 32))
        for at, byte in changes:
            data[at % len(data)] = byte
        return bytes(data if cut is None else data[:cut])

    return make


def one_frame(episode, make, pieces):
    number = episode.count + 1
    payload = make(number)
    answer = episode.bad(payload, pieces=pieces)
    assert isinstance(answer, (m.Done, m.Failed))
    # It may have been sound after all; a number of before is answered from what is kept.
    results = answer.value if isinstance(answer, m.Done) and episode.count == number else None
    if isinstance(results, list):
        episode.steps += sum(isinstance(one, list) and len(one) == 5 for one in results)
        if len(results) == 2 and isinstance(results[1], dict):
            episode.steps, episode.resets = 0, results[1]["resets"]
    note(f"{payload} was answered with {answer}")
    episode.check()


FRAMES = (payloads() | st.binary(max_size=80).map(lambda data: lambda number: data), st.integers(1, 3))


@settings(max_examples=200)
@given(*FRAMES)
def test_any_frame(episode, make, pieces):
    one_frame(episode, make, pieces)


@pytest.mark.full
@settings(max_examples=5_000)
@given(*FRAMES)
def test_any_frame_of_many(episode, make, pieces):
    one_frame(episode, make, pieces)


GOOD = {
    "go": -1,
    "push": np.zeros(2, np.float32),
    "say": "ab",
    "press": np.zeros(3, np.int8),
    "pick": np.zeros(2, np.int64),
    "both": (1, np.zeros((2, 2), np.uint8)),
}


@pytest.fixture(scope="module")
def picky(server):
    episode = Episode(server, "Picky-v0")
    yield episode
    episode.peer.sock.close()


ARRAYS = st.builds(
    lambda kind, shape, value: np.full(shape, value).astype(kind),
    st.sampled_from(["f4", "f8", "i8", "i1", "u1", "?", ">f4", "c8"]),
    st.sampled_from([(), (2,), (3,), (2, 2), (0,), (1, 2)]),
    st.sampled_from([0, 1, 2, -1, 255]),
)


def one_action(picky, key, value):
    good = picky.ask(m.Step([0], [GOOD])).value[0]
    assert not isinstance(good, m.Failed) and good[4] == {"wrong": 0}
    answer = picky.ask(m.Step([0], [{**GOOD, key: value}]))
    result = answer if isinstance(answer, m.Failed) else answer.value[0]
    assert isinstance(result, m.Failed) or result[4] == {"wrong": 0}, (key, value)


@settings(max_examples=150)
@given(st.sampled_from([*GOOD, "more"]), VALUES | ARRAYS)
def test_no_wrong_action_reaches_an_environment(picky, key, value):
    one_action(picky, key, value)


@pytest.mark.full
@settings(max_examples=5_000)
@given(st.sampled_from([*GOOD, "more"]), VALUES | ARRAYS)
def test_no_wrong_action_of_many_reaches_an_environment(picky, key, value):
    one_action(picky, key, value)
