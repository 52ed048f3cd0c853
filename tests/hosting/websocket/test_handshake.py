"""The handshake: the RFC's own example, every way to refuse, and no header that someone slipped in."""

import base64
import contextlib
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.hosting.websocket.endpoint import Endpoint, Handshake, basic, bearer
from paddock.hosting.websocket.events import UpgradeRefused

KEY = "dGhlIHNhbXBsZSBub25jZQ=="  # of RFC 6455, 1.3
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
OPEN = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": ACCEPT}


def handshake(**fields):
    return Handshake(Endpoint("example.org", 8000, "/Maze-v0/ws", **fields), key=KEY)


def response(headers=OPEN, status="101 Switching Protocols", body=b""):
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def test_request_has_what_the_rfc_asks_for():
    lines = handshake(subprotocols=("paddock.v1",), authorization=bearer("secret")).request.decode().split("\r\n")
    assert lines == [
        "GET /Maze-v0/ws HTTP/1.1",
        "Host: example.org:8000",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {KEY}",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Protocol: paddock.v1",
        "Authorization: Bearer secret",
        "",
        "",
    ]


def test_key_is_sixteen_fresh_random_bytes():
    keys = {Handshake(Endpoint("h", 1)).request.split(b"Key: ")[1][:24] for _ in range(50)}
    assert len(keys) == 50 and all(len(base64.b64decode(key)) == 16 for key in keys)


@pytest.mark.parametrize(
    ("endpoint", "host"),
    [
        (Endpoint("h", 80), "h"),
        (Endpoint("h", 443, secure=True), "h"),
        (Endpoint("h", 443), "h:443"),
        (Endpoint("::1", 9), "[::1]:9"),
        (Endpoint("localhost", 80, unix="/x"), "localhost"),
    ],
)
def test_host_is_named_as_http_wants_it(endpoint, host):
    assert endpoint.host_header == host


def test_basic_is_user_and_password():
    assert basic("Aladdin", "open sesame") == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="  # of RFC 7617


@given(st.lists(st.integers(0, 300), max_size=6).map(sorted))
def test_response_opens_however_it_is_cut_and_what_follows_is_kept(places):
    data = response({**OPEN, "Sec-WebSocket-Protocol": "b"}) + b"\x82\x01x"
    shake = handshake(subprotocols=("a", "b"))
    opened = [shake.feed(data[a:b]) for a, b in zip([0, *places], [*places, len(data)], strict=True) if data[a:b]]
    assert (opened[-1], shake.subprotocol, shake.rest) == (True, "b", b"\x82\x01x")


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({**OPEN, "Sec-WebSocket-Accept": base64.b64encode(hashlib.sha1(b"x").digest()).decode()}, "Accept"),
        ({"Upgrade": "websocket", "Connection": "Upgrade"}, "Accept"),
        ({**OPEN, "Upgrade": "h2c"}, "switch"),
        ({**OPEN, "Connection": "keep-alive"}, "switch"),
        ({**OPEN, "Sec-WebSocket-Protocol": "other"}, "not offered"),
        ({**OPEN, "Sec-WebSocket-Extensions": "permessage-deflate"}, "extension"),
        ({**OPEN, "bad name": "x"}, "malformed"),
    ],
)
def test_wrong_response_is_refused_and_says_why(headers, why):
    with pytest.raises(UpgradeRefused, match=why):
        handshake(subprotocols=("paddock.v1",)).feed(response(headers))


def test_connection_header_may_have_other_words():
    assert handshake().feed(response({**OPEN, "Connection": "keep-alive, upgrade"}))


def test_status_and_body_of_a_refusal_are_in_the_error():
    shake = handshake()
    body = b'{"code":"CAPACITY_REACHED"}'
    assert not shake.feed(response({"Content-Length": len(body), "Retry-After": "7"}, "503 Full", body[:5]))
    with pytest.raises(UpgradeRefused, match="503") as caught:
        shake.feed(body[5:])
    assert (caught.value.status, caught.value.body, caught.value.retry_after_s) == (503, body, 7.0)


def test_refusal_that_was_cut_off_still_counts():
    shake = handshake()
    assert not shake.feed(response({"Content-Length": "10"}, "401 No", b"abc"))
    with pytest.raises(UpgradeRefused) as refusal:
        shake.eof()
    assert refusal.value.status == 401
    handshake().eof()


def test_redirect_is_not_followed():
    with pytest.raises(UpgradeRefused, match="redirects are not followed") as caught:
        handshake().feed(response({"Location": "http://169.254.169.254/", "Content-Length": "0"}, "307 There"))
    assert "169.254" not in str(caught.value)


@pytest.mark.parametrize("data", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.0 101 x\r\n\r\n", b"HTTP/1.1 1 x\r\n\r\n", b"x"])
def test_what_is_no_http_is_refused_at_once(data):
    with pytest.raises(UpgradeRefused, match="is not HTTP"):
        handshake().feed(data)


def test_endless_headers_are_refused():
    with pytest.raises(UpgradeRefused, match="more than"):
        handshake().feed(b"HTTP/1.1 101 x\r\n" + b"a: b\r\n" * 5000)


@pytest.mark.parametrize("token", ["a\r\nX: y", "a\nb", "ä", "a\x00"])
def test_token_with_a_line_break_makes_no_header_and_is_not_shown(token):
    with pytest.raises(UpgradeRefused) as caught:
        _ = handshake(authorization=bearer(token)).request
    assert token not in str(caught.value)


def test_token_is_not_in_the_endpoints_repr():
    assert "secret" not in repr(Endpoint("h", 1, authorization=bearer("secret")))


@given(st.binary(max_size=300))
def test_any_response_opens_waits_or_is_refused(data):
    for sent in (data, b"HTTP/1.1 101 Switching Protocols\r\n" + data + b"\r\n\r\n"):
        with contextlib.suppress(UpgradeRefused):
            handshake().feed(sent)
