"""MCP itself, as its specification has it: handshake, headers, statuses, results, and each request carried out once."""

import json

import pytest

from paddock.hosting.mcp import VERSIONS
from tests.server.clients import ACCEPT, McpClient, call, rpc
from tests.server.in_process import shop_server
from tests.serving import shared

pytestmark = pytest.mark.process


server = shared(lambda folder: shop_server(folder, "Shop-v0", "Liar-v0"))


@pytest.fixture
def client(server):
    with McpClient(server) as made:
        yield made


def test_initialize_begins_an_episode_and_tells_the_task(client):
    result = client.began.json["result"]
    assert result["capabilities"] == {"tools": {"listChanged": False}}
    assert result["serverInfo"]["name"] == "Shop-v0"
    assert result["instructions"] == "A shop.\n\nBuy something."
    assert client.send({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202
    assert client.call("count")["structuredContent"] == {"resets": 1, "steps": 1, "options": None, "seed": None}


@pytest.mark.parametrize(
    ("asked", "spoken"),
    [(one, one) for one in VERSIONS] + [(one, VERSIONS[0]) for one in ("2024-11-05", "2025-03-26", "2099-01-01", "x")],
)
def test_versions_are_negotiated(server, asked, spoken):
    with McpClient(server, version=asked) as client:
        assert client.began.json["result"]["protocolVersion"] == spoken


def test_tools_are_listed_in_one_page(client):
    tools = {tool["name"]: tool for tool in client.ask(rpc("tools/list"))["result"]["tools"]}
    assert tools["echo"] == {
        "name": "echo",
        "description": "Say it again.",
        "inputSchema": {
            "additionalProperties": False,
            "properties": {"message": {"type": "string"}},
            "required": ["message"],
            "type": "object",
        },
        "outputSchema": {
            "properties": {"result": {"type": "string"}},
            "required": ["result"],
            "type": "object",
            "x-fastmcp-wrap-result": True,
        },
    }
    assert "outputSchema" not in tools["untyped"]
    assert client.ask(rpc("tools/list", 2, cursor="x"))["error"]["code"] == -32602


def test_results_have_content_and_structure(client):
    echoed = client.call("echo", 1, message="hi")
    assert (echoed["content"], echoed["structuredContent"], echoed["isError"]) == (
        [{"type": "text", "text": "hi"}],
        {"result": "hi"},
        False,
    )
    assert client.call("record", 2, n=1)["structuredContent"] == {"n": 1}
    assert client.call("picture", 3)["content"] == [
        {"type": "text", "text": "Look:"},
        {"type": "image", "data": "UE5H", "mimeType": "image/png"},
    ]
    nothing = client.call("nothing", 4)
    assert nothing["content"] == [] and "structuredContent" not in nothing


def test_a_tool_that_fails_is_a_result_and_an_environment_that_fails_is_an_error(client):
    assert client.call("fail", 1) == {"content": [{"type": "text", "text": "It is broken."}], "isError": True}
    assert client.call("add", 2, a=1)["isError"] is True
    unknown = client.ask(call("nope", 3))["result"]  # for the model to read, as any other mistake of its own
    assert unknown["isError"] and "nope" in unknown["content"][0]["text"]
    failed = client.ask(call("crash", 4))["error"]
    assert failed["code"] == -32603 and "RuntimeError" in failed["message"] and "hunter2" not in failed["message"]


def test_an_end_is_told_and_nothing_comes_after_it(client):
    assert client.call("buy", 1)["_meta"]["paddock/episode"] == {"terminated": True, "truncated": False}
    assert client.call("count", 2) == {
        "content": [{"type": "text", "text": "The episode is over: no tool can be called any more."}],
        "isError": True,
    }


def test_ping_notifications_and_answers_that_nobody_asked_for(client):
    assert client.ask(rpc("ping"))["result"] == {}
    for body in (
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "method": "anything/else"},
        {"jsonrpc": "2.0", "id": 9, "result": {}},
        {"jsonrpc": "2.0", "id": 9, "error": {"code": 1, "message": "x"}},
    ):
        answer = client.send(body)
        assert (answer.status, answer.body) == (202, b"")


@pytest.mark.parametrize("method", ["resources/list", "prompts/list", "logging/setLevel", "initialize", "x" * 10_000])
def test_what_is_not_offered_is_not_found(client, method):
    error = client.ask(rpc(method, protocolVersion=VERSIONS[0]))["error"]
    assert error["code"] == -32601 and len(error["message"]) < 300


def test_a_request_that_comes_twice_is_carried_out_once(client):
    first, again = (client.send(call("count", "a")) for _ in range(2))
    assert first.body == again.body and first.json["result"]["structuredContent"]["steps"] == 1
    other = client.ask(call("echo", "a", message="x"))
    assert other["error"]["code"] == -32600 and "another request" in other["error"]["message"]
    assert client.call("count", "b")["structuredContent"]["steps"] == 2
    assert client.call("count", 1)["structuredContent"]["steps"] == 3
    assert client.call("count", "1")["structuredContent"]["steps"] == 4  # another id


def test_an_answer_that_is_not_kept_is_not_made_again(client):
    for id in range(10, 20):
        client.call("count", id)
    late = client.ask(call("count", 10))
    assert late["error"]["code"] == -32600 and "no longer kept" in late["error"]["message"]
    assert client.call("count", 19)["structuredContent"]["steps"] == 10
    assert client.call("count", 20)["structuredContent"]["steps"] == 11


def test_headers_of_the_protocol(client):
    ping = rpc("ping")
    assert client.send(ping, **{"mcp-protocol-version": "2026-07-28"}).status == 400
    refused = client.send(ping, **{"mcp-protocol-version": "x"}).json["error"]
    assert refused["data"] == {"supported": list(VERSIONS), "requested": "x"}
    assert client.send(ping, **{"mcp-protocol-version": None}).status == 200
    for accept, status in {
        "text/event-stream": 406,
        "text/html": 406,
        "application/json;q=0, text/event-stream": 406,
        "application/json": 200,
        "*/*": 200,
        "text/event-stream, application/json;q=0.5": 200,
        None: 200,
    }.items():
        assert client.send({**ping, "id": f"a {accept}"}, accept=accept).status == status, accept
    assert client.send(ping, **{"content-type": "text/plain"}).status == 415
    assert client.send({**ping, "id": 5}, **{"content-type": "application/json; charset=utf-8"}).status == 200


def test_a_page_of_another_site_is_turned_away(client):
    assert client.send(rpc("ping"), origin="https://evil.example").status == 403
    assert client.send(rpc("ping"), host="evil.example").status == 403


def test_sessions_are_needed_and_are_their_owners_alone(server, client):
    ping = rpc("ping")
    assert client.send(ping, **{"mcp-session-id": None}).status == 400
    assert client.send(ping, **{"mcp-session-id": "0" * 32}).status == 404
    for role in ("operator", "other"):
        with server.peer(role) as thief:
            for method in ("POST", "DELETE"):
                stolen = thief.ask(method, "/Shop-v0/mcp", client.headers, ping)
                none = thief.ask(method, "/Shop-v0/mcp", {**client.headers, "mcp-session-id": "0" * 32}, ping)
                assert stolen.status == none.status == 404 and stolen.body == none.body
    with server.peer("agent") as same:
        assert same.ask("POST", "/Liar-v0/mcp", client.headers, ping).status == 404  # another environment's
    assert client.ask(ping)["result"] == {}


def test_deleting_a_session_ends_its_environment(server):
    with McpClient(server) as client:
        (listed,) = [one for one in sessions(server) if one["principal"].startswith("agent")]
        assert listed["environment"] == "Shop-v0"
        assert client.send(b"", "DELETE").status == 200
        assert not [one for one in sessions(server) if one["principal"].startswith("agent")]
        assert client.send(rpc("ping")).status == 404
        assert client.send(b"", "DELETE").status == 404
        assert client.send(b"", "DELETE", **{"mcp-session-id": None}).status == 400


def sessions(server):
    with server.peer() as peer:
        return peer.ask("GET", "/sessions").json["sessions"]


def test_there_is_no_stream_to_get(client):
    answer = client.send(b"", "GET")
    assert answer.status == 405 and "POST" in answer.headers["allow"] and "DELETE" in answer.headers["allow"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"7",
        b"[]",
        json.dumps([rpc("ping"), rpc("ping", 2)]).encode(),
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":7}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}',
    ],
)
def test_what_is_no_message_is_a_bad_request(client, body):
    answer = client.send(body)
    assert answer.status == 400 and answer.json["error"]["code"] in (-32700, -32600, -32602)


def test_wrong_parameters_reach_nobody(client):
    for id, params in enumerate(({}, {"name": 7}, {"name": "count", "arguments": []}, {"name": None}), 100):
        assert client.ask(rpc("tools/call", id, **params))["error"]["code"] == -32602
    assert client.call("count", 200)["structuredContent"]["steps"] == 1


def test_a_version_is_needed_to_begin(server):
    with server.peer() as peer:
        for params in ({}, {"protocolVersion": 7}):
            answer = peer.ask("POST", "/Shop-v0/mcp", ACCEPT, rpc("initialize", **params))
            assert answer.json["error"]["code"] == -32602 and "mcp-session-id" not in answer.headers


def test_a_newer_protocol_is_told_which_there_are(server):
    with server.peer() as peer:
        headers = {**ACCEPT, "mcp-protocol-version": "2026-07-28", "mcp-method": "server/discover"}
        answer = peer.ask("POST", "/Shop-v0/mcp", headers, rpc("server/discover"))
        assert answer.status == 400
        assert answer.json["error"]["code"] == -32022 and answer.json["error"]["data"]["supported"] == list(VERSIONS)


def test_a_full_server_says_so(tmp_path):
    with (
        shop_server(tmp_path, sessions_each=1) as server,
        McpClient(server, path="/mcp") as client,
        server.peer("agent") as late,
    ):
        answer = late.ask("POST", "/mcp", ACCEPT, rpc("initialize", protocolVersion=VERSIONS[0]))
        assert answer.json["error"]["code"] == -32000 and "mcp-session-id" not in answer.headers
        assert client.ask(rpc("ping"))["result"] == {}


def test_a_lying_workers_results_are_answered(server):
    with McpClient(server, path="/Liar-v0/mcp") as client:
        for number in (0, 1, 2, 3, 6, 8, 9, 10):
            answer = client.ask(call("lie", number, n=number))
            assert ("result" in answer) is not ("error" in answer)
        lost = client.ask(call("lie", 4, n=4))  # outside its own space: the worker is stopped
        assert lost["error"]["data"] == {"code": "ENV_VIOLATION"}
        assert client.send(rpc("ping", 50)).status == 404
