"""OpenEnv's wire on a running server: whatever comes in, the episode goes on, and nothing of the inside gets out."""

import json
import struct
import time
from contextlib import ExitStack

import pytest

from tests.server.paddock_serve import exchange, paddock_serve
from tests.server.raw_peers import BINARY, CLOSE, TEXT, Peer
from tests.server.strange_worlds import SECRET
from tests.serving import shared

WORLDS = "tests.server.strange_worlds"
ROUGH, NUMBERS, UNMAKEABLE = f"{WORLDS}:Rough", f"{WORLDS}:Numbers-v0", f"{WORLDS}:Unmakeable"


server = shared(lambda folder: paddock_serve(folder, ROUGH, NUMBERS, "--max-sessions", "4", "--deadline", "5"))


def ask(peer, kind, **data):
    message = {"type": kind, "data": data} if data else {"type": kind}
    return json.loads(exchange(peer, json.dumps(message)))


def error(answer):
    assert answer["type"] == "error", answer
    return answer["data"]["code"]


BAD_TEXTS = {
    "broken": ("{", "INVALID_JSON"),
    "empty": ("", "INVALID_JSON"),
    "array": ("[1,2]", "VALIDATION_ERROR"),
    "string": ('"a"', "VALIDATION_ERROR"),
    "number": ("5", "VALIDATION_ERROR"),
    "null": ("null", "VALIDATION_ERROR"),
    "deep": ("[" * 100_000 + "]" * 100_000, "INVALID_JSON"),
    "deep step": ('{"type":"step","data":{"do":' + "[" * 5000 + "]" * 5000 + "}}", "INVALID_JSON"),
    "NaN": ('{"type":"step","data":{"do":NaN}}', "INVALID_JSON"),
    "twice": ('{"type":"state","type":"close"}', "INVALID_JSON"),
    "surrogate": ('{"type":"step","data":{"do":"\\ud800"}}', "INVALID_JSON"),
    "unknown type": ('{"type":"nope"}', "UNKNOWN_TYPE"),
    "no type": ("{}", "UNKNOWN_TYPE"),
    "wrong type": ('{"type":["reset"]}', "UNKNOWN_TYPE"),
    "wrong field": ('{"type":"step","data":{"do":5}}', "VALIDATION_ERROR"),
    "extra field": ('{"type":"step","data":{"do":"a","x":1}}', "VALIDATION_ERROR"),
    "extra key": ('{"type":"state","data":{}}', "VALIDATION_ERROR"),
    "no data": ('{"type":"step"}', "VALIDATION_ERROR"),
    "raises": ('{"type":"step","data":{"do":"raise"}}', "EXECUTION_ERROR"),
    "exits": ('{"type":"step","data":{"do":"exit"}}', "EXECUTION_ERROR"),
    "returns nothing": ('{"type":"step","data":{"do":"none"}}', "EXECUTION_ERROR"),
    "returns an object": ('{"type":"step","data":{"do":"object"}}', "EXECUTION_ERROR"),
    "failing reset": ('{"type":"reset","data":{"fail":true}}', "EXECUTION_ERROR"),
    "close with data": ('{"type":"close","data":{}}', "VALIDATION_ERROR"),
}
STEPS = {"raises", "exits", "returns nothing", "returns an object"}


@pytest.mark.process
@pytest.mark.parametrize("name", BAD_TEXTS)
def test_a_bad_message_is_answered_and_the_episode_goes_on(server, name):
    text, code = BAD_TEXTS[name]
    with server.socket("/Rough/ws") as peer:
        ask(peer, "reset")
        ask(peer, "step", do="a")
        assert error(json.loads(exchange(peer, text))) == code
        assert ask(peer, "state")["data"]["step_count"] == (2 if name in STEPS else 1)
        assert ask(peer, "step", do="b")["data"]["metadata"]["did"] == "b"


@pytest.mark.process
def test_a_binary_message_is_answered_and_the_episode_goes_on(server):
    with server.socket("/Rough/ws") as peer:
        ask(peer, "reset")
        ask(peer, "step", do="a")
        peer.frame(BINARY, b'{"type":"state"}')
        assert error(json.loads(peer.message()[1])) == "INVALID_JSON"
        assert ask(peer, "state")["data"]["step_count"] == 1


@pytest.mark.process
def test_a_message_of_17_megabytes_is_an_action_as_any_other(server):
    with server.socket("/Rough/ws") as peer:
        ask(peer, "reset")
        assert ask(peer, "step", do="x" * 17_000_000)["data"]["metadata"]["size"] == 17_000_000
        assert ask(peer, "state")["data"]["step_count"] == 1


@pytest.mark.process
def test_answers_come_in_the_order_of_the_requests(server):
    texts = ["slow", "{", "b", "nope", "c"]
    with server.socket("/Rough/ws") as peer:
        ask(peer, "reset")
        for text in texts:
            whole = text if text == "{" else json.dumps({"type": "step", "data": {"do": text}})
            peer.frame(TEXT, (whole if text != "nope" else '{"type":"nope"}').encode())
        seen = [json.loads(peer.message()[1]) for _ in texts]
        told = [one["data"].get("code") or one["data"]["metadata"]["did"] for one in seen]
        assert told == ["slow", "INVALID_JSON", "b", "UNKNOWN_TYPE", "c"]


@pytest.mark.process
def test_a_close_sent_ahead_waits_for_what_was_asked_before(server):
    with server.socket("/Rough/ws") as peer:
        for text in ('{"type":"reset"}', '{"type":"step","data":{"do":"slow"}}', '{"type":"close"}'):
            peer.frame(TEXT, text.encode())
        kinds = [json.loads(peer.message()[1])["type"] for _ in range(2)]
        opcode, payload = peer.message()
        assert (kinds, opcode, struct.unpack(">H", payload[:2])[0]) == (["observation", "observation"], CLOSE, 1000)


@pytest.mark.process
def test_what_is_sent_too_far_ahead_is_refused_in_its_turn(server):
    count = 100
    with server.socket("/Rough/ws") as peer:
        ask(peer, "reset")
        for number in range(count):
            do = "slow" if number == 0 else str(number)
            peer.frame(TEXT, json.dumps({"type": "step", "data": {"do": do}}).encode())
        answers = [json.loads(peer.message()[1]) for _ in range(count)]
        done = [one["data"]["metadata"]["did"] for one in answers if one["type"] == "observation"]
        assert done == ["slow", *map(str, range(1, len(done)))]
        assert len(done) >= 64
        assert ask(peer, "state")["data"]["step_count"] == len(done)


@pytest.mark.process
def test_a_lost_environment_is_told_and_no_other_takes_its_place(server):
    with server.socket("/Rough/ws") as peer:
        ask(peer, "reset")
        assert error(ask(peer, "step", do="die")) == "SESSION_ERROR"
        for kind in ("step", "state", "reset"):
            assert error(ask(peer, kind, **({"do": "a"} if kind == "step" else {}))) == "SESSION_ERROR"


@pytest.mark.process
def test_numbers_that_json_has_not_are_texts(server):
    with server.socket("/Numbers-v0/ws") as peer:
        first = ask(peer, "reset", seed=3)["data"]
        assert first["observation"]["value"] == [0.5, "inf", "-inf", -0.0]
        assert str(first["observation"]["value"][3]) == "-0.0"
        assert first["observation"]["info"]["bad"] == "nan"
        assert ask(peer, "step", action=0)["data"]["observation"]["info"] == {"array": [1.0, "inf"]}


@pytest.mark.process
@pytest.mark.parametrize(("action", "place"), [(1, "reward"), (5, "observation[0]")])
def test_nan_where_it_was_not_declared_ends_the_session(server, action, place):
    with server.socket("/Numbers-v0/ws") as peer:
        ask(peer, "reset")
        answer = ask(peer, "step", action=action)
        assert error(answer) == "SESSION_ERROR" and f"at {place}." in answer["data"]["message"]
        assert error(ask(peer, "step", action=0)) == "SESSION_ERROR"


@pytest.mark.process
def test_how_an_episode_ended_travels(server):
    with server.socket("/Numbers-v0/ws") as peer:
        for action, ends in ((0, (False, False)), (2, (True, False)), (3, (False, True))):
            ask(peer, "reset")
            data = ask(peer, "step", action=action)["data"]
            assert (data["observation"]["terminated"], data["observation"]["truncated"]) == ends
            assert (data["done"], data["reward"]) == (any(ends), 1.5)


@pytest.mark.process
def test_a_full_server_says_so_and_closes(server):
    with ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(server.socket("/Rough/ws")) for _ in range(4)]
        for peer in sockets:
            ask(peer, "reset")
        with server.socket("/Rough/ws") as late:
            assert json.loads(late.message()[1])["data"] == {
                "message": "Server at capacity: 4/4 sessions active. Cannot accept new connections.",
                "code": "CAPACITY_REACHED",
                "active_sessions": 4,
                "max_sessions": 4,
            }
            opcode, payload = late.message()
            assert (opcode, struct.unpack(">H", payload[:2])[0]) == (CLOSE, 1000)
        created = server.ask("POST", "/Rough/mcp", '{"jsonrpc":"2.0","method":"openenv/session/create","id":1}')
        assert (created.status, created.json["error"]["code"]) == (200, -32000)
        assert created.json["error"]["data"] == {"active_sessions": 4, "max_sessions": 4}
        assert ask(sockets[0], "state")["type"] == "state"


def everything_said(server):
    """All answers to requests that make the environments fail with a secret."""
    with server.socket("/Rough/ws") as peer:
        yield exchange(peer, '{"type":"reset","data":{"fail":true}}')
        for do in ("raise", "exit", "none", "object", "a", "b", "c"):
            yield exchange(peer, json.dumps({"type": "step", "data": {"do": do}}))
        yield exchange(peer, '{"type":"state"}')  # after the seventh step it raises
    with server.socket("/Numbers-v0/ws") as peer:
        exchange(peer, '{"type":"reset"}')
        yield exchange(peer, '{"type":"step","data":{"action":4}}')
    for path, body in (("reset", '{"fail":true}'), ("step", '{"action":{"do":"raise"}}')):
        answer = server.ask("POST", f"/Rough/{path}", body)
        yield answer.body.decode() + str(answer.headers)


@pytest.mark.process
def test_no_text_of_an_error_leaves_the_server(server):
    said = list(everything_said(server))
    assert sum("incident" in one for one in said) == 9
    for one in said:
        for word in (SECRET, "password", "Traceback", "strange_worlds", ".py"):
            assert word not in one


@pytest.mark.process
def test_an_environment_that_cannot_be_made_is_not_served(tmp_path):
    with pytest.raises(AssertionError, match="can't be made"), paddock_serve(tmp_path, UNMAKEABLE):
        pass


@pytest.mark.process
def test_who_goes_away_in_the_middle_of_a_request_leaves_nothing_behind(server):
    asked = (("POST", "/Rough/step", b'{"action":{"do":"slow"}}'), ("GET", "/Rough/state", b""))
    for method, path, body in asked:
        with Peer(("127.0.0.1", server.port), token=server.token) as peer:
            peer.send(peer.head(method, path, None, body) + body)
    wait_for_no_session(server)
    with server.socket("/Rough/ws"):
        pass  # before its environment is there
    with server.socket("/Rough/ws") as peer:
        ask(peer, "reset")
        peer.frame(TEXT, b'{"type":"step","data":{"do":"slow"}}')
    wait_for_no_session(server)


def wait_for_no_session(server):
    ends = time.monotonic() + 60.0
    while server.ask("GET", "/metrics").body.partition(b"\npaddock_sessions ")[2].split()[0] != b"0":
        assert time.monotonic() < ends
