"""How much one principal may have, and how often a stranger may try: exact, and told when to come again."""

import threading

import pytest

from paddock.hosting import messages as m
from paddock.server.rates import Rates, network_of
from tests.server.in_process import RunningServer, write_vault
from tests.server.raw_peers import BINARY, CLOSE, TEXT
from tests.server.test_auth_roles import Native


@pytest.fixture
def start(tmp_path):
    def start(**settings):
        return RunningServer([write_vault(tmp_path / "vault")], tmp_path / "tokens", **settings)

    return start


def test_rates_fill_up_again():
    rates = Rates(10.0, 3)
    assert [rates.wait_s("a", 0.0) for _ in range(3)] == [0.0] * 3
    assert rates.wait_s("a", 0.0) == pytest.approx(0.1)
    assert rates.wait_s("b", 0.0) == 0.0  # each has its own
    assert rates.wait_s("a", 0.05) == pytest.approx(0.05)
    assert rates.wait_s("a", 0.1) == 0.0
    assert [rates.wait_s("a", 100.0) for _ in range(4)][-1] > 0  # quiet time does not add up without end


def test_rates_forget_who_was_quiet_longest():
    rates = Rates(1.0, 1, most_names=2)
    for name in ("a", "b", "c"):
        assert rates.wait_s(name, 0.0) == 0.0
    assert rates.wait_s("c", 0.0) > 0
    assert rates.wait_s("a", 0.0) == 0.0


def test_what_counts_as_one_peer():
    assert network_of("127.0.0.1:4711") == "127.0.0.1"
    assert network_of("2001:db8::1:4711") == network_of("2001:db8::ffff:1") == "2001:db8::/64"
    assert network_of("::ffff:192.0.2.1:80") == "192.0.2.1"
    assert network_of("fe80::1%eth0:80") == "fe80::/64"
    assert network_of("unix") == "unix"


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


def test_a_principal_that_asks_too_often_is_told_when_to_come_again(start):
    with start(rate_per_s=0.5) as server:
        with server.peer() as peer:
            assert peer.ask("GET", "/metadata").status == 200
            for path in ("/metadata", "/sessions", "/openapi.json", "/nothing"):
                answer = peer.ask("GET", path)
                assert answer.status == 429, path
                assert 1 <= int(answer.headers["retry-after"]) <= 2
            assert peer.ask("GET", "/health").status == 200
        with server.peer() as peer:
            assert peer.upgrade().status == 429
        with server.peer("other") as other:
            assert other.ask("GET", "/metadata").status == 200


def test_a_native_socket_that_asks_too_often_is_closed_with_the_reason(start):
    with start(rate_per_s=0.5) as server, server.peer() as peer:
        assert peer.upgrade(native=True).status == 101
        for opcode in (BINARY, TEXT):
            peer.frame(opcode, b"{}")
        while (message := peer.message())[0] != CLOSE:
            pass
        assert b"RATE_LIMITED" in message[1]


def test_an_openenv_socket_that_asks_too_often_is_told_and_lives_on(start):
    with start(rate_per_s=0.5) as server, server.peer() as peer:
        assert peer.upgrade().status == 101
        for _ in range(3):
            answer = peer.text({"type": "state"})
            assert answer["type"] == "error" and "Too many requests" in answer["data"]["message"]


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


def test_a_token_that_is_taken_back_ends_what_it_holds(start):
    with start(grace_s=30.0) as server, server.peer() as peer, server.peer("other") as other:
        native = Native(peer)
        assert isinstance(native.ask(m.Make(0, {})), m.Done)
        assert other.upgrade().status == 101
        lines = server.token_file.read_text().splitlines(keepends=True)
        server.token_file.write_text("".join(line for line in lines if not line.startswith("operator operator-")))
        opcode, payload = peer.message()
        assert opcode == CLOSE and payload[:2] == (1008).to_bytes(2, "big")
        assert other.text({"type": "reset", "data": {}})["type"] == "observation"
        with server.peer() as again:
            assert again.upgrade().status == 401


def test_an_agent_on_a_full_server_takes_the_place_of_none_but_its_own(start):
    create = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create", "params": {}}
    with start(max_sessions=2) as server, server.peer() as owner, server.peer("agent") as agent:
        began = owner.ask("POST", "/reset", body={})
        mine = {"x-paddock-session": began.headers["x-paddock-session"]}
        for _ in range(3):
            assert "result" in agent.ask("POST", "/mcp", body=create).json
        assert owner.ask("GET", "/state", mine).status == 200


def test_who_has_all_that_one_may_have_ends_no_session_by_asking_for_more(start):
    with start(max_sessions=2, sessions_each=1) as server, server.peer() as owner, server.peer("other") as other:
        began = owner.ask("POST", "/reset", body={})
        mine = {"x-paddock-session": began.headers["x-paddock-session"]}
        for _ in range(3):  # each takes the place of its own before
            assert other.ask("POST", "/reset", body={}).status == 200
        assert owner.ask("GET", "/state", mine).status == 200
