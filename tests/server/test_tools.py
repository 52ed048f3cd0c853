"""Tools over OpenEnv's wire: who may call them, when an episode begins by itself, and what a lying worker gets told."""

import json

import pytest

from tests.server.clients import call, data, post, rpc, step
from tests.server.in_process import shop_server
from tests.serving import shared

pytestmark = pytest.mark.process

server = shared(lambda folder: shop_server(folder, "Shop-v0", "Liar-v0", "Plain-v0"))
production = shared(lambda folder: shop_server(folder, mode="production"))


@pytest.mark.parametrize("role", ["operator", "agent"])
def test_a_tool_call_before_any_reset_begins_an_episode(server, role):
    with server.peer(role) as peer:
        assert peer.upgrade("/Shop-v0/ws").status == 101
        assert [
            tool["name"]
            for tool in peer.text({"type": "step", "data": {"type": "list_tools"}})["data"]["observation"]["tools"]
        ][:2] == ["echo", "add"]
        counts = [data(peer.text(step("count"))) for _ in range(2)]
        assert [(count["resets"], count["steps"]) for count in counts] == [(1, 1), (1, 2)]


def test_an_episode_that_ended_does_not_begin_again_by_itself(server):
    with server.peer() as peer:
        peer.upgrade("/Shop-v0/ws")
        ended = peer.text(step("buy"))["data"]
        assert (ended["reward"], ended["done"], ended["metadata"]) == (1.0, True, {"terminated": True})
        assert "ended" in peer.text(step("count"))["data"]["message"]
        assert "ended" in peer.text({"type": "mcp", "data": call("count")})["data"]["error"]["message"]
        peer.text({"type": "reset", "data": {"seed": 3, "split": "train"}})
        assert data(peer.text(step("count"))) == {"resets": 2, "steps": 1, "options": {"split": "train"}, "seed": 3}


def test_steps_and_json_rpc_on_one_socket_act_in_one_episode(server):
    with server.peer() as peer:
        peer.upgrade("/Shop-v0/ws")
        peer.text(step("echo", message="x"))
        assert peer.text({"type": "mcp", "data": call("count")})["data"]["result"]["data"]["steps"] == 2
        assert peer.text({"type": "state"})["data"]["step_count"] == 2


def test_requests_sent_ahead_are_answered_in_their_order(server):
    with server.peer() as peer:
        peer.upgrade("/Shop-v0/ws")
        asked = [
            step("count"),
            {"type": "mcp", "data": call("count", 7)},
            {"type": "step", "data": {"type": "list_tools"}},
        ]
        for one in asked * 3:
            peer.frame(1, json.dumps(one).encode())
        answers = [json.loads(peer.message()[1]) for _ in range(9)]
        assert [one["type"] for one in answers] == ["observation", "mcp", "observation"] * 3
        assert [data(one)["steps"] for one in answers[::3]] == [1, 3, 5]
        assert [one["data"]["result"]["data"]["steps"] for one in answers[1::3]] == [2, 4, 6]


def test_a_reset_tells_the_task_and_no_tools(server):
    with server.peer() as peer:
        peer.upgrade("/Shop-v0/ws")
        seen = peer.text({"type": "reset", "data": {}})["data"]["observation"]
        # With "tools" or "tool_name" in it, OpenEnv's client would take it for another observation.
        assert set(seen) == {"metadata", "content", "messages"}
        assert seen["metadata"] == {"info": {"task": {"index": 0}}}
        assert seen["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Buy something."}]}]


def test_over_http_each_call_has_an_environment_or_a_session(server):
    with server.peer() as peer:
        assert [post(peer, call("count"))["result"]["data"]["steps"] for _ in range(2)] == [1, 1]
        session = post(peer, rpc("openenv/session/create"))["result"]
        assert set(session) == {"session_id"}  # in simulation the client resets
        counts = [post(peer, call("count", session=session["session_id"]))["result"]["data"] for _ in range(2)]
        assert [(count["resets"], count["steps"]) for count in counts] == [(1, 1), (1, 2)]
        body = {"action": {"type": "call_tool", "tool_name": "count"}}
        answer = peer.ask("POST", "/Shop-v0/step", {"x-paddock-session": session["session_id"]}, body)
        assert answer.json["observation"]["result"]["data"]["steps"] == 3
        assert post(peer, call("count", session="0" * 32))["error"]["message"] == f"Unknown session_id: {'0' * 32}"
        closed = post(peer, rpc("openenv/session/close", session_id=session["session_id"]))
        assert closed["result"]["closed"] is True


def test_listing_needs_no_worker(server):
    with server.peer("agent") as peer:
        started = server.workers_started
        assert len(post(peer, rpc("tools/list"))["result"]["tools"]) == 10
        assert server.workers_started == started


def test_an_end_is_told_beside_the_result(server):
    with server.peer() as peer:
        result = post(peer, call("buy"))["result"]
        assert result["data"] == "Sold."
        assert result["meta"] == {"fastmcp": {"wrap_result": True}, "paddock": {"terminated": True, "truncated": False}}


def test_what_an_environment_raises_is_not_told(server):
    with server.peer() as peer:
        answer = post(peer, call("crash"))
        assert "RuntimeError" in answer["error"]["message"] and "hunter2" not in json.dumps(answer)


def test_an_operator_says_how_a_session_begins_and_an_agent_does_not(server):
    how = {"seed": 5, "split": "train", "index": 1}
    with server.peer() as peer:
        made = post(peer, rpc("openenv/session/create", reset=how))["result"]
        assert made["instructions"] == "A shop.\n\nBuy something."
        count = post(peer, call("count", session=made["session_id"]))["result"]["data"]
        assert count == {"resets": 1, "steps": 1, "options": {"split": "train", "index": 1}, "seed": 5}
        for wrong in (7, [], {"seed": "x"}, {"seed": -1}):
            assert post(peer, rpc("openenv/session/create", reset=wrong))["error"]["code"] == -32602
    with server.peer("agent") as peer:
        assert post(peer, rpc("openenv/session/create", reset=how))["error"]["code"] == -32600
        assert post(peer, rpc("openenv/session/create"))["result"]["instructions"]  # it has begun: it can't reset


def test_in_production_tools_work_and_episodes_are_closed(production):
    with production.peer() as peer:
        for path in ("/reset", "/step", "/state"):
            assert peer.ask("POST" if path != "/state" else "GET", path, body={}).status == 404
        made = post(peer, rpc("openenv/session/create"), "/mcp")["result"]
        assert made["instructions"] == "A shop.\n\nBuy something."  # it has begun
        counts = [post(peer, call("count", session=made["session_id"]), "/mcp")["result"]["data"] for _ in range(2)]
        assert [(count["resets"], count["steps"]) for count in counts] == [(1, 1), (1, 2)]
    with production.peer("agent") as peer:
        assert peer.upgrade("/ws").status == 101
        for closed in (step("count"), {"type": "reset", "data": {}}, {"type": "state"}):
            assert "not permitted" in peer.text(closed)["data"]["message"]
        assert peer.text({"type": "mcp", "data": call("count")})["data"]["result"]["data"]["steps"] == 1


def test_an_agent_does_not_reach_tasks_states_or_resets(server):
    with server.peer("agent") as peer:
        for method, path in (
            ("GET", "splits"),
            ("POST", "tasks"),
            ("POST", "num_tasks"),
            ("POST", "task"),
            ("POST", "task_range"),
            ("POST", "reset"),
            ("GET", "state"),
            ("POST", "handover"),
            ("GET", "handover"),
        ):
            assert peer.ask(method, f"/Shop-v0/{path}", body={"split": "train"}).status == 403, path


def test_the_task_api(server):
    with server.peer() as peer:
        assert peer.ask("GET", "/Shop-v0/splits").json == [{"name": "train", "type": "train"}]
        ask = {"split": "train"}
        assert peer.ask("POST", "/Shop-v0/num_tasks", body=ask).json == {"num_tasks": 2}
        rows = peer.ask("POST", "/Shop-v0/tasks", body=ask).json
        assert rows == {
            "tasks": [{"prompt": "Buy something.", "seed": 0}, {"prompt": "Buy nothing.", "seed": 1}],
            "env_name": "Shop-v0",
        }
        assert peer.ask("POST", "/Shop-v0/task", body={**ask, "index": 1}).json == {"task": rows["tasks"][1]}
        assert peer.ask("POST", "/Shop-v0/task_range", body={**ask, "start": 1}).json == {"tasks": rows["tasks"][1:]}
        assert peer.ask("POST", "/Shop-v0/task", body={**ask, "index": 9}).status == 400
        assert peer.ask("POST", "/Plain-v0/num_tasks", body=ask).status == 501


def test_what_is_told_of_it(server):
    with server.peer() as peer:
        assert peer.ask("GET", "/Shop-v0/metadata").json["description"] == "A shop."
        properties = peer.ask("GET", "/Shop-v0/schema").json["observation"]["properties"]
        assert {"done", "reward", "metadata", "tool_name", "result", "error", "tools"} <= set(properties)


def test_an_environment_without_tools_answers_as_before(server):
    with server.peer() as peer:
        for method in ("tools/list", "tools/call"):
            assert post(peer, rpc(method, name="x"), "/Plain-v0/mcp")["error"]["message"] == (
                "Environment does not support MCP"
            )
        headers = {"accept": "application/json", "mcp-protocol-version": "2025-06-18"}
        answer = peer.ask("POST", "/Plain-v0/mcp", headers, rpc("initialize", protocolVersion="2025-06-18"))
        assert answer.json["error"]["message"] == "Method not found: initialize"


def test_a_lying_workers_tools_are_left_out(server):
    with server.peer() as peer:
        tools = {tool["name"]: tool for tool in post(peer, rpc("tools/list"), "/Liar-v0/mcp")["result"]["tools"]}
        assert list(tools) == ["lie", "refers", "astray"]
        assert tools["lie"]["description"] == ""
        wrapped = tools["refers"]["outputSchema"]
        assert wrapped["$defs"] == {"one": {"type": "integer"}}
        assert wrapped["properties"]["result"]["items"] == {"$ref": "#/$defs/one"}
        assert tools["astray"]["outputSchema"] is None
        assert peer.ask("GET", "/Liar-v0/metadata").json["description"] == "Liar-v0 environment"


@pytest.mark.parametrize("number", range(11))
def test_a_lying_workers_results_break_nothing(server, number):
    with server.peer() as peer:
        for path, body in (
            ("/Liar-v0/mcp", call("lie", n=number)),
            ("/Liar-v0/step", {"action": {"tool_name": "lie", "arguments": {"n": number}}}),
        ):
            answer = peer.ask("POST", path, body=body)
            assert answer.status in (200, 410), answer
            assert isinstance(answer.json, dict)
        assert peer.ask("GET", "/health").json == {"status": "healthy"}


@pytest.mark.parametrize("route", ["splits", "num_tasks", "task", "tasks"])
def test_a_lying_workers_tasks_break_nothing(server, route):
    with server.peer() as peer:
        body = {"split": "train"} | ({"index": 0} if route == "task" else {})
        answer = peer.ask("GET" if route == "splits" else "POST", f"/Liar-v0/{route}", body=body)
        assert answer.status in (200, 500, 501), answer
