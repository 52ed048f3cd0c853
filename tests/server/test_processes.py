"""A server of several processes is one: sessions are spread and found again, limits and answers are those of all.

Which process has a connection is read from /proc, so that a test can ask the wrong one for a session.
"""

import asyncio
import gc
import json
import logging
import os
import random
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from paddock.errors import CapacityReached, PlanError, SessionGone, Unreachable
from paddock.hosting import messages as m
from paddock.hosting.codec import decode_frame, encode
from paddock.server.auth import Buckets, OriginCheck, Rates, Tokens
from paddock.server.http import Request
from paddock.server.http_api import HttpApi
from paddock.server.http_connection import Callers
from paddock.server.listener import NewConnection
from paddock.server.processes import Processes
from paddock.server.service import Service
from paddock.server.settings import Settings
from tests.hosting.websocket.servers import certificate
from tests.server.clients import CLIENT, McpClient, Native, call, post, rpc
from tests.server.in_process import write_vault
from tests.server.raw_peers import CLOSE, Peer
from tests.server.serving import Client, Server, alive, below, together, wait_until
from tests.server.tool_world import write_shop
from tests.server.worlds.witness import DO

TIMES = 20


class TwoProcesses(Server):
    """A server of two processes; peers by the role of their token."""

    def __init__(self, folder, *targets, roles=("operator",), context=None, **settings):
        folder.mkdir(exist_ok=True, parents=True)
        self.tokens = {role: f"{role}-0123456789abcdef" for role in roles}
        self.write_tokens(folder / "tokens", roles)
        self.context = context
        super().__init__(folder, *targets, **{"spares": 0, "processes": 2, **settings})
        self.pids = children(self.process.pid)  # in the order of their indexes

    def write_tokens(self, file, roles):
        file.write_text("".join(f"{role.rstrip('12')} {self.tokens[role]}\n" for role in roles))

    def peer(self, role="operator", timeout=60.0):
        token = self.tokens.get(role)
        host = "localhost" if self.context is not None else "127.0.0.1"
        return Peer((host, self.port), token=token, timeout=timeout, context=self.context)

    def pid_of(self, session):
        """The process that has this session."""
        return self.pids[int(session[:2], 16) % 2]

    @contextmanager
    def crowd(self):
        """So many silent connections that those that come now are spread over both processes."""
        with ExitStack() as held:
            for _ in range(66):
                held.enter_context(socket.create_connection(("127.0.0.1", self.port)))
            yield

    def accepted_by(self, peer):
        """The process that this connection was handed to, once it was."""
        found = []
        wait_until(lambda: bool(found.extend(self._holders(peer)) or found))
        return found[0]

    def _holders(self, peer):
        own = peer.sock.getsockname()[1]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if (_port(fields[1]), _port(fields[2])) == (self.port, own):
                return [pid for pid in self.pids if f"socket:[{fields[9]}]" in descriptors(pid)]
        return []

    def peer_at(self, pid, role="operator"):
        """A connection that this process has accepted; those that landed elsewhere stay open until then."""
        with self.crowd(), ExitStack() as wrong:
            for _ in range(300):
                peer = self.peer(role)
                if self.accepted_by(peer) == pid:
                    return peer
                wrong.enter_context(peer)
        raise AssertionError("all connections were handed to another process")

    def peer_beside(self, session, role="operator"):
        """A connection that another process has accepted than that with the session."""
        return self.peer_at(next(pid for pid in self.pids if pid != self.pid_of(session)), role)


def _port(address):
    return int(address.rpartition(":")[2], 16)


def children(pid):
    return sorted(int(one) for task in Path(f"/proc/{pid}/task").glob("*/children") for one in task.read_text().split())


def descriptors(pid):
    found = []
    with suppress(OSError):
        for one in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found.append(os.readlink(one.path))
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    place = tmp_path_factory.mktemp("two")
    vault, shop = write_vault(place / "vault"), write_shop(place / "shop")
    targets = ["witness:Witness-v0", *(f"{folder}:{id}" for folder, id in (vault, shop))]
    running = TwoProcesses(place / "server", *targets, roles=("operator", "agent", "observer"))
    try:
        yield running
    finally:
        assert running.stop() == 0
    assert "Traceback" not in running.log, running.log


@pytest.mark.process
def test_sessions_are_spread_listed_counted_and_killed_wherever_they_are(server):
    with server.crowd():
        clients = together(lambda canary: Client(server.address("Witness-v0"), canary).reset(), range(16))
    try:
        spread = Counter(server.pid_of(client.session) for client in clients)
        assert min(spread[pid] for pid in server.pids) >= 4, spread
        before = metric(server, "paddock_replies_total")
        for client in clients:
            client.step(1)
        assert metric(server, "paddock_replies_total") == before + 16
        assert metric(server, "paddock_sessions") == metric(server, "paddock_workers") == 16
        label = '{environment="Witness-v0"}'
        assert metric(server, f"paddock_reply_seconds_count{label}") == before + 16
        named = {client.session[:8] for client in clients}
        for pid in server.pids:  # each answers for both
            with server.peer_at(pid) as peer:
                rows = peer.ask("GET", "/sessions").json["sessions"]
                assert {row["session"] for row in rows} == named
                ages = [row["age_s"] for row in rows]
                assert ages == sorted(ages, reverse=True), "the oldest first, wherever they are"
                assert peer.ask("GET", "/health/live").json["sessions"] == len(named)
                other = next(client for client in clients if server.pid_of(client.session) != pid)
                assert peer.ask("DELETE", f"/sessions/{other.session[:8]}").json["session"] == other.session[:8]
                assert peer.ask("DELETE", f"/sessions/{other.session[:8]}").status == 404
                with pytest.raises(SessionGone):
                    other.step(1)
                clients.remove(other)
                named.remove(other.session[:8])
    finally:
        for client in clients:
            client.close()
    wait_until(lambda: not server.sessions())


@pytest.mark.process
def test_a_few_sessions_share_one_process(server):
    def first_is_next():
        with server.peer() as peer:
            return server.accepted_by(peer) == server.pids[0]

    wait_until(lambda: not server.sessions() and first_is_next())
    clients = together(lambda canary: Client(server.address("Witness-v0"), canary).reset(), range(6))
    try:
        assert {server.pid_of(client.session) for client in clients} == {server.pids[0]}
    finally:
        for client in clients:
            client.close()


def metric(server, name):
    (found,) = re.findall(rf"^{re.escape(name)} (\S+)$", server.get("/metrics"), re.MULTILINE)
    return float(found)


@pytest.mark.process
def test_the_parent_has_one_thread(server):
    """It forks to replace a process that was lost."""
    assert len(list(Path(f"/proc/{server.process.pid}/task").iterdir())) == 1


@pytest.mark.process
def test_metrics_are_of_all_processes_or_none(server):
    """Counters without those of a process that is slow to answer would look as if the server had begun again."""
    first, second = server.pids
    with server.peer_at(first) as peer:
        os.kill(second, signal.SIGSTOP)
        try:
            answer = peer.ask("GET", "/metrics")
        finally:
            os.kill(second, signal.SIGCONT)
        assert answer.status == 503 and answer.json["code"] == Unreachable.code, answer
        assert peer.ask("GET", "/metrics").status == 200


@pytest.mark.process
def test_native_session_is_resumed_through_the_other_process(server):
    resume_through_the_other(server, "/Vault-v0/ws")


@pytest.mark.process
def test_native_session_is_resumed_through_the_other_process_over_tls(tmp_path):
    _, context = certificate(tmp_path)
    folder, id = write_vault(tmp_path / "vault")
    files = {"tls_cert": tmp_path / "cert.pem", "tls_key": tmp_path / "key.pem"}
    server = TwoProcesses(tmp_path / "server", f"{folder}:{id}", context=context, **files)
    try:
        resume_through_the_other(server, "/ws")
    finally:
        assert server.stop() == 0


def resume_through_the_other(server, path):
    with server.peer() as first:
        native = Native(first, path=path)
        saved = native.welcome
        assert isinstance(native.ask(m.Make(0, {})), m.Done)
        assert isinstance(native.ask(m.Reset(0, 1)), m.Done)
    for number in range(TIMES):
        with server.peer_beside(saved.session) as peer:
            native = Native(peer, m.Resume(saved.session, saved.token, native.count - 1, "me"), path=path)
            assert native.welcome.session == saved.session, native.welcome
            saved, native.count = native.welcome, number + 3
            observation = native.ask(m.Step([0], [1])).value[0][0]
            assert observation.tolist() == [number + 1]
    with server.peer_beside(saved.session) as peer:
        native = Native(peer, m.Resume(saved.session, "wrong", native.count - 1, "me"), path=path)
        assert native.welcome.code == SessionGone.code  # as from its own process
    with server.peer() as peer:
        assert peer.ask("DELETE", f"/sessions/{saved.session[:8]}").status == 200


@pytest.mark.process
def test_http_session_is_continued_through_the_other_process(server):
    with server.peer() as first:
        id = first.ask("POST", "/Vault-v0/reset", body={}).headers["x-paddock-session"]
    for number in range(TIMES):
        with server.peer_beside(id) as peer:
            answer = peer.ask("POST", "/Vault-v0/step", {"x-paddock-session": id}, {"action": {"action": 1}})
            assert answer.json["observation"]["value"] == [number + 1]
            assert answer.headers["x-paddock-session"] == id
    closing = rpc("openenv/session/close", session_id=id)
    with server.peer_beside(id) as peer:
        assert peer.ask("HEAD", "/Vault-v0/state", {"x-paddock-session": id}).status == 200
        with server.peer("agent") as agent:
            assert agent.ask("POST", "/Vault-v0/mcp", body=closing).json["error"]  # not its own
        assert post(peer, closing, "/Vault-v0/mcp")["result"]["closed"] is True


@pytest.mark.process
def test_a_session_is_found_by_the_name_that_counts_on_its_route(server):
    """A header may name another one, of another process."""
    with server.peer() as first:
        one = post(first, rpc("openenv/session/create"))["result"]["session_id"]
    with server.peer_beside(one) as peer:
        other = peer.ask("POST", "/Vault-v0/reset", body={}).headers["x-paddock-session"]
        assert server.pid_of(other) != server.pid_of(one)
        named = peer.ask("POST", "/Shop-v0/mcp", {"x-paddock-session": other}, call("count", session=one))
        assert named.json["result"]["data"]["steps"] == 1, named
        both = {"x-paddock-session": other, "mcp-session-id": one}
        assert peer.ask("GET", "/Vault-v0/state", both).status == 200
        for path, id in (("/Shop-v0/mcp", one), ("/Vault-v0/mcp", other)):
            assert post(peer, rpc("openenv/session/close", session_id=id), path)["result"]["closed"] is True


@pytest.mark.process
def test_websocket_joins_a_session_of_the_other_process(server):
    with server.peer() as first:
        id = post(first, rpc("openenv/session/create"), "/Vault-v0/mcp")["result"]["session_id"]
    with server.peer_beside(id) as peer:
        assert peer.upgrade(f"/Vault-v0/ws?session_id={id}").status == 101
        assert peer.text({"type": "reset", "data": {}})["data"]["observation"]["value"] == [0]
        assert peer.text({"type": "step", "data": {"action": 1}})["data"]["observation"]["value"] == [1]
    with server.peer_beside(id) as peer:
        wait_until(lambda: closed(peer, id))  # once the websocket is known to be gone


def closed(peer, id):
    answer = post(peer, rpc("openenv/session/close", session_id=id), "/Vault-v0/mcp")
    return "error" in answer or answer["result"]["closed"]


@pytest.mark.process
def test_mcp_sessions_and_passes_are_recognized_by_both_processes(server):
    with McpClient(server) as client:
        id = client.headers["mcp-session-id"]
        for number, pid in enumerate([*server.pids, *server.pids], 1):
            client.peer.sock.close()
            client.peer = server.peer_at(pid, "agent")
            assert client.call("count", number)["structuredContent"]["steps"] == number
        assert client.peer.ask("POST", client.path, {**client.headers, "mcp-session-id": id[:-1]}, b"{}").status == 404
    with server.peer() as operator:
        session = post(operator, rpc("openenv/session/create", reset={"seed": 5}))["result"]["session_id"]
        own = {"x-paddock-session": session}
        token = operator.ask("POST", "/Shop-v0/handover", own).json["token"]
        for number, pid in enumerate([*server.pids, *server.pids], 1):
            with server.peer_at(pid) as agent:
                agent.token = token
                assert post(agent, call("count"))["result"]["data"]["steps"] == number
        with server.peer_beside(session, "nobody") as agent:
            agent.token = token
            began = agent.ask("POST", "/Shop-v0/mcp", body=rpc("initialize", 0, protocolVersion="2025-11-25", **CLIENT))
            assert server.pid_of(began.headers["mcp-session-id"]) == server.pid_of(session)
            agent.token = token[:-1] + ("0" if token[-1] != "0" else "1")  # looks like one, and nobody issued it
            assert agent.ask("POST", "/Shop-v0/mcp", body=call("count")).status == 401
        assert operator.ask("GET", "/Shop-v0/handover", own).json["steps"] == 4
        assert post(operator, rpc("openenv/session/close", session_id=session))["result"]["closed"] is True
        for pid in server.pids:
            with server.peer_at(pid) as agent:
                agent.token = token
                assert agent.ask("POST", "/Shop-v0/mcp", body=call("count")).status == 401


@pytest.mark.process
def test_limits_on_sessions_hold_over_both_processes(tmp_path):
    """Of 5 sessions 2 are reserved for operators; an agent may have 2 of the other 3."""
    folder, id = write_shop(tmp_path / "shop")
    roles = ("operator1", "operator2", "agent1", "agent2")
    server = TwoProcesses(
        tmp_path / "server", f"{folder}:{id}", roles=roles, max_sessions=5, sessions_reserved=2, grace_s=60.0
    )
    try:
        with ExitStack() as held:

            def begin(role):
                peer = held.enter_context(server.peer(role))
                welcome = Native(peer).welcome
                return role, welcome if isinstance(welcome, m.Welcome) else welcome.code

            held.enter_context(server.crowd())
            agents = together(begin, ["agent1", "agent2"] * 6)
            got = Counter(role for role, welcome in agents if isinstance(welcome, m.Welcome))
            assert got.total() == 3 and max(got.values()) == 2, agents
            operators = together(begin, ["operator1", "operator2"] * 6)
            welcomes = [one for _, one in agents + operators if isinstance(one, m.Welcome)]
            assert len(welcomes) == 5
            assert {one for _, one in agents + operators if not isinstance(one, m.Welcome)} == {CapacityReached.code}
            assert len({server.pid_of(one.session) for one in welcomes}) == 2
            with server.peer("operator1") as peer:  # room again, whichever process it was in
                for one in welcomes:
                    assert peer.ask("DELETE", f"/sessions/{one.session[:8]}").status == 200
            # An idle HTTP session makes room, also one of the other process.
            ids = [
                server.peer("operator1").ask("POST", "/reset", body={}).headers["x-paddock-session"] for _ in range(5)
            ]
            for _ in range(3):
                for pid in server.pids:
                    with server.peer_at(pid, "operator2") as peer:
                        answer = peer.ask("POST", "/reset", body={})
                        assert answer.status == 200, answer
                        ids.append(answer.headers["x-paddock-session"])
            with server.peer("operator1") as peer:
                assert len(peer.ask("GET", "/sessions").json["sessions"]) == 5
    finally:
        assert server.stop() == 0


@pytest.mark.process
def test_the_session_idle_for_longest_makes_room_whichever_process_has_it(tmp_path):
    folder, id = write_vault(tmp_path / "vault")
    roles = ("operator", "agent")
    server = TwoProcesses(tmp_path / "server", f"{folder}:{id}", roles=roles, max_sessions=4, sessions_reserved=0)
    first, second = server.pids

    def begin(pid, role="operator"):
        with server.peer_at(pid, role) as peer:
            answer = post(peer, rpc("openenv/session/create"), "/mcp")
            return answer["result"]["session_id"] if "result" in answer else None

    def left():
        return {row["session"] for row in server.sessions()}

    try:
        a, b, c, d = (begin(pid) for pid in (first, second, first, second))
        assert [server.pid_of(one) for one in (a, b, c, d)] == [first, second, first, second]
        e = begin(second)  # although it has two of its own
        assert left() == {one[:8] for one in (b, c, d, e)}
        with server.peer_beside(b) as peer:
            assert peer.ask("GET", "/state", {"x-paddock-session": b}).status == 200
        f = begin(second)  # b is no longer the one
        assert left() == {one[:8] for one in (b, d, e, f)}
        assert [begin(pid, "agent") for pid in server.pids] == [None, None]  # they are not its own
        assert left() == {one[:8] for one in (b, d, e, f)}
        # As many at once as there are idle ones, all of them in one process: each gets its place.
        ids = [begin(first) for _ in range(4)]
        assert left() == {one[:8] for one in ids}
        assert len(set(together(begin, [first, second] * 2)) - {None, *ids}) == 4
    finally:
        assert server.stop() == 0


@pytest.mark.process
def test_rates_hold_over_both_processes(tmp_path):
    server = TwoProcesses(tmp_path / "server", roles=("operator", "observer"), rate_per_s=0.001, failures_per_s=0.001)
    try:
        for role, allowed, refused in (("observer", 200, 429), ("stranger", 401, 429)):
            statuses = Counter()
            for pid in server.pids * 2:
                with server.peer_at(pid, role) as peer:
                    statuses.update(peer.ask("GET", "/list_environments").status for _ in range(5))
            assert statuses == {allowed: 1, refused: 19}, (role, statuses)
    finally:
        assert server.stop() == 0


@pytest.mark.process
def test_a_withdrawn_token_ends_its_sessions_in_both_processes(tmp_path):
    folder, id = write_vault(tmp_path / "vault")
    server = TwoProcesses(tmp_path / "server", f"{folder}:{id}", roles=("operator", "agent"))
    try:
        with ExitStack() as held:
            peers = [held.enter_context(server.peer_at(pid, "agent")) for pid in server.pids]
            sessions = [Native(peer).welcome.session for peer in peers]
            assert [server.pid_of(one) for one in sessions] == server.pids
            server.write_tokens(server.token_file, ["operator"])
            for peer in peers:
                opcode, payload = peer.message()
                assert opcode == CLOSE and b"UNAUTHENTICATED" in payload
            with server.peer() as peer:
                assert peer.ask("GET", "/sessions").json == {"sessions": []}
    finally:
        assert server.stop() == 0
    ended = [one for one in map(json.loads, server.log.splitlines()) if "token of its owner" in one["message"]]
    assert {one["session"] for one in ended} == {one[:8] for one in sessions}


@pytest.mark.process
def test_a_process_that_is_killed_is_replaced_and_the_others_go_on(tmp_path):
    server = TwoProcesses(tmp_path / "server", journal=tmp_path / "journal")
    try:
        with server.crowd():
            clients = together(lambda canary: Client(server.address(), canary).reset(canary), range(4))
        by_pid = {pid: [one for one in clients if server.pid_of(one.session) == pid] for pid in server.pids}
        killed, other = server.pids
        assert by_pid[killed] and by_pid[other]
        workers = below(killed)
        os.kill(killed, signal.SIGKILL)
        for client in by_pid[other]:
            client.step(1)
        wait_until(lambda: not alive(workers), 10.0)
        wait_until(lambda: len(children(server.process.pid)) == 2, 30.0)
        for client in clients:  # those of the killed one from their journals
            client.step(DO["pause"])
        assert [client.count for client in by_pid[killed]] == [1] * len(by_pid[killed])
        assert {row["session"] for row in server.sessions()} == {client.session[:8] for client in clients}
        for client in clients:
            client.close()
        below_it = below(server.process.pid)
    finally:
        assert server.stop() == 0
    assert "was lost: it ended with -9; it is replaced" in server.log
    assert not alive(below_it) and {one.name for one in (tmp_path / "journal").iterdir()} == {"lock", "mark"}


@pytest.mark.process
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_journaled_sessions_resume_after_a_restart_with_other_processes(tmp_path, end):
    settings = {"journal": tmp_path / "journal"}
    server = TwoProcesses(tmp_path / "server", **settings)
    try:
        with server.crowd():
            clients = together(lambda canary: Client(server.address(), canary).reset(canary), range(4))
        together(lambda client: client.step(1), clients)
        everything = below(server.process.pid)
        getattr(server, end)()
        wait_until(lambda: not alive(everything), 10.0)
        server = TwoProcesses(tmp_path / "server", port=server.port, **{**settings, "processes": 3})
        together(lambda client: client.step(2), clients)
        assert [client.count for client in clients] == [2] * 4
        for client in clients:
            client.close()
    finally:
        server.stop()


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_drain_answers_what_was_asked_and_leaves_nothing_behind(tmp_path, number):
    path = tmp_path / "paddock.sock"
    notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notices.bind(str(tmp_path / "notify"))
    folder, id = write_vault(tmp_path / "vault")
    command = ["paddock", "serve", f"{folder}:{id}", "--uds", path, "--processes", "2"]
    with (
        notices,
        subprocess.Popen(
            [sys.executable, "-m", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")},
            start_new_session=True,
        ) as process,
    ):
        assert process.stdout.readline().startswith("serving")
        token = process.stdout.readline().split()[1]
        notices.settimeout(10.0)
        assert notices.recv(100) == b"READY=1" and path.stat().st_mode & 0o777 == 0o600
        files = descriptors(process.pid)
        with ExitStack() as held:
            peer, *_, other = [held.enter_context(Peer(str(path), token=token)) for _ in range(40)]
            assert len({int(Native(one).welcome.session[:2], 16) % 2 for one in (peer, other)}) == 2
            everything = [process.pid, *below(process.pid)]
            os.killpg(process.pid, number)  # as a terminal does
            assert process.wait(60) == 0
            assert peer.message()[0] == other.message()[0] == CLOSE
        assert notices.recv(100) == b"STOPPING=1"
        wait_until(lambda: not alive(everything))
        assert not path.exists() and process.stderr.read() == ""
        shared = [one.removesuffix(" (deleted)") for one in files if one.startswith(("/tmp", "/dev/shm"))]
        assert not any(os.path.exists(one) for one in shared)


@pytest.mark.process
def test_processes_end_with_a_parent_that_is_killed(tmp_path):
    server = TwoProcesses(tmp_path / "server")
    client = Client(server.address(), 1).reset()
    everything = below(server.process.pid)
    server.kill()
    wait_until(lambda: not alive(everything), 5.0)
    client.abandon()


@pytest.mark.process
def test_what_is_wrong_with_an_environment_is_said_once(tmp_path):
    folder, _ = write_vault(tmp_path / "vault")
    (folder / "vault_env.py").write_text("raise RuntimeError('never')")
    command = [sys.executable, "-m", "paddock", "serve", f"{folder}:Vault-v0", "--port", "0", "--processes", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2 and done.stderr.count("the environment can't be made") == 1, done
    assert "Traceback" not in done.stderr


# Without a server


def test_an_id_names_its_process_and_those_of_another_count_are_spread():
    for count in (2, 3, 7, 256):
        processes = Processes(count)
        for processes.index in {0, 1, count - 1}:
            ids = [processes.new_id() for _ in range(50)]
            assert all(processes.elsewhere(id) is None for id in ids) and {len(id) for id in ids} == {32}
            processes.index = (processes.index + 1) % count
            assert all(processes.elsewhere(id) is not None for id in ids)
    chance = random.Random(0)
    others = Counter(Processes(2).elsewhere(f"{chance.randrange(256):02x}") for _ in range(1000))
    assert min(others.values()) > 400
    assert Processes(2).elsewhere("no hex") is None and Processes().elsewhere("ff") is None


def test_only_passes_that_a_process_issued_are_relayed():
    processes, strangers = Processes(2), Processes(2)
    processes.index = 1
    token = processes.new_pass()
    processes.index = 0
    assert processes.holder_of_pass(token) == 1
    assert strangers.holder_of_pass(token) is None
    for wrong in ("", token[:-1], token + "0", "00" + token[2:], "x" * 64, "é" * 64):
        assert processes.holder_of_pass(wrong) is None


SESSIONS = ["00" + "0" * 30, "01" + "0" * 30]  # of either process; there are none


@pytest.mark.process
@pytest.mark.parametrize("first", [0, 1])
def test_a_websocket_that_names_two_processes_is_relayed_once(server, first):
    """Its query names a session of one process, its Hello one of the other; each would pass it on to the other."""
    before = [len(descriptors(pid)) for pid in server.pids]
    with server.peer("observer") as peer:
        assert peer.upgrade(f"/Witness-v0/ws?session_id={SESSIONS[first]}", native=True).status == 101
        hello = m.Hello(m.Resume(SESSIONS[1 - first], "x" * 32, 0, "h", 1))
        peer.frame(2, b"".join(encode(hello, 0)))
        _, answer = decode_frame(peer.message()[1])
        assert answer.code == "SESSION_GONE" and "no such session" in answer.message
        now = [len(descriptors(pid)) for pid in server.pids]
        assert all(two - one < 10 for one, two in zip(before, now, strict=True)), (before, now)


@pytest.mark.process
def test_a_pass_and_a_header_that_name_two_processes_are_relayed_once(server):
    with server.peer() as operator:
        session = post(operator, rpc("openenv/session/create", reset={"seed": 5}))["result"]["session_id"]
        token = operator.ask("POST", "/Shop-v0/handover", {"x-paddock-session": session}).json["token"]
        other = SESSIONS[1 - int(session[:2], 16) % 2]
        for pid in server.pids:
            with server.peer_at(pid) as agent:
                agent.token = token
                assert agent.ask("GET", "/Shop-v0/state", {"x-paddock-session": other}).status in (403, 404, 409)
        post(operator, rpc("openenv/session/close", session_id=session))


@pytest.mark.process
def test_the_body_of_a_withdrawn_pass_is_not_read_elsewhere_either(server):
    with server.peer() as operator:
        session = post(operator, rpc("openenv/session/create", reset={"seed": 5}))["result"]["session_id"]
        token = operator.ask("POST", "/Shop-v0/handover", {"x-paddock-session": session}).json["token"]
        expected = []
        for closes in (False, True):
            with server.peer_beside(session) as agent:
                agent.token = token
                agent.send(agent.head("POST", "/Shop-v0/mcp", {"expect": "100-continue", "content-length": "1000"}))
                expected.append(agent.answer().status)
            if not closes:
                post(operator, rpc("openenv/session/close", session_id=session))
        assert expected == [100, 401]


def test_a_relayed_connection_outlives_the_garbage_collector():
    near, far = socket.socketpair()
    far.settimeout(5)
    api = SimpleNamespace(relays=0, holder=lambda upgrade: 1, processes=SimpleNamespace(connect=lambda *_: near))
    head = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"

    def new_connection():
        return NewConnection(api, None, Callers(1, 1).admit(near, "127.0.0.1"))

    async def talk():
        server = await asyncio.get_running_loop().create_server(new_connection, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for said in (head, b"later"):
            writer.write(said)
            assert await asyncio.to_thread(far.recv, 1000) == said
            gc.collect()
        writer.close()
        server.close()

    asyncio.run(talk())


def test_counts_of_other_processes_are_seen_until_they_end():
    processes = Processes(3)
    for processes.index in (1, 2):
        processes.publish("sessions", {"a": processes.index, f"only-{processes.index}": 1})
    processes.index = 0
    assert processes.of_others("sessions") == {"a": 3, "only-1": 1, "only-2": 1}
    assert processes.of_others("websockets") == {}
    processes.forget(1)
    assert processes.of_others("sessions") == {"a": 2, "only-2": 1}


class Spared:
    """An environment that only counts spares."""

    name, spares = "spared", 0

    def describe(self):
        pass

    def end_spares(self, idle_s=0.0):
        pass


@pytest.mark.parametrize("count", [1, 2, 3, 64])
def test_all_processes_together_keep_as_many_spares_as_one(count):
    async def spares(index):
        processes, env = Processes(count), Spared()
        processes.index = index
        service = Service([env], Settings(spares=5), processes)
        await service.start()
        await service.stop()
        return env.spares

    kept = [asyncio.run(spares(index)) for index in range(count)]
    assert sum(kept) == 5 and max(kept) - min(kept) <= 1
    assert kept[0] == max(kept), "the first process has the first sessions"


def test_others_are_idle_until_one_has_a_load():
    assert Processes(1).others_are_idle()
    processes = Processes(3)
    processes.report_load(7)
    assert processes.others_are_idle()
    processes.index = 2
    processes.report_load(1)
    processes.index = 0
    assert not processes.others_are_idle()
    processes.forget(2)
    assert processes.others_are_idle()


def test_a_flood_from_many_addresses_gets_as_many_lines_from_several_processes_as_from_one(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("paddock.audit"), "propagate", True)

    async def flood(count):
        caplog.clear()
        processes = Processes(count)
        for processes.index in range(count):
            api = HttpApi(Service([], Settings(), processes), OriginCheck.for_bind("127.0.0.1"), Tokens.fresh()[0])
            for number in range(200):
                await api.handle(Request("GET", "/sessions", "", {"host": "localhost"}, peer=f"10.0.0.{number}:1"))
        return len(caplog.records)

    assert 100 <= asyncio.run(flood(4)) <= asyncio.run(flood(1)) + 3  # one each for all the rest


def test_shared_buckets_count_as_one_and_forget_the_oldest():
    memory = memoryview(bytearray(Buckets.BYTES))
    make = partial(Rates, 10.0, 3)
    one, two = (make(Buckets(memory, "requests")) for _ in range(2))
    other = make(Buckets(memory, "failures"))
    assert [rates.wait_s("a", 1.0) for rates in (one, two, one)] == [0.0] * 3
    assert two.wait_s("a", 1.0) == pytest.approx(0.1)
    assert other.wait_s("a", 1.0) == 0.0 and one.wait_s("b", 1.0) == 0.0
    for number in range(Buckets.BYTES // 8):  # more than there is room for
        assert one.wait_s(str(number), 2.0 + number * 1e-6) == 0.0
    assert one.wait_s("a", 3.0) == 0.0
    assert [two.wait_s("last", 9.0) for _ in range(4)][-1] > 0


@pytest.mark.parametrize("processes", [0, 257])
def test_the_number_of_processes_has_limits(processes):
    with pytest.raises(PlanError, match="between 1 and 256"):
        Settings(processes=processes).check()
