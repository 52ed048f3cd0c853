"""JSON-RPC and tool calls by strangers: any message costs its sender an answer, never the session, and little time."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.server.clients import McpClient, call, data, step
from tests.server.fuzzing import JSON, LIMIT_S, LIMIT_S_PER_BYTE
from tests.server.in_process import SECRET, shop_server
from tests.serving import shared

STATUSES = (200, 202, 400)
LEAKS = (SECRET, "/home/", "Traceback", "site-packages", "shop_env")


server = shared(shop_server)


class Session:
    """One session of MCP, whose steps are counted on both sides."""

    def __init__(self, server):
        self.server, self.client = server, McpClient(server, path="/mcp")
        self.ids, self.steps = iter(range(1_000_000_000, 2_000_000_000)), 0
        self.used_s = time.monotonic()

    def dial(self):
        """A connection that was silent for long is closed by the server, and another test may take long."""
        if time.monotonic() - self.used_s > 30:
            self.client.peer.sock.close()
            self.client.peer = self.server.peer("agent")
        self.used_s = time.monotonic()

    def send(self, body, carried=1, **headers):
        """``carried``: how much more it may take than a refusal does, for one that is carried out."""
        self.dial()
        with self.server.busy_at_most(carried * (LIMIT_S + len(body) * LIMIT_S_PER_BYTE), body):
            answer = self.client.send(body, **headers)
        assert answer.status in STATUSES, (body[:200], answer)
        assert not [word for word in LEAKS if word.encode() in answer.body], (body[:200], answer)
        assert len(answer.body) < 200_000 + 2 * len(body)
        return None if answer.status == 202 else answer.json

    def check(self, counted=True):
        """A call works, in the episode that it was."""
        count = self.client.call("count", next(self.ids))["structuredContent"]
        assert count["resets"] == 1
        assert not counted or count["steps"] == self.steps + 1
        self.steps = count["steps"]


@pytest.fixture(scope="module")
def session(server):
    session = Session(server)
    yield session
    session.client.peer.sock.close()


CALL = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":%s}}'
DIGITS = "9" * 5_000_000
BAD = {
    "empty": "",
    "deep": CALL % (1, "[" * 100_000),
    "deep, closed": CALL % (2, "[" * 100_000 + "]" * 100_000),
    "deep, as is read": CALL % (3, '{"a":' * 50 + "1" + "}" * 50),
    "digits": CALL % (4, f'{{"message":{DIGITS}}}'),
    "many integers": CALL % (5, f'{{"message":[{"0," * 500_000}0]}}'),
    "as many lists as are read": CALL % (6, f'{{"message":[{"[]," * 20_000}0]}}'),
    "NaN": CALL % (7, '{"message":NaN}'),
    "twice": CALL % (8, '{"message":1,"message":2}'),
    "surrogate": CALL % (9, '{"message":"\\ud800"}'),
    "not UTF-8": b'{"jsonrpc":"2.0","id":10,"method":"\xff"}',
    "long name": json.dumps(call("x" * 1_000_000, 11)),
    "long method": json.dumps({"jsonrpc": "2.0", "id": 12, "method": "x" * 1_000_000}),
    "long id": json.dumps({"jsonrpc": "2.0", "id": "x" * 100_000, "method": "ping"}),
    "large id": json.dumps({"jsonrpc": "2.0", "id": 10**290, "method": "ping"}),
    "many arguments": json.dumps(call("echo", 13, **{f"k{i}": i for i in range(10_000)})),
    "batch": json.dumps([call("count", i) for i in range(1000)]),
    "wrong types": json.dumps(call("add", 14, a="1", b=[])),
    "prototype": json.dumps(call("__class__", 15, __proto__=1)),
    "own name": json.dumps(call("reset", 16)),
    "megabytes": json.dumps(call("echo", 17, message="x" * 8_000_000)),
}


@pytest.mark.process
@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_answered_at_once_and_the_episode_goes_on(session, name):
    body = BAD[name] if isinstance(BAD[name], bytes) else BAD[name].encode()
    session.send(body, carried=4 if name in ("as many lists as are read", "megabytes") else 1)
    session.check(counted=False)


@pytest.mark.process
def test_a_body_that_is_too_large_is_refused(server):
    with server.peer() as peer:
        assert peer.ask("POST", "/mcp", body=b'["' + b"x" * (17 << 20) + b'"]').status == 413


PARAMS = st.one_of(
    JSON,
    st.fixed_dictionaries(
        {},
        optional={
            "name": JSON | st.sampled_from(["echo", "add", "fail", "nope"]),
            "arguments": JSON | st.fixed_dictionaries({"message": JSON}),
            "session_id": JSON,
            "cursor": JSON,
            "protocolVersion": JSON,
            "_meta": JSON,
            "reset": JSON,
        },
    ),
)
METHODS = st.sampled_from(
    ["tools/list", "tools/call", "ping", "notifications/x", "openenv/session/close", "server/discover", "x", ""]
)
REQUESTS = st.one_of(
    JSON,
    st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0")},
        optional={"id": JSON, "method": METHODS | JSON, "params": PARAMS, "result": JSON, "more": JSON},
    ),
)


@pytest.mark.process
@settings(max_examples=150)
@given(REQUESTS)
def test_any_request_of_mcp(session, request_):
    """An id that came before, or a method of the session's own, changes nothing."""
    session.send(json.dumps(request_).encode())
    session.check(counted=False)


@pytest.mark.process
@settings(max_examples=150)
@given(REQUESTS)
def test_any_request_of_openenv(session, request_):
    """Without the headers of MCP it is OpenEnv's, and always answered with 200."""
    if isinstance(request_, dict) and str(request_.get("method")).startswith(("ping", "notifications/")):
        request_ = {**request_, "method": "x"}
    headers = {"mcp-session-id": None, "mcp-protocol-version": None}
    with_own = isinstance(request_, dict) and request_.get("method") == "tools/call"
    answer = session.send(json.dumps(request_).encode(), **headers)
    assert answer is not None and (with_own or answer["jsonrpc"] == "2.0")
    session.check()


def is_strict(value):
    """Whether its JSON is JSON: Python writes Infinity and NaN, too."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


@pytest.mark.process
@settings(max_examples=25)
@given(st.lists(st.tuples(JSON, JSON, JSON), min_size=1, max_size=9))
def test_any_tool_calls_over_the_socket(server, calls):
    """A new session each time; the first of its calls comes before any reset."""
    with server.peer() as peer:
        peer.upgrade("/ws")
        for name, arguments, more in calls:
            message = {"type": "step", "data": {"type": "call_tool", "tool_name": name, "arguments": arguments}}
            if isinstance(more, dict):
                message["data"] |= more
            assert peer.text(json.dumps(message))["type"] in ("observation", "error")
            answer = peer.text(json.dumps({"type": "mcp", "data": call(name, 1)}))
            assert answer["type"] == ("mcp" if is_strict(name) else "error")
            seen = peer.text(step("count"))
            if seen["type"] == "observation":
                assert data(seen)["resets"] == 1


@pytest.mark.full
@settings(max_examples=3_000)
@given(REQUESTS)
def test_any_request_of_many(session, request_):
    session.send(json.dumps(request_).encode())
    session.check(counted=False)
