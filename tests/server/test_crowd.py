"""A crowd of clients that open sessions at once: each waits its turn, on one connection, and gets one worker."""

import asyncio
import gc
import re
import socket
import threading
import time
import warnings
from contextlib import suppress

import pytest
import uvloop

import paddock
from paddock.errors import Unreachable
from paddock.hosting import messages as m
from paddock.hosting.codec import decode_frame, encode
from paddock.hosting.remote_address import WAITING
from paddock.server import http_connection, websocket
from paddock.server.listener import Acceptor
from paddock.server.workers import WorkerThreads
from tests.hosting.websocket.servers import certificate, websockets_server
from tests.server.clients import Native
from tests.server.in_process import vault_server
from tests.server.raw_peers import BINARY, CLOSE, PING, Peer
from tests.server.serving import serving, wait_until


def asked(server, path, context=None):
    host = "localhost" if context else "127.0.0.1"
    with Peer((host, server.port), token=server.token, context=context, timeout=60.0) as peer:
        return peer.ask("GET", path)


def counted(server, context=None):
    """The server's own numbers, by name."""
    text = asked(server, "/metrics", context).body.decode()
    return {name: float(value) for name, value in re.findall(r"^(paddock_\w+) (\S+)$", text, re.MULTILINE)}


async def crowd(url, remote, count, meanwhile):
    """``count`` environments, made at once and stepped once; the places that their clients were told."""
    places = [[] for _ in range(count)]

    async def one(number):
        options = paddock.RemoteOptions(**remote, on_wait=places[number].append)
        async with await paddock.make_async(url, remote=options) as env:
            await env.reset(seed=number)
            observation, *_ = await env.step(number)
            held.append(observation)
            if len(held) == count:
                everyone.set()
            await everyone.wait()  # all of them live at the same time

    held, everyone = [], asyncio.Event()
    looking = asyncio.ensure_future(meanwhile())
    await asyncio.gather(*(one(number) for number in range(count)))
    looking.cancel()
    return places


@pytest.mark.process
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("count", [24, pytest.param(200, marks=pytest.mark.full)])
def test_a_crowd_gets_a_session_each_on_one_connection_and_with_one_start(tmp_path, count, tls):
    settings, remote, context = {}, {}, None
    if tls:
        _, context = certificate(tmp_path)
        settings = {"tls_cert": tmp_path / "cert.pem", "tls_key": tmp_path / "key.pem"}
        remote = {"ca": tmp_path / "cert.pem"}
    with serving(tmp_path / "server", spares=0, **settings) as server:
        url = f"https://localhost:{server.port}" if tls else server.url
        remote |= {"token": server.token, "connect_s": 590.0, "deadline_s": 120.0}
        health, looks = [], 0

        async def look():
            nonlocal looks
            while True:
                answer = await asyncio.to_thread(asked, server, "/health", context)
                health.append(answer.json)
                looks += 1
                await asyncio.sleep(0.2)

        began = time.monotonic()
        places = asyncio.run(crowd(url, remote, count, look))
        took_s = time.monotonic() - began
        numbers = counted(server, context)
        connections = numbers["paddock_connections_total"] - looks - 1
        print(f"{count} sessions in {took_s:.1f} s, {connections:.0f} connections, {numbers}")
        assert numbers["paddock_workers_started_total"] == numbers["paddock_sessions_opened_total"] == count
        assert connections <= count + 10
        assert any(one.get("sessions_waiting") for one in health)
        told = [ahead for ahead in places if ahead]
        assert len(told) > count / 2  # the first few have their turn at once
        assert all(ahead == sorted(ahead, reverse=True) and ahead[0] < count for ahead in told)
        numbers = wait_until_idle(server, context)
        assert numbers["paddock_workers_starting"] == numbers["paddock_sessions_waiting"] == 0


def wait_until_idle(server, context):
    wait_until(lambda: counted(server, context)["paddock_sessions"] == 0, 30.0)
    assert asked(server, "/health", context).json in ({"status": "healthy"}, {"status": "degraded"})
    return counted(server, context)


@pytest.fixture
def held_up(tmp_path):
    """A server in this process whose starts wait for ``go``: two of them at a time, the others are in line."""
    go = threading.Event()
    running = vault_server(tmp_path)
    (served,) = running.served
    start = served.start

    def start_later(tenant):
        go.wait(30.0)
        return start(tenant)

    served.start = start_later
    with running as server:
        server.service._threads = WorkerThreads(2)
        server.go = go
        try:
            yield server
        finally:
            go.set()


def native(server, role="operator"):
    """A connection that has said hello and knows that it will be told its place."""
    peer = server.peer(role, timeout=30.0)
    assert peer.upgrade(headers={"sec-websocket-protocol": f"paddock.v1, {WAITING}"}).status == 101
    peer.frame(BINARY, b"".join(encode(m.Hello(), 0)))
    return peer


def waiting(server, count):
    wait_until(lambda: server.service.queue["sessions_waiting"] == count)


@pytest.mark.process
def test_a_client_that_leaves_frees_its_place_and_no_worker_is_started_for_it(held_up):
    peers = [native(held_up) for _ in range(2)]
    wait_until(lambda: held_up.service.queue["workers_starting"] == 2)
    third = native(held_up)
    waiting(held_up, 1)
    held_up.service._threads._start_s = 5.0  # at two at a time
    fourth = native(held_up)
    waiting(held_up, 2)
    assert decode_frame(fourth.message()[1]) == (0, m.Waiting(3, 10.0))
    third.sock.close()
    waiting(held_up, 1)
    assert decode_frame(fourth.message()[1]) == (0, m.Waiting(2, 7.5))  # within a second
    held_up.go.set()
    for peer in (*peers, fourth):
        assert isinstance(decode_frame(peer.message()[1])[1], m.Welcome)
        peer.sock.close()
    assert held_up.service._threads.started == 3


@pytest.mark.process
def test_an_operator_does_not_wait_for_agents(held_up):
    peers = [native(held_up, "observer")]
    wait_until(lambda: held_up.service.queue["workers_starting"] == 1)
    peers += [native(held_up, "agent") for _ in range(4)]
    waiting(held_up, 3)
    operator = native(held_up)
    assert decode_frame(operator.message()[1]) == (0, m.Waiting(2))
    for peer in (*peers, operator):
        peer.sock.close()


@pytest.mark.process
def test_a_client_that_does_not_know_the_event_is_not_sent_it(held_up):
    peers = [native(held_up) for _ in range(2)]
    wait_until(lambda: held_up.service.queue["workers_starting"] == 2)

    def go_later():
        waiting(held_up, 1)
        held_up.go.set()

    threading.Thread(target=go_later, daemon=True).start()
    with held_up.peer(timeout=30.0) as old:
        assert isinstance(Native(old).welcome, m.Welcome)  # and nothing before it
    for peer in peers:
        peer.sock.close()


@pytest.mark.process
@pytest.mark.parametrize("way", ["blocking", "async"])
def test_a_client_gives_up_when_its_time_is_over_and_says_what_it_waited_for(held_up, way):
    peers = [native(held_up) for _ in range(3)]
    waiting(held_up, 1)
    url = f"http://127.0.0.1:{held_up.port}"
    remote = paddock.RemoteOptions(token=held_up.tokens["operator"], connect_s=1.5, on_wait=(places := []).append)
    began = time.monotonic()
    with pytest.raises(Unreachable, match=r"within 1\.5 s: 3 others were ahead in its queue.*connect_s"):
        if way == "async":
            asyncio.run(paddock.make_async(url, remote=remote))
        else:
            paddock.make(url, remote=remote)
    assert time.monotonic() - began >= 1.4 and places == [3]
    waiting(held_up, 1)  # it has left the line
    for peer in peers:
        peer.sock.close()


def make_remote(way, url, **options):
    remote = paddock.RemoteOptions(token="0123456789abcdef", wire="paddock.v1", **options)
    return asyncio.run(paddock.make_async(url, remote=remote)) if way == "async" else paddock.make(url, remote=remote)


@pytest.fixture
def flooding():
    """A server that says without pause that others are ahead, and gives up after a while."""
    payload = b"".join(encode(m.Waiting(3), 0))
    flood = (bytes([0x82, len(payload)]) + payload) * 1000
    given_up = threading.Event()

    def say_it_again(connection):
        ends = time.monotonic() + 20
        connection.socket.settimeout(20)  # shutdown() waits for this thread, also where nobody reads any more
        with suppress(OSError):
            while time.monotonic() < ends:
                connection.socket.sendall(flood)
            given_up.set()

    with websockets_server(say_it_again) as endpoint:
        yield f"http://127.0.0.1:{endpoint.port}/X", given_up


@pytest.mark.slow
@pytest.mark.parametrize("way", ["blocking", "async"])
def test_a_server_that_never_stops_talking_is_waited_for_no_longer(way, flooding):
    url, given_up = flooding
    with pytest.raises(Unreachable, match=r"within 1 s: 3 others were ahead"):
        make_remote(way, url, connect_s=1)
    assert not given_up.is_set()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["blocking", "async"])
def test_a_server_that_sends_byte_by_byte_is_waited_for_no_longer(way):
    ended = threading.Event()

    def drip(connection):
        connection.socket.sendall(b"\x82\x7e\xff\xff")  # a message of 65,535 bytes begins
        ends = time.monotonic() + 20
        connection.socket.settimeout(20)  # shutdown() waits for this thread, also where nobody reads any more
        with suppress(OSError):
            while time.monotonic() < ends:
                connection.socket.sendall(b"a")
                time.sleep(0.1)
            ended.set()

    with websockets_server(drip) as endpoint, pytest.raises(Unreachable, match="within 1 s"):
        make_remote(way, f"http://127.0.0.1:{endpoint.port}/X", connect_s=1)
    assert not ended.is_set()


@pytest.mark.parametrize("way", ["blocking", "async"])
def test_what_on_wait_raises_reaches_the_caller(way, flooding):
    with pytest.raises(ZeroDivisionError):
        make_remote(way, flooding[0], connect_s=5, on_wait=lambda ahead: ahead // 0)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["blocking", "async"])
def test_a_server_that_accepts_and_says_nothing_is_waited_for_on_one_connection(way):
    """As one does whose machine is too busy for the handshake: coming again would only make that worse."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        remote = paddock.RemoteOptions(token="0123456789abcdef", connect_s=6.5)
        with pytest.raises(Unreachable, match=r"accepted the connection, but did not finish the handshake within 6\.5"):
            if way == "async":
                asyncio.run(paddock.make_async(url, remote=remote))
            else:
                paddock.make(url, remote=remote)
        listener.settimeout(0.2)
        listener.accept()[0].close()
        with pytest.raises(TimeoutError):
            listener.accept()


@pytest.mark.process
def test_openenv_clients_just_wait(held_up):
    peers = [native(held_up) for _ in range(2)]
    wait_until(lambda: held_up.service.queue["workers_starting"] == 2)
    with held_up.peer(timeout=30.0) as stock:
        assert stock.upgrade().status == 101
        waiting(held_up, 1)
        with held_up.peer(None) as anyone:
            health = anyone.ask("GET", "/health").json
        assert health == {"status": "healthy", "workers_starting": 2, "sessions_waiting": 1}
        held_up.go.set()
        assert stock.text({"type": "reset", "data": {}})["type"] == "observation"
    for peer in peers:
        peer.sock.close()


@pytest.mark.process
@pytest.mark.parametrize("stage", ["silent", "entrants", "entering", "cancelled"])
def test_server_that_stops_closes_those_who_wait_to_be_let_in(tmp_path, monkeypatch, stage):
    certificate(tmp_path)
    settings = {"tls_cert": tmp_path / "cert.pem", "tls_key": tmp_path / "key.pem"}
    let_in = Acceptor._let_in

    def let_in_and_cancel(acceptor):
        let_in(acceptor)
        for task in acceptor._entering:  # none of them has begun
            task.cancel()

    if stage in ("entrants", "cancelled"):
        monkeypatch.setattr(Acceptor, "_let_in", let_in_and_cancel if stage == "cancelled" else lambda _: None)
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        with vault_server(tmp_path, **settings) as server:
            peer = server.peer(None)
            if stage != "silent":
                peer.send(b"\x16")  # a TLS handshake begins with it
            wait_until(lambda: peer.is_closed() if stage == "cancelled" else getattr(server.listening, f"_{stage}"))
        assert peer.is_closed()
        peer.sock.close()
        assert server.listening._callers.count == 0
        del server.listening, server.loop
        gc.collect()
    assert [str(one.message) for one in caught if str(server.port) in str(one.message)] == []


def leave_open(server, context):
    """A connection of each kind."""
    address = "localhost" if context else "127.0.0.1", server.port
    names = ("silent", "head", "idle", "refused", "websocket", "no hello", "too much")
    peers = {name: Peer(address, token=server.tokens["operator"], context=context) for name in names}
    peers["head"].send(b"GET / HT")
    assert peers["idle"].ask("GET", "/health").status == 200
    assert peers["refused"].ask("GET", "/sessions", {"authorization": "Bearer wrong"}).status == 401
    assert peers["websocket"].upgrade().status == peers["no hello"].upgrade(native=True).status == 101
    assert peers["too much"].upgrade().status == 101
    assert peers["too much"].text({"type": "reset", "data": {}})["type"] == "observation"
    sessions = server.service.active
    for _ in range(5000):
        with suppress(OSError):  # it may be over already
            peers["too much"].frame(PING, b"")
    assert peers["too much"].message()[0] == CLOSE
    wait_until(lambda: server.service.active < sessions)  # though its connection lingers
    return peers


@pytest.mark.process
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_server_that_stops_closes_every_connection(tmp_path, monkeypatch, run, tls):
    for module in (http_connection, websocket):
        monkeypatch.setattr(module, "_LINGER_S", 600.0)
    _, context = certificate(tmp_path) if tls else (None, None)
    settings = {"tls_cert": tmp_path / "cert.pem", "tls_key": tmp_path / "key.pem"} if tls else {}
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        server = vault_server(tmp_path, **settings)
        server.run = run
        with server:
            peers = leave_open(server, context)
        for name, peer in peers.items():
            peer.sock.settimeout(1.0)
            assert peer.is_closed(), name
            peer.sock.close()
        assert server.listening._callers.open == {}
        del server.listening, server.loop
        gc.collect()
    assert [str(one.message) for one in caught if str(server.port) in str(one.message)] == []
