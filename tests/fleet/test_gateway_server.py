"""``paddock gateway`` in front of real servers: kills under load, TLS, other protocols, and what it never passes on."""

import asyncio
import json
import random
import socket
import threading
import urllib.error
import urllib.request
from collections import Counter
from types import SimpleNamespace

import pytest

from paddock.cli import main
from paddock.errors import PaddockError
from paddock.fleet import gateway as g
from paddock.fleet.proxy import Flow
from paddock.hosting.codec import HANDSHAKE
from paddock.hosting.messages import Hello
from paddock.hosting.remote_address import SUBPROTOCOLS
from paddock.hosting.remote_session import Patience, frame_of
from tests.fleet.gateways import Gateway, fleet, start_server
from tests.server.serving import Broken, Client, make_certificate, vanish, wait_until

PATIENT = Patience(first_s=0.01, longest_s=0.1, begin_s=60.0, resume_s=20.0, handshake_s=10.0)
_STEPS = 2_000  # of a session: a journal takes as long to repeat
pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def trio(tmp_path_factory):
    """A gateway and three servers that no test stops."""
    with fleet(tmp_path_factory.mktemp("trio"), 3, max_sessions=64) as found:
        yield found


class Load(threading.Thread):
    """Steps environments until it is stopped: one that is lost is replaced. Anything doubled or lost is an error."""

    def __init__(self, gateway, number):
        super().__init__(daemon=True)
        self.gateway, self.number, self.stopping = gateway, number, threading.Event()
        self.steps, self.losses, self.error = 0, Counter(), None

    def run(self):
        try:
            while not self.stopping.is_set():
                self.play()
        except BaseException as error:
            self.error = error

    def play(self):
        try:
            client = Client(self.gateway.address(), canary=self.number, patience=PATIENT, deadline_s=60.0)
        except PaddockError as error:
            self.losses[error.code] += 1
            return
        try:
            client.reset(seed=self.number)
            for action in range(1, _STEPS):
                if self.stopping.is_set():
                    break
                client.step(action)
                self.steps += 1
            client.close()
        except Broken:
            raise
        except PaddockError as error:
            self.losses[error.code] += 1
            vanish(client.channel)


def kill_servers(folder, count, seed, *, journal, clients=8):
    """Kill one of three servers so many times while clients step; what became of their sessions."""
    chance = random.Random(seed)
    with fleet(folder, 3, journal=journal, spares=0) as (gateway, servers):
        loads = [Load(gateway, number) for number in range(clients)]
        for load in loads:
            load.start()
        for _ in range(count):
            at = chance.randrange(3)
            enough = sum(load.steps for load in loads) + chance.randrange(50)
            wait_until(lambda enough=enough: sum(load.steps for load in loads) > enough, 60)
            servers[at].kill()
            own = {"journal": folder / f"journal{at}"} if journal else {}
            token = servers[at].token
            servers[at] = start_server(folder, at, token, port=servers[at].port, spares=0, **own)
        gateway.wait_for_ready(3)
        before = {load: load.steps for load in loads}
        wait_until(lambda: all(load.steps > steps or load.error for load, steps in before.items()), 90)
        for load in loads:
            load.stopping.set()
        for load in loads:
            load.join(90)
        assert not any(load.is_alive() for load in loads), "a client hangs"
        errors = [load.error for load in loads if load.error is not None]
        assert errors == []
        assert all(server.token not in gateway.log for server in servers)
        return sum(load.steps for load in loads), sum((load.losses for load in loads), Counter())


def test_killed_servers_lose_no_session_that_has_a_journal(tmp_path, seed):
    steps, losses = kill_servers(tmp_path, 3, seed, journal=True, clients=4)
    assert steps > 0 and losses == {}


@pytest.mark.full
def test_two_hundred_kills_under_load(tmp_path, seed):
    steps, losses = kill_servers(tmp_path, 200, seed, journal=True)
    print(f"200 kills: {steps} steps, losses {dict(losses)}")
    assert set(losses) <= {"ENV_LOST", "SESSION_GONE", "UNREACHABLE"}
    assert sum(losses.values()) < 20, "journaled sessions resume"


@pytest.mark.full
def test_kills_without_journals_are_clear_losses(tmp_path, seed):
    _, losses = kill_servers(tmp_path, 20, seed, journal=False)
    assert set(losses) <= {"ENV_LOST", "SESSION_GONE", "UNREACHABLE"} and losses


def test_sessions_stay_together_and_are_spread(trio):
    gateway, servers = trio
    clients = [Client(gateway.address(), canary=at).reset() for at in range(6)]
    for action in range(1, 20):
        for client in clients:
            client.step(action)
    assert [len(server.sessions()) for server in servers] == [2, 2, 2]
    assert len(gateway.get("/sessions")["sessions"]) == 6
    for client in clients:
        client.close()


def test_a_server_lost_before_the_first_step_costs_nothing(tmp_path):
    with fleet(tmp_path, 2) as (gateway, servers):
        client = Client(gateway.address(), canary=5).reset(seed=3)
        (first,) = [one for one in servers if one.sessions()]
        first.kill()
        for action in range(1, 30):
            client.step(action)
        second = next(one for one in servers if one is not first)
        assert len(second.sessions()) == 1
        client.channel._connection.abort()  # the client's own connection breaks: it resumes what was moved
        client.step(7)
        client.close()


def test_a_session_outlives_its_gateway(tmp_path):
    with fleet(tmp_path, 2) as (gateway, servers):
        client = Client(gateway.address(), canary=1, patience=PATIENT).reset()
        client.step(3)
        gateway.kill()
        again = Gateway(tmp_path, servers, "--port", str(gateway.port))
        try:
            client.step(4)
            client.close()
        finally:
            again.stop()


def test_a_drained_server_gets_no_new_session(tmp_path):
    with fleet(tmp_path, 2) as (_, servers):
        gateway = Gateway(tmp_path, servers, "--drain", servers[0].url)
        try:
            clients = [Client(gateway.address(), canary=at).reset() for at in range(3)]
            assert [len(one.sessions()) for one in servers] == [0, 3]
            for client in clients:
                client.close()
        finally:
            assert gateway.stop() == 0


def ask(gateway, path, body=None, method=None, **headers):
    headers = {"Authorization": f"Bearer {gateway.token}", "Content-Type": "application/json"} | headers
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(gateway.url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response), response.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error), error.headers


def test_episodes_over_http_stay_on_their_server(trio):
    gateway, _ = trio
    sessions = []
    for _ in range(4):
        _, _, headers = ask(gateway, "/reset", {"seed": 1})
        sessions.append({"X-Paddock-Session": headers["X-Paddock-Session"]})
    for action in (1, 2, 3):
        for session in sessions:
            _, answer, _ = ask(gateway, "/step", {"action": {"action": action}}, **session)
            assert answer["observation"]["value"][0] == action
    for session in sessions:
        id = session["X-Paddock-Session"]
        assert ask(gateway, f"/sessions/{id[:8]}", method="DELETE")[0] == 200
    assert ask(gateway, f"/sessions/{id[:8]}", method="DELETE")[0] == 404


def test_a_wrong_token_is_refused_by_a_server_and_no_token_is_logged(trio):
    gateway, _ = trio
    status, answer, headers = ask(gateway, "/schema", Authorization="Bearer a-wrong-token-of-somebody")
    assert status == 401 and "www-authenticate" in headers
    assert "a-wrong-token" not in gateway.log and gateway.token not in gateway.log


def test_requests_from_web_pages_and_for_other_hosts_end_at_the_gateway(trio):
    gateway, _ = trio
    assert ask(gateway, "/schema", Origin="https://evil.example")[0] == 403
    assert ask(gateway, "/schema", Host="evil.example")[0] == 403


def test_what_a_client_says_of_other_addresses_does_not_pass(tmp_path):
    """A server that shows what it gets, in place of ours."""
    import http.server

    heads = []

    class Mirror(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            heads.append(dict(self.headers))
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    mirror = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    threading.Thread(target=mirror.serve_forever, daemon=True).start()
    gateway = Gateway(tmp_path, [f"http://127.0.0.1:{mirror.server_port}"], token="x" * 20)
    try:
        lies = {"X-Forwarded-For": "10.0.0.1", "Forwarded": "for=10.0.0.1", "X-Real-Ip": "10.0.0.1", "Via": "1.1 me"}
        assert ask(gateway, "/schema", **lies, Cookie="a=b")[0] == 200
        head = {name.lower(): value for name, value in heads[-1].items()}
        assert head["host"] == f"127.0.0.1:{mirror.server_port}"
        assert head.keys() <= {"host", "connection", "content-length", "authorization", "content-type", "user-agent"}
    finally:
        gateway.stop()
        mirror.shutdown()
        mirror.server_close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--server", "http://127.0.0.1:9", "--server", "http://127.0.0.1:9/"], "a --server is given twice"),
        (["--server", "http://127.0.0.1:9", "--drain", "http://127.0.0.1:8"], "is not one of the servers"),
        (["--server", "http://me:a-secret-token@127.0.0.1:9"], "the URL of a --server has a token"),
        (["--server", "http://127.0.0.1:9/envs"], "Drop the path: /envs"),  # or "/../x" would leave it
        (["--server", "http://192.0.2.1:9"], "or allow it with --insecure"),
        (["--server", "http://127.0.0.1:9", "--tls-cert", "none.pem"], "none.pem: there is no such file"),
        (["--server", "http://127.0.0.1:9", "--host", "0.0.0.0"], "can be reached by other machines"),
        (["--server", "http://127.0.0.1:9", "--ca", "none.pem"], "can't read certificates from it"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_started(capsys, words, said):
    assert main(["gateway", *words]) == 2
    printed = capsys.readouterr().err
    assert said in printed and printed.count("\n") == 1 and "a-secret-token" not in printed


def test_tls_to_the_servers_and_only_to_those_with_the_right_certificate(tmp_path):
    place = make_certificate(tmp_path)
    files = {"tls_cert": place / "cert.pem", "tls_key": place / "key.pem"}
    server = start_server(tmp_path, 0, "t" * 20, **files)
    try:
        for options, ready in ((["--ca", str(place / "cert.pem")], 1), ([], 0)):
            gateway = Gateway(tmp_path, [server], *options)
            try:
                assert gateway.get("/health")["servers_ready"] == ready
                if ready:
                    with Client(gateway.address(), canary=1) as client:
                        client.reset().step(3)
            finally:
                gateway.stop()
    finally:
        server.kill()


def test_no_server_that_is_ready_is_a_refusal_to_try_again(tmp_path):
    gateway = Gateway(tmp_path, ["http://127.0.0.1:9"], token="x" * 20)
    try:
        assert gateway.url and ask(gateway, "/health/live")[0] == 200
        assert ask(gateway, "/health/ready")[0] == 503
        status, answer, headers = ask(gateway, "/schema")
        assert (status, answer["code"], headers["retry-after"]) == (503, "UNREACHABLE", "1")
        with pytest.raises(PaddockError):
            Client(gateway.address(), patience=Patience(first_s=0.01, begin_s=0.5, handshake_s=1.0))
    finally:
        gateway.stop()


def test_pings_of_a_client_that_reads_nothing_are_held_back(trio):
    """Before its first step the gateway looks at each message; what it can't pass on must not pile up in it."""
    gateway, _ = trio
    hello = frame_of(Hello(None), HANDSHAKE)
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=2.0) as client:
        lines = ["GET /ws HTTP/1.1", f"Host: 127.0.0.1:{gateway.port}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="]
        lines += [f"Sec-WebSocket-Protocol: {SUBPROTOCOLS[0]}", f"Authorization: Bearer {gateway.token}", "", ""]
        client.sendall("\r\n".join(lines).encode())
        assert client.recv(4096).startswith(b"HTTP/1.1 101 ")
        client.sendall(bytes((0x82, 0x80 | len(hello))) + bytes(4) + hello)
        assert client.recv(4096)
        pings, sent = (b"\x89\xfd" + bytes(4 + 125)) * 500, 0
        with pytest.raises(TimeoutError):
            while sent < 96 << 20:
                sent += client.send(pings)


def test_an_attempt_at_one_server_ends_when_the_next_begins():
    """Both would succeed, and the client's Hello would go to the wrong one."""

    async def play():
        begun, ended = [], []

        async def connect(at):
            begun.append(at)
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(at)

        near, far = socket.socketpair()
        with far:
            transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=near)
            api = SimpleNamespace(number=0, flows={}, connect=connect, gateway=None)
            flow = Flow(api, None, transport, b"", None, lambda: None)
            for at in (0, 1):
                flow._carry([g.Dial(flow.number, at)])
                while at not in begun:
                    await asyncio.sleep(0)
            assert ended == [0]
            flow._carry([g.Drop(flow.number)])
            while ended != [0, 1]:
                await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(play(), 30.0))
