"""Handing a session to an agent: it acts in this one and in no other, and its pass ends with the session."""

import pytest

from paddock.hosting import messages as m
from paddock.hosting.codec import decode_frame, encode
from tests.server.clients import call, data, post, rpc, step
from tests.server.in_process import shop_server
from tests.server.raw_peers import BINARY
from tests.serving import shared

server = shared(lambda folder: shop_server(folder, "Shop-v0", "Plain-v0"))


class Handed:
    """A session of the operator's with the pass for it."""

    def __init__(self, server, *, path="/Shop-v0/mcp", **how):
        self.server, self.operator, self.path = server, server.peer(), path
        made = post(self.operator, rpc("openenv/session/create", reset=how), path)["result"]
        self.id = made["session_id"]
        self.own = {"x-paddock-session": self.id}
        self.give()

    def give(self):
        answer = self.operator.ask("POST", self.path.replace("mcp", "handover"), self.own)
        assert answer.status == 200, answer
        assert answer.json["mcp"] == "/Shop-v0/mcp"
        self.token = answer.json["token"]

    def agent(self):
        peer = self.server.peer(None)
        peer.token = self.token
        return peer

    def outcome(self):
        return self.operator.ask("GET", "/Shop-v0/handover", self.own).json

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        post(self.operator, rpc("openenv/session/close", session_id=self.id), self.path)
        self.operator.sock.close()


@pytest.mark.process
def test_the_agent_acts_in_the_episode_that_the_operator_began(server):
    with Handed(server, seed=5) as handed, handed.agent() as agent:
        assert post(agent, call("count"))["result"]["data"]["seed"] == 5  # without naming a session
        assert post(agent, call("count", session=handed.id))["result"]["data"]["steps"] == 2
        body = {"action": {"type": "call_tool", "tool_name": "count"}}
        assert agent.ask("POST", "/Shop-v0/step", body=body).json["observation"]["result"]["data"]["steps"] == 3
        assert handed.outcome() == {
            "session": handed.id,
            "begun": True,
            "steps": 3,
            "return": 0.0,
            "terminated": False,
            "truncated": False,
        }
        post(agent, call("buy"))
        outcome = handed.outcome()
        assert (outcome["return"], outcome["terminated"]) == (1.0, True)
        assert "ended" in post(agent, call("count"))["error"]["message"]  # only the operator begins another
        assert handed.operator.ask("POST", "/Shop-v0/reset", handed.own, {}).status == 200
        assert post(agent, call("count"))["result"]["data"]["resets"] == 2


@pytest.mark.process
def test_over_websockets_too(server):
    for path, spoken in (("/Shop-v0/ws", True), (f"/Shop-v0/ws?session_id={'0' * 32}", True), ("/Shop-v0/mcp", False)):
        with Handed(server, seed=6) as handed, handed.agent() as agent:
            assert agent.upgrade(path).status == 101
            if spoken:
                assert data(agent.text(step("count")))["seed"] == 6
                for closed in ({"type": "reset", "data": {}}, {"type": "state"}):
                    assert "not permitted" in agent.text(closed)["data"]["message"]
            else:
                assert agent.text(call("count"))["result"]["data"]["seed"] == 6
            assert handed.outcome()["steps"] == 1


@pytest.mark.process
def test_it_opens_no_session_and_uses_no_other(server):
    with Handed(server) as handed, handed.agent() as agent, server.peer() as other:
        theirs = post(other, rpc("openenv/session/create"))["result"]["session_id"]
        started = server.workers_started
        made = post(agent, rpc("openenv/session/create"))["result"]
        assert made["session_id"] == handed.id  # not a new one
        assert "error" in post(agent, rpc("openenv/session/create"), "/Plain-v0/mcp")
        for session in (theirs, "0" * 32):
            assert post(agent, call("count", session=session))["error"]["message"].startswith("Unknown session_id")
            assert agent.ask("POST", "/Shop-v0/step", {"x-paddock-session": session}, {"action": {}}).status == 404
        assert agent.ask("POST", "/Plain-v0/step", body={"action": {"action": 1}}).status == 404
        assert agent.ask("GET", "/Shop-v0/handover", handed.own).status == 403
        for path in ("sessions", "metrics", "Shop-v0/splits", "Shop-v0/state"):
            assert agent.ask("GET", f"/{path}").status == 403, path
        assert server.workers_started == started
    with Handed(server) as handed, handed.agent() as agent:
        assert agent.upgrade("/Shop-v0/ws", native=True).status == 101
        agent.frame(BINARY, b"".join(encode(m.Hello(None), 0)))
        assert decode_frame(agent.message()[1])[1].code == "NOT_PERMITTED"


@pytest.mark.process
def test_it_does_not_end_the_session(server):
    with Handed(server) as handed, handed.agent() as agent:
        close = rpc("openenv/session/close", session_id=handed.id)
        assert post(agent, close)["error"]["code"] == -32600
        began = agent.ask("POST", "/Shop-v0/mcp", body=rpc("initialize", protocolVersion="2025-11-25"))
        named = {"mcp-session-id": began.headers["mcp-session-id"]}
        assert agent.ask("DELETE", "/Shop-v0/mcp", named).status == 405
        assert agent.ask("POST", "/Shop-v0/mcp", named, call("count", 2)).json["result"]["isError"] is False


@pytest.mark.process
def test_an_agent_that_begins_anew_is_in_the_same_episode(server):
    with Handed(server, seed=7) as handed, handed.agent() as agent:
        names = []
        for count in (1, 2):
            began = agent.ask("POST", "/Shop-v0/mcp", body=rpc("initialize", protocolVersion="2025-11-25"))
            assert began.json["result"]["instructions"] == "A shop.\n\nBuy something."
            names.append({"mcp-session-id": began.headers["mcp-session-id"]})
            seen = agent.ask("POST", "/Shop-v0/mcp", names[-1], call("count", 2)).json["result"]["structuredContent"]
            assert seen == {"resets": 1, "steps": count, "options": None, "seed": 7}
        assert agent.ask("POST", "/Shop-v0/mcp", names[0], call("count", 3)).status == 404  # the newest counts


@pytest.mark.process
def test_a_new_pass_takes_the_place_of_the_old(server):
    with Handed(server) as handed:
        with handed.agent() as first, handed.agent() as held:
            assert held.upgrade("/Shop-v0/ws").status == 101
            assert post(first, call("count"))["result"]
            handed.give()
            assert first.ask("POST", "/Shop-v0/mcp", body=call("count")).status == 401
            assert held.message()[0] == 8  # closed
        with handed.agent() as second:
            assert post(second, call("count"))["result"]["data"]["steps"] == 2


@pytest.mark.process
def test_a_pass_ends_with_its_session(server):
    with Handed(server) as handed, handed.agent() as agent:
        assert post(handed.operator, rpc("openenv/session/close", session_id=handed.id))["result"]["closed"]
        assert agent.ask("POST", "/Shop-v0/mcp", body=call("count")).status == 401
        assert handed.operator.ask("POST", "/Shop-v0/handover", handed.own).status == 404


@pytest.mark.process
def test_only_the_owner_hands_a_session_over(server):
    with Handed(server) as handed, server.peer("other") as other:
        stolen = other.ask("POST", "/Shop-v0/handover", handed.own)
        none = other.ask("POST", "/Shop-v0/handover", {"x-paddock-session": "0" * 32})
        assert stolen.status == none.status == 404 and stolen.body == none.body
        assert other.ask("POST", "/Plain-v0/handover", handed.own).status == 404
        assert other.ask("POST", "/Shop-v0/handover").status == 400


@pytest.mark.process
def test_a_full_server_does_not_take_its_place(tmp_path):
    with (
        shop_server(tmp_path, max_sessions=2) as server,
        Handed(server, path="/mcp") as handed,
        server.peer("other") as other,
        handed.agent() as agent,
    ):
        post(agent, call("count"), "/mcp")
        for _ in range(3):  # each takes the place of the one before, which nobody was handed
            assert other.ask("POST", "/reset", body={}).status == 200
        assert post(agent, call("count"), "/mcp")["result"]["data"]["steps"] == 2
