"""What a proxy does with requests and answers that are malformed, too long, too slow or too many."""

import socket
import threading

import pytest

from paddock.sandbox import proxy as destinations
from tests.sandbox.web import PATIENCE_S, keep_all, proxied, raw, say, status, web

SHORT_S = 0.2

SMUGGLED = b"GET http://HERE/smuggled HTTP/1.1\r\nHost: HERE\r\n\r\n"

MALFORMED = {
    "length and chunks": b"PUT http://HERE/ HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"0\r\n\r\n",
    "two lengths": b"POST http://HERE/ HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "two equal lengths": b"POST http://HERE/ HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab",
    "a list of lengths": b"POST http://HERE/ HTTP/1.1\r\nContent-Length: 2, 2\r\n\r\nab",
    "a signed length": b"POST http://HERE/ HTTP/1.1\r\nContent-Length: +2\r\n\r\nab",
    "a negative length": b"POST http://HERE/ HTTP/1.1\r\nContent-Length: -2\r\n\r\nab",
    "a length with underscores": b"POST http://HERE/ HTTP/1.1\r\nContent-Length: 1_0\r\n\r\nabcdefghij",
    "chunks by another name": b"POST http://HERE/ HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunks in a list": b"POST http://HERE/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunks twice": b"PUT http://HERE/ HTTP/1.1\r\n" + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n",
    "chunks in 1.0": b"POST http://HERE/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a blank before the colon": b"GET http://HERE/ HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n",
    "a folded header": b"GET http://HERE/ HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
    "a header without a name": b"GET http://HERE/ HTTP/1.1\r\n: a\r\n\r\n",
    "a header without a colon": b"GET http://HERE/ HTTP/1.1\r\nX\r\n\r\n",
    "a bare LF": b"GET http://HERE/ HTTP/1.1\r\nX: a\nY: b\r\n\r\n",
    "a bare CR": b"GET http://HERE/ HTTP/1.1\r\nX: a\rY: b\r\n\r\n",
    "a NUL": b"GET http://HERE/ HTTP/1.1\r\nX: a\0b\r\n\r\n",
    "two hosts": b"GET http://HERE/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "a blank in the target": b"GET http://HERE/a b HTTP/1.1\r\n\r\n",
    "a tab in the line": b"GET\thttp://HERE/ HTTP/1.1\r\n\r\n",
    "an empty first line": b"\r\nGET http://HERE/ HTTP/1.1\r\n\r\n",
    "another protocol": b"GET http://HERE/ HTTP/2.0\r\n\r\n",
    "no version": b"GET http://HERE/\r\n\r\n",
    "only a path": b"GET / HTTP/1.1\r\nHost: HERE\r\n\r\n",
    "another scheme": b"GET ftp://HERE/ HTTP/1.1\r\n\r\n",
    "a file": b"GET file:///etc/passwd HTTP/1.1\r\n\r\n",
    "a user": b"GET http://user:secret@HERE/ HTTP/1.1\r\n\r\n",
    "a user that looks like the host": b"GET http://HERE@evil.example/ HTTP/1.1\r\n\r\n",
    "a fragment": b"GET http://HERE/#a HTTP/1.1\r\n\r\n",
    "a backslash": b"GET http://HERE\\@evil.example/ HTTP/1.1\r\n\r\n",
    "a quoted CRLF in the host": b"GET http://HERE%0d%0aX:a/ HTTP/1.1\r\n\r\n",
    "a zone": b"GET http://[fe80::1%25lo]/ HTTP/1.1\r\n\r\n",
    "port 0": b"GET http://127.0.0.1:0/ HTTP/1.1\r\n\r\n",
    "port 65536": b"GET http://127.0.0.1:65536/ HTTP/1.1\r\n\r\n",
    "TRACE": b"TRACE http://HERE/ HTTP/1.1\r\n\r\n",
    "a tunnel without a port": b"CONNECT example.com HTTP/1.1\r\n\r\n",
    "a tunnel with a body": b"CONNECT HERE HTTP/1.1\r\nContent-Length: 4\r\n\r\nabcd",
    "a tunnel to a URL": b"CONNECT http://HERE/ HTTP/1.1\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_heads_are_refused_and_nothing_is_sent_on(name):
    with raw(keep_all) as server, proxied(f"127.0.0.1:{server.port}") as proxy:
        here = f"127.0.0.1:{server.port}".encode()
        answer = say(proxy, (MALFORMED[name] + SMUGGLED).replace(b"HERE", here))
        assert status(answer) == 400 and answer.count(b"HTTP/1.1 ") == 1
        assert (proxy.refused, proxy.served, proxy.log[0].verdict) == (1, 0, "malformed")
    assert server.got == []


BAD_CHUNKS = [
    b"-1\r\n",
    b"0x2\r\nab\r\n",
    b"2 2\r\nab\r\n",
    b"\r\n",
    b"2\nab\r\n",
    b"1\r\nab\r\n0\r\n\r\n",
    b"fffffffff\r\n",
    b"zz\r\n",
]


@pytest.mark.parametrize("chunks", BAD_CHUNKS)
def test_malformed_chunks_are_refused_and_the_request_is_never_whole(chunks):
    with raw(keep_all) as server, proxied(f"127.0.0.1:{server.port}") as proxy:
        head = f"POST http://127.0.0.1:{server.port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        answer = say(proxy, head + chunks + SMUGGLED)
        assert status(answer) in (400, 413, 431)
        assert server.done.acquire(timeout=PATIENCE_S)
    assert not server.got[0].endswith(b"0\r\n\r\n") and b"smuggled" not in server.got[0]


def test_a_second_request_on_a_connection_is_never_read():
    with raw(keep_all) as server, proxied(f"127.0.0.1:{server.port}") as proxy:
        here = f"127.0.0.1:{server.port}"
        answer = say(proxy, f"GET http://{here}/ HTTP/1.1\r\n\r\n".encode() + SMUGGLED.replace(b"HERE", here.encode()))
        assert answer.count(b"HTTP/1.1 ") == 1 and b"Connection: close" in answer
        assert server.done.acquire(timeout=PATIENCE_S)
    assert len(server.got) == 1 and b"smuggled" not in server.got[0]


@pytest.mark.parametrize(
    ("head", "expected"),
    [(b"GET http://a/" + b"a" * 70_000, 414), (b"GET http://a/ HTTP/1.1\r\n" + b"A: b\r\n" * 300 + b"\r\n", 431)],
)
def test_long_heads_are_refused(head, expected):
    with proxied("a:80") as proxy:
        assert status(say(proxy, head)) == expected


@pytest.mark.parametrize("framing", [b"Content-Length: 11\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\nb\r\n"])
def test_a_body_past_the_limit_is_refused(framing):
    with raw(keep_all) as server, proxied(f"127.0.0.1:{server.port}", max_body=10) as proxy:
        head = f"POST http://127.0.0.1:{server.port}/ HTTP/1.1\r\n".encode()
        answer = say(proxy, head + framing + b"01234567890\r\n0\r\n\r\n")
        assert status(answer) == 413 and proxy.log[0].verdict == "too large"


@pytest.mark.parametrize("how", [{}, {"chunked": True}, {"until_close": True}])
def test_an_answer_past_the_limit_does_not_arrive_whole(how):
    ask = "GET http://127.0.0.1:{}/ HTTP/1.1\r\n\r\n"
    with (
        web(lambda *_: {"body": b"0123456789X", **how}) as server,
        proxied(f"127.0.0.1:{server.port}", max_body=10) as proxy,
    ):
        answer = say(proxy, ask.format(server.port).encode())
        assert not answer.endswith(b"0\r\n\r\n") and b"X" not in answer
        assert how or status(answer) == 502
        assert proxy.log[-1].verdict == "too large"


def test_a_tunnel_past_the_limit_is_cut():
    with raw(keep_all) as server, proxied(f"127.0.0.1:{server.port}", max_body=1000) as proxy:
        say(proxy, f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n\r\n".encode() + b"x" * 100_000)
        assert server.done.acquire(timeout=PATIENCE_S)
        assert proxy.log[-1].verdict == "too large"
    assert len(b"".join(server.got)) < 100_000


BAD_ANSWERS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
    b"HTTP/1.1 200 OK\r\nX : a\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: a\nSet-Cookie: b\r\n\r\n",
    b"HTTP/1.1 999 OK\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" * 20,
    b"SSH-2.0-OpenSSH\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000 + b"\r\n",
    b"HTTP/1.1 200",
    b"",
]


@pytest.mark.parametrize("bad", BAD_ANSWERS)
def test_malformed_answers_are_a_bad_gateway(bad):
    def script(server, connection):
        connection.recv(65536)
        connection.sendall(bad)

    with raw(script) as server, proxied(f"127.0.0.1:{server.port}") as proxy:
        answer = say(proxy, f"GET http://127.0.0.1:{server.port}/ HTTP/1.1\r\n\r\n".encode())
        assert status(answer) == 502 and b"Set-Cookie" not in answer
        assert (proxy.failed, proxy.log[0].verdict) == (1, "unreachable")


def test_an_answer_that_breaks_off_does_not_look_whole():
    def script(server, connection):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")

    with raw(script) as server, proxied(f"127.0.0.1:{server.port}") as proxy:
        answer = say(proxy, f"GET http://127.0.0.1:{server.port}/ HTTP/1.1\r\n\r\n".encode())
        assert not answer.endswith(b"0\r\n\r\n")


def test_an_answer_that_breaks_off_is_a_reset_where_only_the_end_would_tell():
    def script(server, connection):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")

    with (
        raw(script) as server,
        proxied(f"127.0.0.1:{server.port}") as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE_S) as sock,
    ):
        sock.sendall(f"GET http://127.0.0.1:{server.port}/ HTTP/1.0\r\n\r\n".encode())
        with pytest.raises(ConnectionResetError):
            while sock.recv(65536):
                pass


def test_an_early_answer_arrives_though_the_body_was_not_read():
    def script(server, connection):
        connection.recv(1)
        connection.sendall(b"HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass

    with raw(script) as server, proxied(f"127.0.0.1:{server.port}") as proxy:
        head = f"POST http://127.0.0.1:{server.port}/ HTTP/1.1\r\nContent-Length: 300000\r\n\r\n".encode()
        assert status(say(proxy, head + b"x" * 300_000)) == 413


@pytest.mark.parametrize("sent", [b"", b"GET ", b"GET http://a/ HTTP/1.1\r\nA: b\r\n"])
def test_a_head_that_does_not_come_is_given_up(sent):
    with proxied("a:80", timeout_s=SHORT_S) as proxy:
        assert status(say(proxy, sent)) == 408 and proxy.log[0].verdict == "timeout"


def test_a_byte_now_and_then_does_not_keep_a_connection_alive():
    with proxied("a:80", timeout_s=SHORT_S) as proxy, socket.create_connection(("127.0.0.1", proxy.port)) as sock:
        sock.settimeout(SHORT_S / 10)
        answer = b""
        for _ in range(1000):
            try:
                sock.sendall(b"A")
                answer += sock.recv(65536)
            except TimeoutError:
                continue
            except ConnectionError:
                break
            if answer:
                break
        assert status(answer) == 408


def test_a_body_that_does_not_come_is_given_up():
    with raw(keep_all) as server, proxied(f"127.0.0.1:{server.port}", timeout_s=SHORT_S) as proxy:
        head = f"POST http://127.0.0.1:{server.port}/ HTTP/1.1\r\nContent-Length: 5\r\n\r\nab"
        assert status(say(proxy, head.encode())) == 408


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nConte", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_a_server_that_does_not_answer_is_given_up(said):
    def script(server, connection):
        connection.sendall(said)
        while connection.recv(65536):
            pass

    with raw(script) as server, proxied(f"127.0.0.1:{server.port}", timeout_s=SHORT_S) as proxy:
        answer = say(proxy, f"GET http://127.0.0.1:{server.port}/ HTTP/1.1\r\n\r\n".encode())
        assert status(answer) == 504 and proxy.log[0].verdict == "timeout"
        assert f"127.0.0.1:{server.port} did not answer in time".encode() in answer


def test_a_server_that_does_not_answer_the_tls_handshake_is_given_up():
    def script(server, connection):
        while connection.recv(65536):
            pass

    with raw(script) as server, proxied(f"127.0.0.1:{server.port}", timeout_s=SHORT_S) as proxy:
        assert status(say(proxy, f"GET https://127.0.0.1:{server.port}/ HTTP/1.1\r\n\r\n".encode())) == 504


@pytest.fixture
def full_queue():
    """The port of a listener that takes no more connections: the next connect waits."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = []
        for _ in range(4):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
            waiting.append(sock)
        yield listener.getsockname()[1]
        for sock in waiting:
            sock.close()


def test_a_connection_that_does_not_come_about_is_given_up(full_queue):
    with proxied(f"127.0.0.1:{full_queue}", timeout_s=SHORT_S) as proxy:
        assert status(say(proxy, f"CONNECT 127.0.0.1:{full_queue} HTTP/1.1\r\n\r\n".encode())) == 504


def test_close_does_not_wait_for_a_connection_that_does_not_come_about(full_queue, monkeypatch):
    begun = threading.Event()
    plain = destinations._socket

    def noticed(*args):
        begun.set()
        return plain(*args)

    monkeypatch.setattr(destinations, "_socket", noticed)
    with proxied(f"127.0.0.1:{full_queue}") as proxy, socket.create_connection(("127.0.0.1", proxy.port)) as sock:
        sock.sendall(f"CONNECT 127.0.0.1:{full_queue} HTTP/1.1\r\n\r\n".encode())
        assert begun.wait(PATIENCE_S)
        proxy.close()
        assert not [one for one in threading.enumerate() if one.name.startswith("paddock-proxy")]


def test_a_lookup_that_hangs_is_given_up(monkeypatch):
    over = threading.Event()
    plain = socket.getaddrinfo

    def hang(host, *args, **options):
        if host == "slow.example":
            over.wait(PATIENCE_S)
        return plain("127.0.0.1", *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    with proxied("slow.example:80", timeout_s=SHORT_S) as proxy:
        assert status(say(proxy, b"GET http://slow.example/ HTTP/1.1\r\n\r\n")) == 504
        over.set()


def test_an_idle_tunnel_is_closed():
    def script(server, connection):
        while connection.recv(65536):
            pass

    with raw(script) as server, proxied(f"127.0.0.1:{server.port}", timeout_s=SHORT_S) as proxy:
        answer = say(proxy, f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n\r\n".encode())
        assert status(answer) == 200
        assert server.done.acquire(timeout=PATIENCE_S)


def test_a_host_where_nobody_listens_is_said_without_the_systems_words():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with proxied(f"127.0.0.1:{port}") as proxy:
        answer = say(proxy, f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n".encode())
        assert status(answer) == 502 and b"could not be reached" in answer and b"Errno" not in answer


def test_connections_past_the_limit_wait_for_their_turn():
    with (
        web() as server,
        proxied(f"127.0.0.1:{server.port}", max_connections=1) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port)) as first,
        socket.create_connection(("127.0.0.1", proxy.port)) as second,
    ):
        first.sendall(b"GET ")
        second.sendall(f"GET http://127.0.0.1:{server.port}/ HTTP/1.1\r\n\r\n".encode())
        second.settimeout(0.1)
        with pytest.raises(TimeoutError):
            second.recv(1)
        first.close()
        second.settimeout(PATIENCE_S)
        assert second.recv(65536).startswith(b"HTTP/1.1 200")


def test_a_fault_of_the_proxy_costs_one_connection_and_tells_nothing(monkeypatch, caplog):
    def fail(head):
        raise KeyError("a path of the host")

    with web() as server, proxied(f"127.0.0.1:{server.port}") as proxy:
        ask = f"GET http://127.0.0.1:{server.port}/ HTTP/1.1\r\n\r\n".encode()
        with monkeypatch.context() as patch:
            patch.setattr("paddock.sandbox.http1.parse_request", fail)
            assert say(proxy, ask) == b""
        assert status(say(proxy, ask)) == 200
        assert proxy.log[0].verdict == "fault"


def test_the_log_is_bounded():
    with proxied("a:80") as proxy:
        for number in range(1100):
            proxy.note("GET", "a", number, "served")
        assert len(proxy.log) == 1000 and proxy.log[-1].port == 1099 and proxy.served == 1100
