"""Whatever comes from inside, at most one request goes out for it, whole or cut, and the proxy lives."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.sandbox.http1 import Refused, parse_answer, parse_request
from tests.sandbox.web import PATIENCE_S, keep_all, proxied, raw, say, status

HEADER_LINES = [
    b"Content-Length: 5",
    b"Content-Length: 0",
    b"Content-Length: 5, 5",
    b"Content-Length : 5",
    b"content-length:5",
    b"Content-Length: 0x5",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: Chunked",
    b"Transfer-Encoding:\tchunked",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: identity",
    b" Transfer-Encoding: chunked",
    b"Transfer-Encoding\n: chunked",
    b"X: a\r",
    b"X: a\nTransfer-Encoding: chunked",
    b"Connection: close, Content-Length, Transfer-Encoding",
    b"Expect: 100-continue",
    b"Host: evil.example",
    b"",
]
BODIES = [
    b"hello",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
    b"0\r\n\r\n",
    b"5\r\nhello0\r\n\r\n",
    b"05\r\nhello\r\n00\r\n\r\n",
    b"5 \r\nhello\r\n0\r\n\r\n",
    b"-5\r\nhello\r\n0\r\n\r\n",
    b"GET http://HERE/smuggled HTTP/1.1\r\nHost: HERE\r\n\r\n",
    b"GET /smuggled HTTP/1.1\r\nHost: HERE\r\n\r\n",
    b"",
]
FIRST_LINES = [
    b"GET http://HERE/ HTTP/1.1",
    b"POST http://HERE/a HTTP/1.1",
    b"POST http://HERE/a HTTP/1.0",
    b"GET http://HERE/a HTTP/1.1 HTTP/1.1",
    b"GET http://HERE/a\rb HTTP/1.1",
    b"HEAD http://HERE HTTP/1.1",
]
ENDS = [b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"\r\n\r\n"]

requests = st.tuples(
    st.sampled_from(FIRST_LINES),
    st.lists(st.sampled_from(HEADER_LINES), max_size=4),
    st.lists(st.sampled_from(ENDS), min_size=6, max_size=6),
    st.lists(st.sampled_from(BODIES) | st.binary(max_size=20), max_size=3),
)


def as_bytes(request):
    first, headers, ends, bodies = request
    lines = [first, *headers, b""]
    return b"".join(line + end for line, end in zip(lines, ends, strict=False)) + b"".join(bodies)


def left_over(data):
    """What follows one request in the bytes that a server got, by a reading that shares nothing with the proxy's."""
    head, _, rest = data.partition(b"\r\n\r\n")
    lengths = re.findall(rb"(?im)^content-length: (\d+)\r?$", head)
    chunked = re.findall(rb"(?im)^transfer-encoding: chunked\r?$", head)
    assert len(lengths) + len(chunked) <= 1 and b"\n" not in head.replace(b"\r\n", b"")
    assert len(re.findall(rb"(?i)content-length|transfer-encoding", head)) <= 1
    if lengths:
        return rest[int(lengths[0]) :]
    while chunked and rest:
        line, _, rest = rest.partition(b"\r\n")
        size = int(line, 16)
        rest = rest[size + 2 :]
        if not size:
            break
    return rest


@pytest.fixture(scope="module")
def world():
    with raw(keep_all) as server, proxied(f"127.0.0.1:{server.port}") as proxy:
        yield server, proxy


@given(request=requests)
@settings(max_examples=200)
def test_at_most_one_request_goes_out_for_a_connection(world, request):
    server, proxy = world
    here = f"127.0.0.1:{server.port}".encode()
    server.got.clear()
    while server.done.acquire(blocking=False):  # those of requests before
        pass
    answer = say(proxy, as_bytes(request).replace(b"HERE", here), half_close=True)
    assert answer.count(b"HTTP/1.1 ") - answer.count(b"HTTP/1.1 100 ") <= 1
    # The server takes one connection after the other: when this one was answered, it has seen all before.
    assert status(say(proxy, b"GET http://HERE/last HTTP/1.1\r\n\r\n".replace(b"HERE", here))) == 200
    for _ in range(100):
        if server.got and server.got[-1].startswith(b"GET /last"):
            break
        assert server.done.acquire(timeout=PATIENCE_S)
    *sent, _last = server.got
    assert len(sent) <= 1
    for data in sent:
        assert left_over(data) == b""
        assert b"smuggled HTTP" not in data.partition(b"\r\n\r\n")[0]


@given(data=st.binary(max_size=300))
@settings(max_examples=100)
def test_any_bytes_get_at_most_one_answer(world, data):
    server, proxy = world
    answer = say(proxy, data + b"\r\n\r\n", half_close=True)
    assert status(answer) in (400, 403) and answer.count(b"HTTP/1.1 ") == 1


@given(head=st.binary(max_size=200) | requests.map(as_bytes))
def test_a_head_is_understood_or_refused_and_nothing_else(head):
    refused = []
    for parse, data in [(parse_request, head), (parse_get, head), (parse_get, b"HTTP/1.1 200 a\r\n" + head)]:
        try:
            parse(data.split(b"\r\n"))
        except Refused as refusal:
            refused.append((refusal.status, refusal.text.isprintable()))
    assert all(number >= 400 and printable for number, printable in refused)


def parse_get(lines):
    return parse_answer(lines, "GET")


@given(host=st.text(st.characters(codec="ascii"), max_size=30), path=st.text(st.characters(codec="ascii"), max_size=30))
def test_what_is_understood_is_written_back_without_blanks_or_line_ends(host, path):
    try:
        request = parse_request([f"GET http://{host}/{path} HTTP/1.1".encode()])
    except Refused:
        return
    assert re.fullmatch(r"[a-z0-9.:-]+", request.host) and re.fullmatch(r"/[\x21-\x7e]*", request.path)
    assert parse_request([f"GET {request.url} HTTP/1.1".encode()]) == request
