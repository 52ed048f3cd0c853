"""Sessions belong to who opened them, and an agent acts: it does not reset, look behind the curtain or list others."""

import numpy as np
import pytest

from paddock.hosting import messages as m
from tests.server.clients import Native
from tests.server.in_process import vault_server
from tests.server.raw_peers import CLOSE, TEXT
from tests.serving import shared

pytestmark = pytest.mark.process


server = shared(vault_server)


AGENT_MAY_NOT = [
    m.Reset(0),
    m.Reset(0, 7),
    m.State(0),
    m.Snapshot(0),
    m.Restore(0, b""),
    m.Call(0, "secret", how="get"),
    m.Call(0, "render"),
    m.Call(0, "_fail", ["x"]),
]


PRIVATE = [
    m.Call(0, "_fail"),
    m.Call(0, "_fail", how="get"),
    m.Call(0, "_fail", [1], how="set"),
    m.Call(0, "get_wrapper_attr", ["_fail"]),
    m.Call(0, "get_wrapper_attr", [], {"name": "_fail"}),
    m.Call(0, "has_wrapper_attr", ["_fail"]),
    m.Call(0, "set_wrapper_attr", ["_fail", 1]),
    m.Call(0, "get_wrapper_attr", ["__dict__"]),
    m.Call(0, "get_wrapper_attr", [np.str_("_fail")]),
    m.Call(0, "get_attr", ["_fail"]),
    m.Call(0, "set_attr", ["_fail", [1]]),
    m.Call(0, "call", ["_fail"]),
    m.Call(0, "call", ["get_wrapper_attr", "_fail"]),
    m.Call(0, "call", ["get_wrapper_attr"], {"name": "_fail"}),
]


def test_not_even_an_operator_reaches_what_begins_with_an_underscore_by_whatever_way(server):
    with server.peer("operator") as peer:
        native = Native(peer)
        assert isinstance(native.ask(m.Make(0, {})), m.Done)
        for request in PRIVATE:
            assert native.ask(request).code == "NOT_PERMITTED", request
        assert native.ask(m.Call(0, "get_wrapper_attr", ["render_mode"])) == m.Done(None)


def test_an_agent_on_the_native_wire(server):
    with server.peer("agent") as peer:
        native = Native(peer)
        assert isinstance(native.welcome, m.Welcome)
        assert isinstance(native.ask(m.Make(0, {})), m.Done)
        for request in AGENT_MAY_NOT:
            assert native.ask(request).code == "NOT_PERMITTED", request
        assert "POST /Vault-v0/handover" in native.ask(m.Reset(0)).message
        assert _worker_of(server, native) is not None
        failed = native.ask(m.Step([0], [1]))
        assert failed.code == "RESET_NEEDED" and "POST /Vault-v0/handover" in failed.message
        assert _worker_of(server, native) is None  # nobody will ever reset its environment
        assert native.ask(m.Step([0], [1])).code == "CLOSED"


def _worker_of(server, native):
    with server.peer() as peer:
        rows = peer.ask("GET", "/sessions").json["sessions"]
    (worker,) = (row["pid"] for row in rows if row["session"] == native.welcome.session[:8])
    return worker


def test_an_agent_gets_no_worker_where_it_can_begin_no_episode(server):
    started = server.workers_started
    with server.peer("agent") as peer:
        answer = peer.ask("POST", "/step", body={"action": {"action": 1}})
        assert (answer.status, answer.json["code"]) == (409, "RESET_NEEDED")
        assert "POST /Vault-v0/handover" in answer.json["detail"]
    with server.peer("agent") as peer:
        assert peer.upgrade().status == 101
        assert "POST /Vault-v0/handover" in peer.text({"type": "step", "data": {"action": 1}})["data"]["message"]
        peer.frame(TEXT, b'{"type": "close"}')
        assert peer.message()[0] == CLOSE
    assert server.workers_started == started


def test_an_observer_on_the_native_wire(server):
    with server.peer("observer") as peer:
        native = Native(peer)
        assert isinstance(native.ask(m.Make(0, {})), m.Done)
        for request in (m.Reset(0), m.Step([0], [1]), m.Snapshot(0), m.Restore(0, b""), m.Call(0, "steps", how="get")):
            assert native.ask(request).code == "NOT_PERMITTED", request
        assert isinstance(native.ask(m.State(0)), m.Done)


def test_an_operator_can_not_call_what_is_the_environments_own(server):
    with server.peer() as peer:
        native = Native(peer)
        native.ask(m.Make(0, {}))
        for name in ("_fail", "__class__", "__init__", "unwrapped.__class__", "reset.__globals__", "unwrapped._fail"):
            for how in ("call", "get", "has", "set"):
                answer = native.ask(m.Call(0, name, ["x"], how=how))
                assert isinstance(answer, m.Failed) and answer.code == "NOT_PERMITTED", (name, how, answer)


@pytest.mark.parametrize(
    ("role", "kinds"),
    [("agent", ("reset", "state")), ("observer", ("reset", "step", "mcp"))],
    ids=["agent", "observer"],
)
def test_roles_on_openenvs_socket(server, role, kinds):
    with server.peer(role) as peer:
        assert peer.upgrade().status == 101
        for kind in kinds:
            for data in ({}, {"seed": 1}, {"action": 1}):
                message = {"type": kind} if kind == "state" else {"type": kind, "data": data}
                answer = peer.text(message)
                assert answer["type"] == "error" and "not permitted" in answer["data"]["message"], answer


def test_an_agent_over_http(server):
    with server.peer("agent") as peer:
        for method, path in (("POST", "/reset"), ("GET", "/state"), ("GET", "/sessions"), ("GET", "/metrics")):
            assert peer.ask(method, path).status == 403
            assert peer.ask(method, path, {"x-paddock-session": "0" * 32}).status == 403


def test_who_does_not_own_a_session_finds_none(server):
    with server.peer() as owner, server.peer("other") as other:
        opened = owner.ask("POST", "/reset", body={"seed": 3})
        id = opened.headers["x-paddock-session"]
        assert len(bytes.fromhex(id)) == 16
        unknown = {"x-paddock-session": "0" * 32}
        mine = {"x-paddock-session": id}
        for method, path, body in (
            ("POST", "/step", {"action": {"action": 1}}),
            ("POST", "/reset", {}),
            ("GET", "/state", b""),
        ):
            stolen, none = other.ask(method, path, mine, body), other.ask(method, path, unknown, body)
            assert stolen.status == none.status == 404
            assert stolen.body == none.body
        assert owner.ask("GET", "/state", mine).json["step_count"] == 0
        assert owner.ask("POST", "/step", mine, {"action": {"action": 1}}).status == 200


def test_nor_can_it_close_or_join_one(server):
    close = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/close"}
    with server.peer() as owner, server.peer("other") as other:
        id = owner.ask("POST", "/reset", body={}).headers["x-paddock-session"]
        stolen = other.ask("POST", "/mcp", body={**close, "params": {"session_id": id}})
        none = other.ask("POST", "/mcp", body={**close, "params": {"session_id": "0" * 32}})
        assert stolen.body.replace(id.encode(), b"0" * 32) == none.body
        with server.peer("other") as joining:
            assert joining.upgrade(f"/ws?session_id={id}").status == 101
            assert joining.message()[1].count(b'"type":"observation"') == 0
        assert owner.ask("GET", "/state", {"x-paddock-session": id}).status == 200


def test_nor_resume_one_with_its_token(server):
    with server.peer() as peer:
        native = Native(peer)
        native.ask(m.Make(0, {}))
        native.ask(m.Reset(0))
        welcome = native.welcome
        stolen = m.Resume(welcome.session, welcome.token, 2)
        for role in ("other", "agent", "observer"):
            with server.peer(role) as thief:
                answer = Native(thief, stolen).welcome
                assert answer.code == "SESSION_GONE"
            with server.peer(role) as thief:
                none = Native(thief, m.Resume("0" * 32, welcome.token, 2)).welcome
                assert none == answer  # no way to tell whether there is one
        assert native.ask(m.Step([0], [1])).value[0][1] == 1.0
