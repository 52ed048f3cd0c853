"""HTTP on a live server: order, limits, errors as JSON, and nothing told that is not the peer's."""

import asyncio
import gc
import socket
import time
import weakref

import pytest

from paddock.server import http_connection
from paddock.server.http import BodyBudget, Response
from paddock.server.http_connection import Callers
from tests.server.in_process import SECRET, vault_server
from tests.serving import shared

server = shared(lambda folder: vault_server(folder, max_body=1 << 20, failures_per_s=1e6))


@pytest.fixture
def peer(server):
    with server.peer() as peer:
        yield peer


@pytest.mark.process
def test_pipelined_requests_are_answered_in_order(peer):
    paths = ["/metadata", "/schema", "/nothing", "/health", "/list_environments"] * 20
    peer.send(b"".join(peer.head("GET", path) for path in paths))
    statuses = [peer.answer().status for _ in paths]
    assert statuses == [200, 200, 404, 200, 200] * 20


@pytest.mark.process
def test_a_slow_request_does_not_let_the_next_overtake(peer):
    body = b"{}"
    peer.send(peer.head("POST", "/reset", body=body) + body + peer.head("GET", "/health"))
    first, second = peer.answer(), peer.answer()
    assert "x-paddock-session" in first.headers and second.json == {"status": "healthy"}


@pytest.mark.process
def test_bytes_one_at_a_time(peer):
    for byte in peer.head("GET", "/health"):
        peer.send(bytes([byte]))
    assert peer.answer().status == 200


@pytest.mark.process
def test_keep_alive_and_close(peer):
    assert peer.ask("GET", "/health").headers["connection"] == "keep-alive"
    assert peer.ask("GET", "/health", {"connection": "close"}).headers["connection"] == "close"
    assert peer.is_closed()


@pytest.mark.process
def test_head_has_the_length_of_the_answer_and_no_body(peer):
    length = len(peer.ask("GET", "/metadata").body)
    assert int(peer.ask("HEAD", "/metadata").headers["content-length"]) == length
    assert peer.ask("GET", "/health").status == 200  # no stray bytes in between


@pytest.mark.process
def test_a_chunked_body(peer):
    head = peer.head("POST", "/reset", {"transfer-encoding": "chunked", "content-length": None})
    peer.send(head + b"2\r\n{}\r\n0\r\n\r\n")
    assert peer.answer().status == 200


@pytest.mark.process
def test_a_body_is_asked_for_when_the_peer_waits_for_leave(peer):
    peer.send(peer.head("POST", "/reset", {"expect": "100-continue", "content-length": "2"}))
    assert peer.answer(head_only=True).status == 100
    peer.send(b"{}")
    assert peer.answer().status == 200


@pytest.mark.process
def test_no_leave_for_a_body_that_is_too_large(peer):
    peer.send(peer.head("POST", "/reset", {"expect": "100-continue", "content-length": str(2 << 20)}))
    assert peer.answer().status == 413
    assert peer.is_closed()


@pytest.mark.process
def test_a_refusal_is_read_before_the_end(peer):
    body = bytes(1 << 20)
    peer.send(peer.head("POST", "/reset", {"content-length": str(2 << 20)}) + body)
    assert peer.answer().json == {"detail": "The body is too large."}


@pytest.mark.process
@pytest.mark.parametrize(
    ("bytes_sent", "status"),
    [
        (b"GARBAGE\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: x\r\n\r\n", 417),
        (b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400),
    ],
    ids=["garbage", "headers", "url", "expect", "connect"],
)
def test_what_can_not_be_read_is_told_and_let_go(peer, bytes_sent, status):
    peer.send(bytes_sent)
    answer = peer.answer()
    assert answer.status == status and answer.json["detail"]
    assert answer.headers["connection"] == "close"
    assert peer.is_closed()


@pytest.mark.process
def test_limits_hold_for_later_requests_of_a_connection_too(peer):
    assert peer.ask("GET", "/health").status == 200
    peer.send(peer.head("GET", "/health")[:-2] + b"X: " + b"a" * 200_000)
    assert peer.answer().status == 431


@pytest.mark.process
def test_a_websocket_wants_a_connection_of_its_own(peer):
    assert peer.ask("GET", "/health").status == 200
    answer = peer.upgrade()
    assert answer.status == 426 and answer.headers["upgrade"] == "websocket"


@pytest.mark.process
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-websocket-key": None}, 400),
        ({"sec-websocket-key": "short"}, 400),
        ({"sec-websocket-key": "é" * 24}, 400),
        ({"sec-websocket-version": None}, 426),
        ({"sec-websocket-version": "12"}, 426),
        ({"connection": None}, 426),
        ({"connection": "keep-alive"}, 426),
        ({"upgrade": "websocket, h2c"}, 426),
        ({"content-length": "5"}, 400),
        ({"transfer-encoding": "chunked"}, 400),
        ({"x": "a\r\n b"}, 400),
        ({"host": "a\r\nHost: b"}, 400),
    ],
    ids=str,
)
def test_a_handshake_that_is_none_starts_nothing(server, headers, status):
    with server.peer() as peer:
        started = server.workers_started
        answer = peer.upgrade(headers=headers)
        assert answer.status == status and answer.json["detail"]
        assert server.workers_started == started


@pytest.mark.process
def test_the_connection_header_may_have_more_words(peer):
    assert peer.upgrade(headers={"connection": "keep-alive, Upgrade"}).status == 101


@pytest.mark.process
def test_every_answer_is_json_that_no_page_or_cache_may_use(server):
    asked = [
        ("GET", "/health"),
        ("GET", "/nothing"),
        ("PUT", "/reset"),
        ("GET", "/ws"),
        ("POST", "/step"),
        ("GET", "/"),
    ]
    for role in ("operator", "agent", None):
        with server.peer(role) as peer:
            answers = [peer.ask(*one) for one in asked]
        with server.peer(role) as peer:
            answers.append(peer.upgrade("/nothing"))
        for answer in answers:
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"
            assert "server" not in answer.headers and "x-powered-by" not in answer.headers
            assert answer.json is not None


@pytest.mark.process
def test_a_401_names_the_schemes_and_a_405_the_methods(server):
    with server.peer(None) as peer:
        assert "Bearer" in peer.ask("GET", "/metadata").headers["www-authenticate"]
    with server.peer() as peer:
        assert peer.ask("DELETE", "/reset").headers["allow"] == "POST"
        assert peer.ask("TRACE", "/metadata").headers["allow"] == "GET, HEAD"


@pytest.mark.process
def test_no_answer_names_a_path_an_exception_or_a_secret(server):
    attempts = [
        ("POST", "/reset", {"options": {"a": 1}}),
        ("POST", "/reset", {"seed": -1}),
        ("POST", "/reset", {"seed": "x" * 100}),
        ("POST", "/step", {"action": {"action": 7}}),
        ("POST", "/step", {"action": {"action": None}}),
        ("POST", "/step", {}),
        ("POST", "/task", {"split": "train", "index": 0}),
        ("POST", "/mcp", {"jsonrpc": "2.0", "method": "tools/call", "id": 1, "params": {"name": "x"}}),
        ("GET", "/metadata", b""),
        ("GET", "/schema", b""),
        ("GET", "/openapi.json", b""),
        ("GET", "/sessions", b""),
        ("GET", "/metrics", b""),
        ("GET", "/", b""),
        ("GET", "/../../etc/passwd", b""),
    ]
    with server.peer() as peer:
        session = peer.ask("POST", "/reset", body={}).headers["x-paddock-session"]
        for method, path, body in attempts:
            for headers in ({}, {"x-paddock-session": session}):
                answer = peer.ask(method, path, headers, body)
                failed = answer.status == 500 and answer.json["code"] == "EXECUTION_ERROR"  # the environment did
                assert failed or answer.status not in (500, 502), (path, answer)
                for word in (SECRET, "hunter2", "/home/", "/tmp/", "site-packages", "Traceback", "vault_env", '.py"'):
                    assert word.encode() not in answer.body, (path, word)


@pytest.mark.process
def test_what_goes_wrong_inside_is_a_number(server, monkeypatch, caplog):
    def broken(*arguments):
        raise RuntimeError(f"{SECRET} in /home/alice")

    monkeypatch.setattr(server.service, "listing", broken)
    monkeypatch.setattr(server.api, "_open_socket", broken)
    with server.peer() as peer:
        answer = peer.ask("GET", "/sessions")
    with server.peer() as peer:
        refused = peer.upgrade()
    for one in (answer, refused):
        assert one.status == 500
        number = one.json["detail"].partition("incident ")[2][:12]
        assert one.json == {"detail": f"Internal error (incident {number})."}
        assert f"incident {number}" in caplog.text


@pytest.fixture
def impatient(monkeypatch):
    for name, value in (("HEAD_S", 0.3), ("_BODY_S", 0.3), ("_IDLE_S", 0.3), ("_LINGER_S", 0.2)):
        monkeypatch.setattr(http_connection, name, value)


@pytest.mark.process
@pytest.mark.parametrize("part", ["head", "body", "nothing"])
def test_time_runs_from_the_first_byte_not_from_the_last(server, impatient, part):
    with server.peer() as peer:
        assert peer.ask("GET", "/health").status == 200
        sent = {"head": peer.head("GET", "/health"), "body": peer.head("POST", "/reset", {"content-length": "500"})}
        drops = sent.get(part, b"")
        if part == "body":
            peer.send(drops)
            drops = bytes(500)
        ends = time.monotonic() + 5.0
        peer.sock.settimeout(0.02)
        gone = False
        while not gone:
            assert time.monotonic() < ends, "it was let go on and on"
            try:
                if drops:
                    peer.send(drops[:1])
                    drops = drops[1:]
                gone = peer.sock.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                gone = True


@pytest.mark.process
def test_who_does_not_read_is_not_answered_without_end(server):
    with server.peer() as peer:
        peer.sock.settimeout(1.0)
        request, sent = peer.head("GET", "/openapi.json") * 50, 0
        with pytest.raises(TimeoutError):
            while sent < 200 << 20:
                sent += peer.sock.send(request)
        assert sent < 64 << 20  # the server stopped reading
    with server.peer() as other:
        assert other.ask("GET", "/health").status == 200


class Watched(http_connection.HttpConnection):
    """Answers every request with so many bytes; ``lost`` is set when it has ended."""

    bodies = BodyBudget()

    def __init__(self, size):
        caller = Callers(1, 1).admit(None, "127.0.0.1:1")
        super().__init__(self, max_body=100, peer="127.0.0.1:1", caller=caller)
        self.size, self.lost = size, asyncio.Event()

    def connection_lost(self, error):
        super().connection_lost(error)
        self.lost.set()

    def knows(self, request):
        return True

    async def handle(self, request):
        return Response(200, bytes(self.size))


async def watch(size, kind=Watched):
    """A connection, and the socket of its peer."""
    connection, peer = kind(size), socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        peer.connect(listening.getsockname())
        near, _ = listening.accept()
    await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, near)
    return connection, peer


def test_a_peer_that_takes_nothing_of_its_answer_is_let_go(monkeypatch):
    """By the kernel, so a websocket is too; the timer of HTTP's own answers does not help here."""
    monkeypatch.setattr(http_connection, "STALLED_S", 1.0)
    monkeypatch.setattr(http_connection, "_WRITE_S", 600.0)

    async def ended_after_s():
        connection, silent = await watch(32 << 20)
        with silent:
            silent.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            began = time.monotonic()
            await asyncio.wait_for(connection.lost.wait(), 20)
        return time.monotonic() - began

    assert asyncio.run(ended_after_s()) >= 0.5


def test_a_peer_that_has_read_a_large_answer_can_not_keep_its_last_connection(monkeypatch):
    monkeypatch.setattr(http_connection, "_LINGER_S", 0.2)

    async def read_and_stay():
        connection, peer = await watch(8 << 20)
        with peer:
            peer.sendall(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            while await asyncio.to_thread(peer.recv, 1 << 16):
                pass
            await asyncio.wait_for(connection.lost.wait(), 5)

    asyncio.run(read_and_stay())


def test_a_connection_that_is_refused_unread_is_closed_as_soon_as_any_other(monkeypatch):
    monkeypatch.setattr(http_connection, "_LINGER_S", 0.2)

    class Unread(Watched):
        def connection_made(self, transport):
            super().connection_made(transport)
            self.refuse(Response(400))

    async def stay():
        connection, peer = await watch(0, Unread)
        with peer:
            await asyncio.wait_for(connection.lost.wait(), 5)

    asyncio.run(stay())


def test_a_request_whose_peer_has_left_is_still_carried_out_and_gives_back_its_budget():
    """Only the loop would refer to its task otherwise, and to what that waits for: a cycle, which is collected."""

    class Slow:
        bodies = BodyBudget(1000)

        def knows(self, request):
            return True

        async def handle(self, request):
            waits = asyncio.get_running_loop().create_future()
            self.answer = weakref.ref(waits)
            await waits
            return Response(200)

    async def leave():
        handler, (near, far) = Slow(), socket.socketpair()
        near.setblocking(False)

        def answering():
            caller = Callers(10, 10).admit(near, "127.0.0.1:1")
            return http_connection.HttpConnection(handler, max_body=1000, peer="127.0.0.1:1", caller=caller)

        await asyncio.get_running_loop().connect_accepted_socket(answering, near)
        far.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 900\r\n\r\n" + bytes(900))
        while not hasattr(handler, "answer"):
            await asyncio.sleep(0.001)
        far.close()
        await asyncio.sleep(0.05)
        gc.collect()
        assert handler.bodies.left == 100
        handler.answer().set_result(None)
        await asyncio.sleep(0.05)
        assert handler.bodies.left == 1000

    asyncio.run(leave())
