"""``fetch`` asks directly outside a sandbox and through the proxy inside, with the same answers and errors."""

import socket

import pytest

from paddock.errors import NotPermitted
from paddock.sandbox.cassette import Cassette
from paddock.sandbox.fetching import fetch
from paddock.sandbox.plan import proxy_variables
from tests.sandbox.web import PATIENCE_S, proxied, raw, web


@pytest.fixture(params=["direct", "proxied"])
def reach(request, monkeypatch):
    """Make what follows go to a server directly, or through a proxy that allows it."""
    if request.param == "direct":
        yield lambda server, **options: None
        return
    opened = []

    def through(server, **options):
        opened.append(proxied(f"127.0.0.1:{server.port}", **options))
        proxy = opened[-1].__enter__()
        for name, value in proxy_variables(proxy.port).items():
            monkeypatch.setenv(name, value)
        return proxy

    yield through
    for one in opened:
        one.__exit__(None, None, None)


def test_an_answer_is_the_same_at_both_distances(reach):
    headers = [("X-A", "1"), ("x-a", "2"), ("Content-Type", "application/json")]
    with web(lambda *_: {"status": 418, "headers": headers, "body": b'{"a": "\xc3\xa9"}'}) as server:
        reach(server)
        url = f"http://127.0.0.1:{server.port}/p?q=1#part"
        answer = fetch(url, method="POST", headers={"X-B": "3"}, body="é", timeout_s=PATIENCE_S)
        method, path, sent, body = server.seen[0]
    assert (answer.status, answer.headers["x-a"], answer.json()) == (418, "1, 2", {"a": "é"})
    assert answer.text() == '{"a": "é"}'
    assert (method, path, body) == ("POST", "/p?q=1", "é".encode())
    assert dict(sent)["X-B"] == "3" and dict(sent)["Host"] == f"127.0.0.1:{server.port}"


def test_a_redirect_is_an_answer(reach):
    with web(lambda *_: {"status": 302, "headers": [("Location", "/elsewhere")]}) as server:
        reach(server)
        answer = fetch(f"http://127.0.0.1:{server.port}/", timeout_s=PATIENCE_S)
        assert (answer.status, answer.headers["location"], len(server.seen)) == (302, "/elsewhere", 1)


def test_a_server_that_does_not_answer_is_a_timeout(reach):
    def script(server, connection):
        while connection.recv(65536):
            pass

    with raw(script) as server:
        reach(server, timeout_s=0.2)
        with pytest.raises(TimeoutError, match="did not answer"):
            fetch(f"http://127.0.0.1:{server.port}/", timeout_s=0.2)


@pytest.mark.parametrize("said", [b"", b"nonsense\r\n\r\n"])
def test_a_server_that_breaks_off_is_a_connection_error(reach, said):
    def script(server, connection):
        connection.recv(65536)
        connection.sendall(said)

    with raw(script) as server:
        reach(server)
        with pytest.raises(ConnectionError, match="fetch: "):
            fetch(f"http://127.0.0.1:{server.port}/", timeout_s=PATIENCE_S)


def test_nobody_listens_is_a_connection_error(reach):
    class Gone:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]

    reach(Gone)
    with pytest.raises(ConnectionError):
        fetch(f"http://127.0.0.1:{Gone.port}/", timeout_s=PATIENCE_S)


def test_a_host_that_the_policy_does_not_name_is_not_permitted(monkeypatch):
    with proxied("other.example:443") as proxy:
        monkeypatch.setenv("PADDOCK_PROXY", f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(NotPermitted, match="the permission hosts does not name api.example:443"):
            fetch("https://api.example/", timeout_s=PATIENCE_S)


def test_a_server_can_not_feign_a_refusal(monkeypatch):
    with web(lambda *_: {"status": 403, "headers": [("Paddock-Proxy", "refused")]}) as server:
        assert fetch(f"http://127.0.0.1:{server.port}/", timeout_s=PATIENCE_S).status == 403
        with proxied(f"127.0.0.1:{server.port}") as proxy:
            monkeypatch.setenv("PADDOCK_PROXY", f"http://127.0.0.1:{proxy.port}")
            assert fetch(f"http://127.0.0.1:{server.port}/", timeout_s=PATIENCE_S).status == 403


def test_https_inside_can_be_recorded_and_needs_no_network_later(tmp_path, monkeypatch):
    from paddock.sandbox.cassette import RecordedAnswer

    with Cassette(tmp_path / "tape", "record") as tape:
        tape.add("GET", "https://api.example/", [], b"", answer=RecordedAnswer(200, "OK", (), b"hello"))
    with Cassette(tmp_path / "tape", "replay") as tape, proxied("api.example:443", cassette=tape) as proxy:
        monkeypatch.setenv("PADDOCK_PROXY", f"http://127.0.0.1:{proxy.port}")
        assert fetch("https://api.example", timeout_s=PATIENCE_S).body == b"hello"
        with pytest.raises(ConnectionError, match="not on the cassette"):
            fetch("https://api.example/more", timeout_s=PATIENCE_S)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a/",
        "/etc/passwd",
        "file:///etc/passwd",
        "http://",
        "http://a/ b",
        "http://a/\r\nX: y",
        "http://u:p@a/",
        "http://é/",
    ],
)
def test_what_is_no_url_is_a_value_error(url):
    with pytest.raises(ValueError, match="expected http://host/path"):
        fetch(url)


def test_a_header_with_a_line_end_is_a_value_error(reach):
    with web() as server:
        reach(server)
        with pytest.raises(ValueError):
            fetch(f"http://127.0.0.1:{server.port}/", headers={"X": "a\r\nY: b"})
        assert server.seen == []
