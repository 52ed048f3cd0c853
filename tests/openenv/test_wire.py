"""OpenEnv's frames: strict in, byte-exact out, and nothing that a peer sends is more than refused."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from paddock.hosting import messages as m
from paddock.hosting.codec import decode_frame, encode
from paddock.hosting.judge import Judge
from paddock.hosting.openenv import http_bodies, json_rpc, space_form, wire
from paddock.hosting.openenv.wire import (
    NESTING_LIMIT,
    WireError,
    WireRequest,
    dump,
    entries_of,
    parse_bounded,
    parse_request,
    refusal_text,
)
from paddock.openenv import AsEnv
from paddock.spaces import Discrete
from paddock.spaces.json_data import NotJson, _read_strictly, read_json
from tests.openenv import malformed, worlds
from tests.openenv.loopback import Loopback
from tests.openenv.walk import Walk, ask

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_written_json_has_pydantics_bytes(data):
    assert dump(data) == to_json(data)


@given(JSON)
def test_what_was_written_is_read_back(data):
    assert parse_bounded(dump(data)) == data


@pytest.mark.parametrize("number", [1e16, 1e22, -1.5e300, 1e-7, 5e-324, 123456789012345680.0, 0.1])
def test_exponents_are_written_as_pydantic_does_also_beside_text_that_looks_like_one(number):
    data = {"1e22": [number, "1e16", '\\"2e2']}
    assert dump(data) == to_json(data)


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        '{"a":Infinity}',
        "[-Infinity]",
        "1e999",
        '{"a":1,"a":2}',
        '{"x":{"a":1,"b":2,"a":3}}',
        "[" * (NESTING_LIMIT + 1) + "]" * (NESTING_LIMIT + 1),
        "[" * 100_000,
        '{"a":' * 100_000,
        "9" * 5000,
        '"\\ud800"',
        "",
        "{",
        "nul",
    ],
    ids=lambda text: text[:20],
)
def test_json_that_is_not_strict_is_refused(text):
    with pytest.raises(NotJson):
        parse_bounded(text)


def test_brackets_within_texts_are_no_nesting():
    assert parse_bounded(json.dumps(["[" * 500 + '\\"' + "{" * 500])) == ["[" * 500 + '\\"' + "{" * 500]


def test_bytes_that_are_no_utf8_are_refused():
    with pytest.raises(NotJson, match="UTF-8"):
        parse_bounded(b'"\xff"')


@given(st.text() | JSON.map(json.dumps) | st.binary())
def test_any_message_is_a_request_or_an_error_that_has_a_frame(text):
    asked = parse_request(text)
    if isinstance(asked, WireError):
        assert not asked.closes
        assert json.loads(wire.error_frame(asked))["type"] == "error"


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ('{"type":"reset"}', WireRequest("reset", {})),
        ('{"type":"reset","data":{"seed":"x"}}', WireRequest("reset", {"seed": "x"})),
        ('{"type":"step","data":{"a":1}}', WireRequest("step", {"a": 1})),
        ('{"type":"state"}', WireRequest("state")),
        ('{"type":"close"}', WireRequest("close")),
    ],
)
def test_requests_are_read(text, asked):
    assert parse_request(text) == asked


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[1,2]", "VALIDATION_ERROR"),
        ("null", "VALIDATION_ERROR"),
        ('"step"', "VALIDATION_ERROR"),
        (b"{}", "INVALID_JSON"),
        ('{"type":"step","data":{"a":NaN}}', "INVALID_JSON"),
        ('{"type":"step","type":"close"}', "INVALID_JSON"),
        ('{"type":["step"]}', "UNKNOWN_TYPE"),
        ('{"type":null}', "UNKNOWN_TYPE"),
    ],
)
def test_what_costs_the_session_in_openenv_is_only_refused(text, code):
    assert parse_request(text).code == code
    assert not parse_request(text).closes


def test_after_every_bad_frame_the_episode_goes_on():
    session = Loopback(Walk)
    ask(session, type="reset")
    bad = ["{", "[1]", "NaN", '{"type":"x"}', '{"type":"step"}', '{"type":"step","data":{"action":7}}', b"\x00"]
    for number, frame in enumerate(bad):
        assert json.loads(session.ask(frame))["type"] == "error"
        if number < 2:
            ask(session, type="step", data={"action": 1})
    assert ask(session, type="state")["data"]["moves"] == 2


def test_an_environment_with_spaces_travels_by_value():
    session = Loopback(Walk)
    first = ask(session, type="reset", data={"seed": 3, "options": {"a": 1}, "colour": "red"})
    assert first == {
        "type": "observation",
        "data": {
            "observation": {
                "value": {"at": [0.0, "inf"], "moves": 0},
                "terminated": False,
                "truncated": False,
                "info": {"options": {"a": 1, "colour": "red"}},
            },
            "reward": None,
            "done": False,
        },
    }
    second = ask(session, type="step", data={"action": 1})["data"]
    assert (second["reward"], second["done"]) == (1.0, False)
    assert second["observation"]["info"] == {"array": [0, 1, 2], "bytes": {"base64": "YWI="}}


def test_a_reward_that_is_not_finite_is_null_and_named_in_metadata():
    session = Loopback(Walk)
    ask(session, type="reset")
    ask(session, type="step", data={"action": 0})
    data = ask(session, type="step", data={"action": 0})["data"]
    assert (data["reward"], data["metadata"]) == (None, {"reward": "nan"})


def test_termination_travels_beside_done():
    session = Loopback(Walk)
    ask(session, type="reset")
    outcomes = [ask(session, type="step", data={"action": 0})["data"] for _ in range(3)]
    seen = [(data["done"], data["observation"]["terminated"], data["observation"]["truncated"]) for data in outcomes]
    assert seen == [(False, False, False), (False, False, False), (True, True, False)]


@pytest.mark.parametrize("seed", [-1, "3", 1.5, True, [1]])
def test_a_seed_that_is_none_is_refused_before_the_environment_is_asked(seed):
    session = Loopback(Walk)
    assert ask(session, type="reset", data={"seed": seed})["data"]["code"] == "VALIDATION_ERROR"


@pytest.mark.parametrize(
    ("data", "kinds"),
    [
        ({}, ["missing"]),
        ({"action": 1, "more": 2}, ["extra_forbidden"]),
        ({"act": 1}, ["missing", "extra_forbidden"]),
        ({"action": 2}, ["value_error"]),
        ({"action": "1"}, ["value_error"]),
    ],
)
def test_a_wrong_action_is_told_in_pydantics_form(data, kinds):
    answer = ask(Loopback(Walk), type="step", data=data)["data"]
    assert (answer["code"], [one["type"] for one in answer["errors"]]) == ("VALIDATION_ERROR", kinds)
    assert all(one.keys() >= {"type", "loc", "msg", "input", "url"} for one in answer["errors"])


@given(st.recursive(JSON | st.floats() | st.binary() | st.complex_numbers(), st.lists, max_leaves=8))
def test_any_info_has_a_json_form(value):
    json.dumps(space_form.plain({"x": value, "t": (value,)}), allow_nan=False)


def test_an_observation_outside_its_space_is_sent_all_the_same():
    assert space_form.value_of(Discrete(2), np.array([math.nan, 1.0])) == ["nan", 1.0]


@pytest.mark.parametrize(("path", "place"), [("", ()), ("a", ("a",)), ("moves[2].to", ("moves", 2, "to"))])
def test_places_are_pydantics(path, place):
    assert space_form.place_of(path) == place


def test_a_workers_refusal_gets_its_inputs_back():
    sent = refusal_text(
        [
            {"type": "int_type", "loc": ["a", 1], "msg": "no", "input": "secret", "url": "u"},
            {"type": "missing", "loc": ["b", "c"], "msg": "gone"},
        ]
    )
    assert "secret" not in sent
    found = entries_of(sent, {"a": [0, "x"], "b": {"d": 1}})
    assert [one["input"] for one in found] == ["x", {"d": 1}]


def test_a_refusal_that_was_cut_off_is_still_an_error():
    sent = refusal_text([{"type": "int_type", "loc": ["a"], "msg": "no"}])[:-3]
    assert [one["type"] for one in entries_of(sent, {"a": 1})] == ["value_error"]


@given(st.binary() | JSON.map(lambda data: json.dumps(data).encode()))
def test_any_body_is_read_or_refused_with_a_422(body):
    for read in (http_bodies.reset_body, http_bodies.step_body, http_bodies.split_body):
        refusal = None
        try:
            read(body)
        except http_bodies.HttpError as error:
            refusal = error
        assert refusal is None or (refusal.status == 422 and json.loads(refusal.body)["detail"])


@given(st.binary() | JSON.map(lambda data: json.dumps(data).encode()))
def test_any_json_rpc_body_has_an_answer(body):
    request = json_rpc.read(body)
    answer = request if isinstance(request, dict) else json_rpc.without_tools(request)
    assert json.loads(dump(answer))["jsonrpc"] == "2.0"


def test_json_rpc_on_its_own_websocket_has_spaces():
    request = json_rpc.RpcRequest("x", {}, 1)
    assert json_rpc.websocket_frame(json_rpc.session_created(request, "s")) == (
        '{"jsonrpc": "2.0", "id": 1, "result": {"session_id": "s"}}'
    )


def test_a_short_message_has_no_long_answer():
    many = json.dumps({"type": "state", **{f"k{i}": i for i in range(50_000)}})
    assert len(wire.error_frame(parse_request(many))) < 50_000
    large = json.dumps({"type": "step", "data": "x" * 100_000})
    assert json.loads(wire.error_frame(parse_request(large)))["data"]["errors"][0]["input"] is None


@given(JSON)
def test_small_inputs_are_told_back(data):
    (entry,) = parse_request(json.dumps({"type": "state", "more": data})).errors
    assert entry["input"] == data


def test_malformed_messages_get_the_answers_that_they_always_got():
    assert malformed.answers() == json.loads(malformed.ANSWERS.read_text())
    assert None not in malformed.answers().values()


def _read(read, text):
    try:
        return repr(read(text, wire._JSON))  # tells 1 from 1.0 and from True, and -0.0 from 0.0
    except NotJson as problem:
        return f"refused: {problem}"


@given(JSON.map(json.dumps) | JSON.map(lambda data: json.dumps(data, ensure_ascii=False)), st.data())
def test_the_quick_parser_reads_and_refuses_what_the_strict_one_does(text, data):
    """Of texts that are JSON, and of such with a piece cut out, doubled or replaced."""
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    pieces = [
        "",
        text[first:last] * 2,
        '"',
        ":",
        ",",
        "\\",
        "1e999",
        "-",
        "0",
        '{"a":1,"a":2}',
        "NaN",
        "\ud800",
        "\x00",
    ]
    cut = text[:first] + data.draw(st.sampled_from(pieces)) + text[last:]
    for one in (text, cut):
        assert _read(read_json, one) == _read(_read_strictly, one)


ACTIONS = [
    {"text": "a"},
    {"text": "special"},
    {"text": "nan"},
    {"text": "NONE"},
    {"text": "end"},
    {"text": "é☃\x00"},
    {"text": "a", "times": 9, "metadata": {"x": [1.5, None, {"y": 2**70}]}},
    {"text": "crash"},
    {"text": "rude"},
    {"text": "a", "times": 10},
    {"text": "a", "times": "b"},
    {"text": "a", "times": 1.5},
    {"text": "a", "more": [1]},
    {"text": 5},
    {"times": 1},
    {},
]


@pytest.mark.parametrize("action", ACTIONS)
def test_a_json_step_is_answered_with_the_bytes_of_a_step(action):
    def carry(message):
        return decode_frame(b"".join(encode(message, 1)))[1]

    step, plain = WireRequest("step", action), Loopback(lambda: AsEnv(worlds.EchoEnv))
    json_way = Loopback(lambda: AsEnv(worlds.EchoEnv))
    for side in (plain, json_way):
        side.ask('{"type":"reset"}')
    expected = plain.translator.frame(step, carry(plain.host.handle(carry(m.Step([0], [action])))))
    reply = carry(json_way.host.handle(carry(m.StepJson(json.dumps(action).encode()))))
    if isinstance(reply, m.Outcome):
        reply = m.Done([list(Judge(json_way.observations).outcome(reply))])
    assert json_way.translator.frame(step, reply) == expected
