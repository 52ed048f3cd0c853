"""How much one principal may have, and how often a stranger may try: exact, and told when to come again."""

import json
import threading
from contextlib import ExitStack
from functools import partial

import pytest

from paddock.errors import PlanError
from paddock.hosting import messages as m
from paddock.server.auth import Rates, network_of
from paddock.server.settings import Settings
from tests.server.clients import Native
from tests.server.in_process import shop_server
from tests.server.raw_peers import BINARY, CLOSE, TEXT
from tests.server.serving import alive, wait_until


@pytest.fixture
def shop(tmp_path):
    """One with tools, so that an agent's sessions are of use to it."""
    return partial(shop_server, tmp_path)


def test_rates_fill_up_again():
    rates = Rates(10.0, 3)
    assert [rates.wait_s("a", 0.0) for _ in range(3)] == [0.0] * 3
    assert rates.wait_s("a", 0.0) == pytest.approx(0.1)
    assert rates.wait_s("b", 0.0) == 0.0  # each has its own
    assert rates.wait_s("a", 0.05) == pytest.approx(0.05)
    assert rates.wait_s("a", 0.1) == 0.0
    assert [rates.wait_s("a", 100.0) for _ in range(4)][-1] > 0  # quiet time does not add up without end


def test_what_counts_as_one_peer():
    assert network_of("127.0.0.1:4711") == "127.0.0.1"
    assert network_of("2001:db8::1:4711") == network_of("2001:db8::ffff:1") == "2001:db8::/64"
    assert network_of("::ffff:192.0.2.1:80") == "192.0.2.1"
    assert network_of("fe80::1%eth0:80") == "fe80::/64"
    assert network_of("unix") == "unix"


@pytest.mark.process
def test_strangers_who_try_often_must_wait_and_others_need_not(start):
    with start(failures_per_s=0.1) as server:  # one at once, then one in ten seconds
        with server.peer(None) as stranger:
            assert stranger.ask("GET", "/sessions").status == 401
            for _ in range(20):
                answer = stranger.ask("GET", "/sessions", {"authorization": "Bearer wrong-wrong-wrong"})
                assert answer.status == 429
                assert 1 <= int(answer.headers["retry-after"]) <= 10
            assert stranger.ask("GET", "/health").status == 200
        with server.peer(None) as stranger:
            answer = stranger.upgrade()
            assert answer.status == 429 and int(answer.headers["retry-after"]) >= 1
        with server.peer() as known:
            assert known.ask("GET", "/sessions").status == 200


@pytest.mark.process
def test_a_principal_that_asks_too_often_is_told_when_to_come_again(start):
    with start(rate_per_s=0.02) as server:  # one at once, then one in fifty seconds
        with server.peer() as peer:
            assert peer.ask("GET", "/metadata").status == 200
            for path in ("/metadata", "/sessions", "/openapi.json", "/nothing"):
                answer = peer.ask("GET", path)
                assert answer.status == 429, path
                assert 1 <= int(answer.headers["retry-after"]) <= 50
            assert peer.ask("GET", "/health").status == 200
        with server.peer() as peer:
            assert peer.upgrade().status == 429
        with server.peer("other") as other:
            assert other.ask("GET", "/metadata").status == 200


@pytest.mark.process
def test_a_native_socket_that_asks_too_often_is_closed_with_the_reason(start):
    with start(rate_per_s=0.02) as server, server.peer() as peer:
        assert peer.upgrade(native=True).status == 101
        for opcode in (BINARY, TEXT):
            peer.frame(opcode, b"{}")
        while (message := peer.message())[0] != CLOSE:
            pass
        assert b"RATE_LIMITED" in message[1]


@pytest.mark.process
def test_an_openenv_socket_that_asks_too_often_is_told_and_lives_on(start):
    with start(rate_per_s=0.02) as server, server.peer() as peer:
        assert peer.upgrade().status == 101
        for _ in range(3):
            answer = peer.text({"type": "state"})
            assert answer["type"] == "error" and "Too many requests" in answer["data"]["message"]


@pytest.mark.process
def test_sessions_of_one_principal_are_counted_exactly_under_concurrency(start):
    with start(max_sessions=6, sessions_each=3) as server:
        opened, refused, peers, lock = [], [], [], threading.Lock()

        def open_one():
            peer = server.peer()
            native = Native(peer)
            with lock:
                peers.append(peer)
                (opened if isinstance(native.welcome, m.Welcome) else refused).append(native.welcome)

        threads = [threading.Thread(target=open_one) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(opened) == 3
        assert {one.code for one in refused} == {"CAPACITY_REACHED"} and len(refused) == 13
        with server.peer("other") as other:  # who has none may still have one
            assert isinstance(Native(other).welcome, m.Welcome)
        with server.peer() as peer:
            answer = peer.ask("POST", "/reset", body={})
            assert answer.status == 503 and int(answer.headers["retry-after"]) >= 1
            assert answer.json["code"] == "CAPACITY_REACHED"
        for peer in peers:
            peer.sock.close()


@pytest.mark.process
@pytest.mark.parametrize("native", [True, False], ids=["paddock", "openenv"])
@pytest.mark.parametrize("role", ["observer", "agent"])
def test_a_lower_role_that_takes_all_it_can_leaves_sessions_for_operators(shop, role, native):
    with shop(max_sessions=8, sessions_each=8) as server, ExitStack() as open_peers:
        told = [_opened(open_peers.enter_context(server.peer(role)), native) for _ in range(10)]
        refused = [one for one in told if one is not None]
        assert len(told) - len(refused) == {"observer": 1, "agent": 7}[role]
        words = {
            "observer": "The role 'observer' already has its 1 sessions.",
            "agent": "reserved for operators (1 of 8)",
        }
        assert all(words[role] in one for one in refused), refused
        assert _opened(open_peers.enter_context(server.peer()), native) is None
        reason = 'paddock_sessions_refused_total{reason="role"}'
        metrics = open_peers.enter_context(server.peer()).ask("GET", "/metrics").body.decode()
        assert f"{reason} {len(refused)}" in metrics


def _opened(peer, native):
    """None for a session that was opened; else what the peer was told."""
    if native:
        welcome = Native(peer).welcome
        return None if isinstance(welcome, m.Welcome) else f"{welcome.code}: {welcome.message}"
    assert peer.upgrade().status == 101
    peer.frame(TEXT, b'{"type": "state"}')
    answer = json.loads(peer.message()[1])
    return answer["data"]["message"] if answer["data"].get("code") == "CAPACITY_REACHED" else None


@pytest.mark.parametrize(
    ("settings", "operator", "agent", "observer"),
    [
        ({}, (256, 256), (224, 112), (32, 16)),
        ({"max_sessions": 4}, (4, 4), (3, 2), (1, 1)),
        ({"max_sessions": 1}, (1, 1), (1, 1), (1, 1)),
        ({"max_sessions": 16, "sessions_each": 3}, (16, 3), (14, 3), (2, 2)),
        ({"max_sessions": 16, "sessions_reserved": 16}, (16, 16), (0, 0), (0, 0)),
        ({"max_sessions": 16, "sessions_reserved": 0}, (16, 16), (16, 8), (2, 1)),
    ],
)
def test_quotas_of_roles_and_tokens(settings, operator, agent, observer):
    chosen = Settings(**settings)
    chosen.check()
    assert [chosen.quota(role) for role in ("operator", "agent", "observer")] == [operator, agent, observer]


def test_a_reserve_of_more_than_all_is_a_mistake():
    with pytest.raises(PlanError, match=r"--sessions-reserved must be between 0 and --max-sessions \(4\)"):
        Settings(max_sessions=4, sessions_reserved=5).check()


@pytest.mark.process
def test_a_withdrawn_token_ends_its_sessions_its_passes_and_their_workers(start, caplog):
    with start(grace_s=30.0, spares=0) as server, server.peer() as owner, server.peer() as peer:
        native = Native(peer)
        native.ask(m.Make(0, {}))
        began = owner.ask("POST", "/reset", body={})
        mine = {"x-paddock-session": began.headers["x-paddock-session"]}
        handed = owner.ask("POST", "/handover", mine).json["token"]
        with server.peer("other") as other, server.peer(None) as agent, server.peer(None) as joined:
            theirs = {"x-paddock-session": other.ask("POST", "/reset", body={}).headers["x-paddock-session"]}
            agent.token = joined.token = handed
            assert joined.upgrade("/ws").status == 101
            assert agent.ask("POST", "/step", body={"action": {"action": 1}}).status == 200
            workers = [row["pid"] for row in other.ask("GET", "/sessions").json["sessions"]]
            assert len(workers) == 3
            _withdraw(server, "operator operator-")
            wait_until(lambda: len(other.ask("GET", "/sessions").json["sessions"]) == 1, 10.0)
            (left,) = other.ask("GET", "/sessions").json["sessions"]
            wait_until(lambda: alive(workers) == [left["pid"]], 10.0)
            assert agent.ask("POST", "/step", body={"action": {"action": 1}}).status == 401
            while joined.message()[0] != CLOSE:
                pass
            assert other.ask("GET", "/state", theirs).status == 200
    ended = [one for one in caplog.records if one.name == "paddock.audit" and "ended session" in one.message]
    assert len(ended) == 2 and all("token of its owner is no longer valid" in one.message for one in ended)
    assert {one.session for one in ended} == {native.welcome.session[:8], mine["x-paddock-session"][:8]}


@pytest.mark.process
def test_a_token_file_that_is_empty_for_a_moment_ends_nothing(start):
    with start() as server, server.peer() as peer:
        native, text = Native(peer), server.token_file.read_text()
        native.ask(m.Make(0, {}))
        done = threading.Event()

        def look_once():
            server.api._end_withdrawn()
            server.token_file.write_text("")
            server.api._end_withdrawn()
            server.token_file.write_text(text)
            server.api._end_withdrawn()
            done.set()

        server.loop.call_soon_threadsafe(look_once)
        assert done.wait(10)
        assert isinstance(native.ask(m.Reset(0)), m.Done)


@pytest.mark.process
def test_a_mistake_in_the_token_file_lets_nobody_in_and_ends_nothing(start, caplog):
    with start() as server, server.peer() as peer, server.peer("other") as other:
        text = server.token_file.read_text()
        native = Native(peer)
        native.ask(m.Make(0, {}))
        assert other.upgrade().status == 101
        looks, look = [], server.api._tokens.names
        server.api._tokens.names = lambda: looks.append(None) or look()
        server.token_file.write_text(text + "operater 0123456789abcdef\n")
        wait_until(lambda: len(looks) > 3, 30.0)
        with server.peer() as new:
            assert new.ask("GET", "/sessions").status == 401
        assert isinstance(native.ask(m.Reset(0)), m.Done)
        assert other.text({"type": "reset", "data": {}})["type"] == "observation"
        said = [one.getMessage() for one in caplog.records if "no token is accepted" in one.getMessage()]
        assert len(said) == 1 and "0123456789abcdef" not in said[0]
        server.token_file.write_text(text)
        with server.peer() as new:
            assert new.ask("GET", "/sessions").status == 200
        _withdraw(server, "operator operator-")  # what is withdrawn in a file that can be read still ends
        while peer.message()[0] != CLOSE:
            pass


def _withdraw(server, beginning):
    lines = server.token_file.read_text().splitlines(keepends=True)
    server.token_file.write_text("".join(line for line in lines if not line.startswith(beginning)))


@pytest.mark.process
def test_a_token_that_is_taken_back_ends_what_it_holds(start):
    with start(grace_s=30.0) as server, server.peer() as peer, server.peer("other") as other:
        native = Native(peer)
        assert isinstance(native.ask(m.Make(0, {})), m.Done)
        assert other.upgrade().status == 101
        _withdraw(server, "operator operator-")
        opcode, payload = peer.message()
        assert opcode == CLOSE and payload[:2] == (1008).to_bytes(2, "big")
        assert other.text({"type": "reset", "data": {}})["type"] == "observation"
        with server.peer() as again:
            assert again.upgrade().status == 401


@pytest.mark.process
def test_an_agent_on_a_full_server_takes_the_place_of_none_but_its_own(start):
    create = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create", "params": {}}
    with start(max_sessions=2) as server, server.peer() as owner, server.peer("agent") as agent:
        began = owner.ask("POST", "/reset", body={})
        mine = {"x-paddock-session": began.headers["x-paddock-session"]}
        for _ in range(3):
            assert "result" in agent.ask("POST", "/mcp", body=create).json
        assert owner.ask("GET", "/state", mine).status == 200


@pytest.mark.process
def test_who_has_all_that_one_may_have_ends_no_session_by_asking_for_more(start):
    with start(max_sessions=2, sessions_each=1) as server, server.peer() as owner, server.peer("other") as other:
        began = owner.ask("POST", "/reset", body={})
        mine = {"x-paddock-session": began.headers["x-paddock-session"]}
        for _ in range(3):  # each takes the place of its own before
            assert other.ask("POST", "/reset", body={}).status == 200
        assert owner.ask("GET", "/state", mine).status == 200
