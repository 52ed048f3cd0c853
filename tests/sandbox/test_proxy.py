"""What an allowed host and ordinary clients see of the proxy."""

import http.client
import os
import socket
import ssl
import subprocess
import threading
import urllib.error
import urllib.request

import pytest

from paddock.errors import InvalidPolicy
from paddock.sandbox.plan import proxy_variables
from paddock.sandbox.proxy import Proxy
from tests.sandbox.web import PATIENCE_S, keep_all, proxied, raw, say, status, web


def opener(proxy):
    url = f"http://127.0.0.1:{proxy.port}"
    return urllib.request.build_opener(urllib.request.ProxyHandler({"http": url, "https": url}))


def here(server):
    return f"127.0.0.1:{server.port}"


def test_urllib_reaches_an_allowed_host():
    with web() as server, proxied(here(server)) as proxy:
        with opener(proxy).open(f"http://{here(server)}/a?b=c", timeout=PATIENCE_S) as answer:
            assert (answer.status, answer.read()) == (200, b"hello")
        assert [(method, path) for method, path, _, _ in server.seen] == [("GET", "/a?b=c")]
        assert (proxy.served, proxy.refused, proxy.failed) == (1, 0, 0)
        assert proxy.log[0][1:] == ("GET", "127.0.0.1", server.port, "served")


def test_urllib_is_told_which_permission_is_missing():
    with web() as server, proxied("example.com:80") as proxy:
        with pytest.raises(urllib.error.HTTPError) as caught:
            opener(proxy).open(f"http://{here(server)}/", timeout=PATIENCE_S)
        with caught.value as error:
            assert error.code == 403
            assert error.read().decode() == f"paddock: the permission hosts does not name {here(server)}.\n"
        assert server.seen == [] and (proxy.served, proxy.refused) == (0, 1)
        assert proxy.log[0].verdict == "refused"


def test_a_refused_tunnel_names_the_permission_too():
    with proxied("example.com:80") as proxy:
        connection = http.client.HTTPSConnection("127.0.0.1", proxy.port, timeout=PATIENCE_S)
        connection.set_tunnel("example.com", 443)
        with pytest.raises(OSError, match="403 paddock: the permission hosts does not name example.com:443"):
            connection.request("GET", "/")
        connection.close()


@pytest.mark.parametrize("how", [{}, {"chunked": True}, {"until_close": True}])
@pytest.mark.parametrize("minor", [0, 1])
def test_every_framing_of_an_answer_arrives_whole(how, minor):
    with web(lambda *_: {"body": b"0123456789", **how}) as server, proxied(here(server)) as proxy:
        answer = say(proxy, f"GET http://{here(server)}/ HTTP/1.{minor}\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    framed_in_chunks = b"Transfer-Encoding: chunked" in head
    assert framed_in_chunks == (minor == 1 and how != {})
    if framed_in_chunks:
        assert body.endswith(b"0\r\n\r\n") and b"".join(body.split(b"\r\n")[1:-3:2]) == b"0123456789"
    else:
        assert body == b"0123456789"


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 5\r\n\r\n01234",
        b"Transfer-Encoding: chunked\r\n\r\n2\r\n01\r\n3;x=y\r\n234\r\n0\r\nT: 1\r\n\r\n",
    ],
)
def test_a_body_arrives_whole(framing):
    with web() as server, proxied(here(server)) as proxy:
        assert status(say(proxy, f"POST http://{here(server)}/ HTTP/1.1\r\n".encode() + framing)) == 200
        ((_, _, _, body),) = server.seen
        assert body == b"01234"


def test_expect_is_answered_by_the_proxy():
    with web() as server, proxied(here(server)) as proxy, socket.create_connection(("127.0.0.1", proxy.port)) as sock:
        sock.settimeout(PATIENCE_S)
        head = f"POST http://{here(server)}/ HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
        sock.sendall(head.encode())
        assert sock.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"ab")
        assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert server.seen[0][3] == b"ab"


def test_head_and_empty_answers_have_no_body():
    def answer(method, path, body):
        return {"status": 204, "body": b""} if path == "/empty" else {"body": b"12345"}

    with web(answer) as server, proxied(here(server)) as proxy:
        head = say(proxy, f"HEAD http://{here(server)}/ HTTP/1.1\r\n\r\n".encode())
        empty = say(proxy, f"GET http://{here(server)}/empty HTTP/1.1\r\n\r\n".encode())
    assert b"Content-Length: 5\r\n" in head and head.endswith(b"\r\n\r\n")
    assert status(empty) == 204 and empty.endswith(b"\r\n\r\n")


def test_headers_of_the_connection_do_not_pass_and_host_is_the_one_asked_for():
    with raw(keep_all) as server, proxied(here(server)) as proxy:
        lines = [
            f"GET http://{here(server)} HTTP/1.1",
            "Host: internal.example",
            "Proxy-Authorization: Basic c2VjcmV0",
            "Proxy-Connection: keep-alive",
            "Connection: keep-alive, X-Private",
            "X-Private: 1",
            "Upgrade: h2c",
            "TE: trailers",
            "Keep-Alive: 5",
            "X-Kept: 2",
        ]
        assert status(say(proxy, "\r\n".join([*lines, "", ""]).encode())) == 200
        assert server.done.acquire(timeout=PATIENCE_S)
    assert server.got == [f"GET / HTTP/1.1\r\nHost: {here(server)}\r\nX-Kept: 2\r\nConnection: close\r\n\r\n".encode()]


def test_headers_of_the_servers_connection_do_not_pass():
    def script(server, connection):
        connection.recv(65536)
        connection.sendall(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 Fine\r\nConnection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: 9\r\n"
            b"Proxy-Authenticate: Basic\r\nPaddock-Proxy: refused\r\nX-Kept: 2\r\nContent-Length: 0\r\n\r\n"
        )

    with raw(script) as server, proxied(here(server)) as proxy:
        answer = say(proxy, f"GET http://{here(server)}/ HTTP/1.1\r\n\r\n".encode())
    assert answer == b"HTTP/1.1 200 Fine\r\nX-Kept: 2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def test_pieces_pass_as_they_come():
    told = threading.Event()

    def script(server, connection):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na")
        assert told.wait(PATIENCE_S)
        connection.sendall(b"b")

    with raw(script) as server, proxied(here(server)) as proxy:
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=PATIENCE_S)
        connection.request("GET", f"http://{here(server)}/")
        answer = connection.getresponse()
        assert answer.read(1) == b"a"
        told.set()
        assert answer.read() == b"b"
        connection.close()


def test_a_tunnel_carries_bytes_both_ways_and_its_ends():
    def script(server, connection):
        while piece := connection.recv(65536):
            connection.sendall(piece.upper())
        connection.sendall(b"!")

    with raw(script) as server, proxied(here(server)) as proxy:
        answer = say(proxy, f"CONNECT {here(server)} HTTP/1.1\r\n\r\nearly".encode() + b"x" * 300_000, half_close=True)
        assert answer == b"HTTP/1.1 200 Connection established\r\n\r\nEARLY" + b"X" * 300_000 + b"!"
        assert proxy.log[0][1:] == ("CONNECT", "127.0.0.1", server.port, "served")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    files = ["-keyout", str(folder / "key"), "-out", str(folder / "cert")]
    try:
        names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        subprocess.run([*command.split(), *names, *files], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"openssl made no certificate ({error}): runs where scripts/setup may install it")
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(folder / "cert", folder / "key")
    return serving, ssl.create_default_context(cafile=folder / "cert")


@pytest.mark.process
def test_https_in_absolute_form_is_sent_over_tls(certificate):
    serving, trusting = certificate
    with web(tls=serving) as server, proxied(here(server), tls=trusting) as proxy:
        answer = say(proxy, f"GET https://{here(server)}/secret HTTP/1.1\r\n\r\n".encode())
        assert status(answer) == 200 and answer.endswith(b"hello")
        assert server.seen[0][1] == "/secret"


@pytest.mark.process
def test_a_certificate_that_nobody_vouches_for_is_refused(certificate):
    with web(tls=certificate[0]) as server, proxied(here(server)) as proxy:
        answer = say(proxy, f"GET https://{here(server)}/ HTTP/1.1\r\n\r\n".encode())
        assert status(answer) == 502 and b"No trusted TLS connection" in answer
        assert b"CERTIFICATE" not in answer and server.seen == []


@pytest.mark.process
def test_https_through_a_tunnel_is_urllibs_own(certificate):
    serving, trusting = certificate
    with web(tls=serving) as server, proxied(here(server)) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        handlers = urllib.request.ProxyHandler({"https": url}), urllib.request.HTTPSHandler(context=trusting)
        with urllib.request.build_opener(*handlers).open(f"https://{here(server)}/", timeout=PATIENCE_S) as answer:
            assert answer.read() == b"hello"
        assert proxy.log[0].method == "CONNECT"


def test_the_variables_lead_urllib_to_the_proxy(monkeypatch):
    with web() as server, proxied(here(server)) as proxy:
        for name, value in proxy_variables(proxy.port).items():
            monkeypatch.setenv(name, value)
        with urllib.request.build_opener().open(f"http://{here(server)}/", timeout=PATIENCE_S) as answer:
            assert answer.read() == b"hello"
        assert proxy.served == 1


def threads_here():
    return [one.name for one in threading.enumerate() if one.name.startswith(("paddock-proxy", "paddock-lookup"))]


def test_close_twice_leaves_no_thread_and_no_descriptor():
    hanging = threading.Semaphore(0)

    def script(server, connection):
        hanging.release()
        connection.recv(65536)
        connection.recv(65536)

    with raw(script) as server:
        before = len(os.listdir("/proc/self/fd"))
        with proxied(here(server)) as proxy:
            clients = [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(3)]
            clients[0].sendall(f"GET http://{here(server)}/ HTTP/1.1\r\n\r\n".encode())
            assert hanging.acquire(timeout=PATIENCE_S)
            clients[1].sendall(f"CONNECT {here(server)} HTTP/1.1\r\n\r\n".encode())
            assert clients[1].recv(100).startswith(b"HTTP/1.1 200")
            clients[2].sendall(b"GET ")
            proxy.close()
            assert threads_here() == []
            proxy.close()
        for client in clients:
            client.close()
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE_S)
        for _ in range(2):
            assert server.done.acquire(timeout=PATIENCE_S)
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_proxy_that_was_never_started_closes():
    listener = socket.create_server(("127.0.0.1", 0))
    proxy = Proxy(listener, ["a.example:80"])
    proxy.close()
    proxy.start()
    assert listener.fileno() == -1 and threads_here() == []


@pytest.mark.process
def test_a_forked_childs_close_leaves_the_parents_proxy_alone():
    with web() as server, proxied(here(server)) as proxy:
        child = os.fork()
        if child == 0:
            proxy.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert status(say(proxy, f"GET http://{here(server)}/ HTTP/1.1\r\n\r\n".encode())) == 200


def test_a_host_that_is_none_is_an_invalid_policy():
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(InvalidPolicy, match="'example.com'"):
        Proxy(listener, ["example.com"])
