"""OpenEnv's JSON frames by strangers: any text costs its sender an answer, never the session, and takes no time."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.server.fuzzing import JSON, LEAKS, LIMIT_S, LIMIT_S_PER_BYTE
from tests.server.in_process import vault_server
from tests.server.raw_peers import BINARY, TEXT
from tests.serving import shared

pytestmark = pytest.mark.process


server = shared(lambda folder: vault_server(folder, "Vault-v0", "Picky-v0"))


class Episode:
    """A session in the middle of an episode, whose steps are counted on both sides."""

    def __init__(self, server, name="Vault-v0"):
        self.server, self.peer = server, server.peer(timeout=60.0)
        assert self.peer.upgrade(f"/{name}/ws").status == 101
        self.steps, self.resets = 0, 0
        self.see(self.peer.text({"type": "reset", "data": {}}))

    def see(self, answer):
        if answer["type"] == "observation":
            self.steps = int(answer["data"]["observation"]["value"][0])
            self.resets = answer["data"]["observation"]["info"].get("resets", self.resets)
        return answer

    def send(self, payload, *, opcode=TEXT, pieces=1):
        """The answer to one message, checked for what no answer may have."""
        size = max(1, -(-len(payload) // pieces))
        with self.server.busy_at_most(LIMIT_S + len(payload) * LIMIT_S_PER_BYTE, payload):
            for start in range(0, max(1, len(payload)), size):
                last = start + size >= len(payload)
                self.peer.frame(0 if start else opcode, payload[start : start + size], fin=last)
            got, answer = self.peer.message()
        assert got == TEXT, (payload[:200], got, answer)
        for word in LEAKS:
            assert word.encode() not in answer, (payload[:200], answer)
        return self.see(json.loads(answer))

    def check(self, action=1):
        """A step works, and the episode is the one it was."""
        steps, resets = self.steps, self.resets
        answer = self.send(json.dumps({"type": "step", "data": {"action": action}}).encode())
        assert (self.steps, self.resets) == (steps + 1, resets), answer


@pytest.fixture(scope="module")
def episode(server):
    episode = Episode(server)
    yield episode
    episode.peer.sock.close()


STEP = '{"type":"step","data":{"action":%s}}'
BAD_JSON = {  # what is large is made when it is needed
    "empty": b"",
    "NaN": STEP % "NaN",
    "Infinity": STEP % "-Infinity",
    "1e999": STEP % "1e999",
    "duplicate key": '{"type":"step","type":"reset","data":{}}',
    "duplicate key deep": STEP % '{"a":1,"a":2}',
    "lone surrogate": STEP % '"\\ud800"',
    "surrogates the wrong way": STEP % '"\\udc00\\ud800"',
    "raw surrogate": (STEP % '"x"').encode().replace(b"x", b"\xed\xa0\x80"),
    "not UTF-8": b'{"type":"\xff\xfe"}',
    "cut UTF-8": '{"type":"é"}'.encode()[:-3],
    "overlong UTF-8": b'{"type":"\xc0\xaf"}',
    "depth": "[" * 100_000,
    "depth, closed": "[" * 100_000 + "]" * 100_000,
    "depth of objects": '{"a":' * 100_000,
    "many digits": lambda: STEP % ("9" * 10_000_000),
    "many digits of a fraction": lambda: STEP % f"0.{'9' * 10_000_000}e400",
    "minus": lambda: STEP % f"-{'9' * 10_000_000}",
    "huge string": lambda: STEP % f'"{"x" * 10_000_000}',
    "spaces": lambda: " " * 10_000_000,
    "NUL": b"\x00" * 1000,
    "BOM": b"\xef\xbb\xbf{}",
    "array": "[]",
    "text": '"x"',
    "null": "null",
    "number": "5",
    "open": '{"type":"step","data":',
    "after the end": STEP % "1" + "x",
    "two values": (STEP % "1") * 2,
    "single quotes": "{'type':'step'}",
    "comment": '{"type":"step"/*x*/}',
    "unknown type": '{"type":"steal","data":{}}',
    "no type": '{"data":{}}',
    "type of another kind": '{"type":["step"],"data":{}}',
    "type as object": '{"type":{"a":1},"data":{}}',
    "long type": lambda: json.dumps({"type": "x" * 1_000_000}),
    "extra": '{"type":"step","data":{"action":1},"id":7}',
    "many extras": json.dumps({"type": "step", **{f"k{i}": i for i in range(10_000)}}),
    "no data": '{"type":"step"}',
    "data of another kind": '{"type":"step","data":[1]}',
    "prototype": '{"type":"step","data":{"__proto__":{},"__class__":1}}',
    "a million integers": lambda: STEP % f"[{'0,' * 1_000_000}0]",
    "a million lists": lambda: STEP % f"[{'[],' * 1_000_000}0]",
    "a million keys": lambda: json.dumps({f"k{i}": 0 for i in range(1_000_000)}),
    "as many lists as are read": STEP % f"[{'[],' * 32_000}0]",
    "as many keys as are read": json.dumps({f"k{i}": 0 for i in range(32_000)}),
    "many escaped quotes": lambda: '["' + '\\"[' * 9_000_000 + '"]',
    "as many escapes as are read": lambda: '["' + '\\"[' * 1_000_000 + "x" * 20_000_000 + '"]',
    "sixty megabytes": lambda: '["' + "x" * 60_000_000 + '"]',
    "mcp": '{"type":"mcp","data":{"jsonrpc":"3","method":7}}',
}
BAD_ACTIONS = {
    name: STEP % text
    for name, text in {
        "raises with the secret": "7",
        "too large": "8",
        "negative": "-1",
        "fraction": "1.5",
        "text": '"1"',
        "true": "true",
        "null": "null",
        "list": "[1]",
        "object": '{"action":1}',
        "large integer": "9" * 299,
        "beyond 64 bits": str(1 << 64),
        "minus zero": "-0.5",
        "long list": json.dumps([0] * 100_000),
    }.items()
}


@pytest.mark.parametrize("name", [*BAD_JSON, *BAD_ACTIONS])
def test_a_bad_frame_is_refused_at_once_and_the_episode_goes_on(episode, name):
    text = {**BAD_JSON, **BAD_ACTIONS}[name]
    text = text() if callable(text) else text
    answer = episode.send(text if isinstance(text, bytes) else text.encode())
    if name == "mcp":
        assert "error" in answer["data"]
    else:
        assert answer["type"] == "error", answer
        assert len(json.dumps(answer)) < 200_000
    episode.check()


@pytest.mark.parametrize("pieces", [1, 2, 9])
def test_binary_and_fragmented_messages(episode, pieces):
    good = (STEP % "1").encode()
    assert episode.send(good, opcode=BINARY, pieces=pieces)["data"]["code"] == "INVALID_JSON"
    steps = episode.steps
    assert episode.send(good, pieces=pieces)["type"] == "observation"
    assert episode.steps == steps + 1
    assert episode.send(b"\xff" * 20, pieces=pieces)["type"] == "error"
    episode.check()


def test_control_frames_between_fragments_and_empty_ones(episode):
    episode.peer.frame(TEXT, b"", fin=False)
    episode.peer.frame(9, b"are you there")
    episode.peer.frame(0, b"", fin=False)
    episode.peer.frame(10, b"unasked")
    assert episode.send(b"[]", opcode=0)["type"] == "error"
    episode.check()


MESSAGES = st.one_of(
    JSON,
    st.fixed_dictionaries(
        {"type": st.sampled_from(["step", "reset", "state", "mcp", "x"])},
        optional={"data": JSON | st.fixed_dictionaries({"action": JSON}) | st.fixed_dictionaries({"seed": JSON})},
    ),
)
TEXTS = MESSAGES.map(lambda value: json.dumps(value).encode())


@st.composite
def mutated(draw):
    """A message with some bytes replaced, cut out or doubled."""
    text = bytearray(draw(TEXTS))
    for _ in range(draw(st.integers(0, 4))):
        if not text:
            break
        at = draw(st.integers(0, len(text) - 1))
        how = draw(st.sampled_from(["replace", "cut", "double", "insert"]))
        if how == "replace":
            text[at] = draw(st.integers(0, 255))
        elif how == "cut":
            del text[at : at + draw(st.integers(1, 9))]
        elif how == "double":
            text[at:at] = text[at : at + draw(st.integers(1, 30))]
        else:
            text[at:at] = draw(
                st.sampled_from([b'"', b"{", b"]", b"\\ud800", b"1e999", b"NaN", b"\xed\xa0\x80", b"\x00"])
            )
    return bytes(text)


def one_frame(episode, payload, opcode, pieces):
    answer = episode.send(payload, opcode=opcode, pieces=pieces)
    assert answer["type"] in ("error", "observation", "state", "mcp")
    episode.check()


FRAMES = (mutated() | st.binary(max_size=200), st.sampled_from([TEXT, TEXT, TEXT, BINARY]), st.integers(1, 3))


@settings(max_examples=200)
@given(*FRAMES)
def test_any_frame(episode, payload, opcode, pieces):
    one_frame(episode, payload, opcode, pieces)


@pytest.mark.full
@settings(max_examples=5_000)
@given(*FRAMES)
def test_any_frame_of_many(episode, payload, opcode, pieces):
    one_frame(episode, payload, opcode, pieces)


# Actions that are none of the space never reach the environment, which counts them.

GOOD = {"go": -1, "push": [0.5, -0.5], "say": "ab", "press": [0, 1, 0], "pick": [1, 2], "both": [1, [[1, 2], [3, 255]]]}


@pytest.fixture(scope="module")
def picky(server):
    episode = Episode(server, "Picky-v0")
    yield episode
    episode.peer.sock.close()


@st.composite
def changed_action(draw):
    """The good action with one place changed to anything."""
    value = json.loads(json.dumps(GOOD))
    place, key = value, draw(st.sampled_from(sorted(GOOD)))
    while isinstance(place[key], list) and draw(st.booleans()):
        place, key = place[key], draw(st.integers(0, len(place[key]) - 1))
    place[key] = draw(JSON | st.integers(-2, 300) | st.floats(-2, 2) | st.text("abcd", max_size=6))
    if draw(st.integers(0, 9)) == 0:
        value["more"] = 1
    return value


def one_action(picky, action):
    answer = picky.send(json.dumps({"type": "step", "data": {"action": action}}).encode())
    if answer["type"] == "observation":
        assert answer["data"]["observation"]["info"] == {"wrong": 0}, action
    picky.check(GOOD)


def test_the_good_action_is_one(picky):
    form = picky.send(json.dumps({"type": "step", "data": {"action": GOOD}}).encode())
    assert form["type"] == "observation", form


@settings(max_examples=200)
@given(changed_action() | JSON)
def test_no_wrong_action_reaches_an_environment(picky, action):
    one_action(picky, action)


@pytest.mark.full
@settings(max_examples=5_000)
@given(changed_action() | JSON)
def test_no_wrong_action_of_many_reaches_an_environment(picky, action):
    one_action(picky, action)
