"""RequestReader: bytes to requests. Whatever two readers could read differently is refused."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.sandbox.http1 import HEAD_BYTES, Reader, Refused, Stream
from paddock.server.http import read_target
from paddock.server.http_connection import RequestReader

GET = b"GET /health HTTP/1.1\r\nHost: a\r\n"
POST = b"POST /step HTTP/1.1\r\nHost: a\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n"
END = b"\r\n"


def read(data, *, max_body=1000, pieces=1, **options):
    """(requests, status of the problem) for bytes that come in so many pieces, up to a request that is the last."""

    async def read_all():
        stream, found = Reader(), []
        reader = RequestReader(Stream(stream, None), max_body=max_body, **options)

        async def feed():
            size = max(1, -(-len(data) // pieces))
            for start in range(0, len(data), size):
                stream.feed_data(data[start : start + size])
                await asyncio.sleep(0)
            stream.feed_eof()

        feeding = asyncio.ensure_future(feed())
        try:
            while (request := await reader.next()) is not None:
                found.append(request)
                if not request[1]:
                    break
        except Refused as refusal:
            return found, refusal.status
        finally:
            feeding.cancel()
        return found, 0

    return asyncio.run(read_all())


FINE = {
    "plain": (GET + END, [("GET", "/health", b"", True)]),
    "close": (GET + b"Connection: close\r\n" + END, [("GET", "/health", b"", False)]),
    "1.0": (b"GET /health HTTP/1.0\r\n\r\n", [("GET", "/health", b"", False)]),
    "1.0 keep": (b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", [("GET", "/health", b"", True)]),
    "body": (POST + b"Content-Length: 3\r\n\r\nabc", [("POST", "/step", b"abc", True)]),
    "pipelined": (
        GET + END + POST + b"Content-Length: 2\r\n\r\nhi" + GET + END,
        [("GET", "/health", b"", True), ("POST", "/step", b"hi", True), ("GET", "/health", b"", True)],
    ),
    "chunked": (CHUNKED + END + b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", [("POST", "/step", b"abcde", True)]),
    "trailer": (CHUNKED + END + b"0\r\nAuthorization: late\r\n\r\n", [("POST", "/step", b"", True)]),
    "whole url": (b"GET http://b:1/x?y HTTP/1.1\r\nHost: a\r\n\r\n", [("GET", "/x", b"", True)]),
    "asterisk": (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", [("OPTIONS", "*", b"", True)]),
    "h2c is ignored": (GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", [("GET", "/health", b"", False)]),
    "exactly the limit": (POST + b"Content-Length: 1000\r\n\r\n" + bytes(1000), [("POST", "/step", bytes(1000), True)]),
}


@pytest.mark.parametrize("pieces", [1, 2, 7, 10_000])
@pytest.mark.parametrize("name", FINE)
def test_requests_are_read_however_they_are_cut(name, pieces):
    data, expected = FINE[name]
    found, problem = read(data, pieces=pieces)
    assert problem == 0
    assert [(one.method, one.path, one.body, stays) for one, stays in found] == expected


WRONG = {
    "both lengths": (CHUNKED + b"Content-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 400),
    "both lengths, other order": (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "two lengths": (POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
    "two equal lengths": (POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400),
    "list of lengths": (POST + b"Content-Length: 3, 3\r\n\r\nabc", 400),
    "signed": (POST + b"Content-Length: +3\r\n\r\nabc", 400),
    "negative": (POST + b"Content-Length: -3\r\n\r\nabc", 400),
    "hexadecimal": (POST + b"Content-Length: 0x3\r\n\r\nabc", 400),
    "huge": (POST + b"Content-Length: 99999999999999999999999\r\n\r\n", 400),
    "too long": (POST + b"Content-Length: 1001\r\n\r\n", 413),
    "too long in chunks": (CHUNKED + END + (b"1f4\r\n" + bytes(500) + b"\r\n") * 3, 413),
    "endless chunk extension": (CHUNKED + END + b"1;" + b"x" * (HEAD_BYTES + 50_000), 413),
    "gzip, chunked": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 400),
    "identity": (POST + b"Transfer-Encoding: identity\r\n\r\n", 400),
    "two codings": (CHUNKED + b"Transfer-Encoding: chunked\r\n\r\n", 400),
    "chunked in 1.0": (b"POST /step HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "bad chunk": (CHUNKED + END + b"zz\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (GET + b"Host: b\r\n\r\n", 400),
    "two tokens": (GET + b"Authorization: a\r\nAUTHORIZATION: b\r\n\r\n", 400),
    "space before the colon": (GET + b"Content-Length : 3\r\n\r\n", 400),
    "folded": (GET + b"X: a\r\n b\r\n\r\n", 400),
    "bare newline": (b"GET / HTTP/1.1\nHost: a\n\n", 400),
    "no version": (b"GET /\r\n\r\n", 400),
    "version 2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "version 0.9": (b"GET / HTTP/0.9\r\nHost: a\r\n\r\n", 400),
    "no method": (b"\x16\x03\x01\x02\x00\x01\x00", 400),
    "unknown method": (b"STEAL / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "small letters": (b"get / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "connect": (b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "file url": (b"GET file:///etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "user in url": (b"GET http://a@b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "fragment": (b"GET /#x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "no slash": (b"GET health HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "letters beyond ASCII": ("GET /é HTTP/1.1\r\nHost: a\r\n\r\n".encode(), 400),
    "body with an upgrade": (POST + b"Upgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 1\r\n\r\nx", 400),
    "another expectation": (GET + b"Expect: the-unexpected\r\n\r\n", 417),
    "long url": (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
    "endless url": (b"GET /" + b"a" * 200_000, 414),
    "many headers": (GET + b"".join(b"x%d: y\r\n" % i for i in range(101)) + END, 431),
    "long header": (GET + b"X: " + b"a" * 70_000 + b"\r\n\r\n", 431),
    "endless header": (GET + b"X: " + b"a" * 200_000, 431),
    "endless name": (GET + b"a" * 200_000, 431),
    "long trailers": (CHUNKED + END + b"0\r\n" + b"".join(b"x%d: y\r\n" % i for i in range(101)) + END, 431),
}


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("name", WRONG)
def test_what_is_ambiguous_or_too_much_is_refused(name, pieces):
    data, status = WRONG[name]
    found, problem = read(data + GET + END, pieces=pieces)  # nothing after it is read
    assert (found, problem) == ([], status)


def test_a_large_body_after_a_short_head_is_no_long_head():
    body = bytes(500_000)
    head = POST + b"Content-Length: 500000\r\n\r\n"
    (request, _), problem = read(head + body, max_body=1 << 20)[0][0], 0
    assert problem == 0 and request.body == body


def test_a_trailer_says_nothing_of_who_asks():
    (request, _), *_ = read(CHUNKED + END + b"0\r\nAuthorization: late\r\nHost: b\r\n\r\n")[0]
    assert request.headers["host"] == "a" and "authorization" not in request.headers


def test_the_requests_before_a_bad_one_are_answered():
    found, problem = read(GET + END + GET + b"Host: b\r\n\r\n")
    assert len(found) == 1 and problem == 400


def test_what_is_not_known_is_whole_without_its_body_and_the_last():
    data = POST + b"Content-Length: 900\r\n\r\n" + b"x" * 900 + GET + END
    ((request, stays),), problem = read(data, knows=lambda request: False)
    assert (request.method, request.body, request.known, stays, problem) == ("POST", b"", False, False, 0)


def test_a_host_in_the_url_counts():
    (request, _), *_ = read(b"GET http://Evil.example:80/x HTTP/1.1\r\nHost: a\r\n\r\n")[0]
    assert request.headers["host"] == "Evil.example:80"


def test_nothing_is_read_after_a_request_for_an_upgrade():
    ((_, stays),), problem = read(GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + GET + END)
    assert (stays, problem) == (False, 0)


@given(
    st.lists(st.sampled_from([*(data for data, _ in FINE.values()), *(data for data, _ in WRONG.values())]), max_size=4)
)
def test_the_reader_does_not_depend_on_how_bytes_are_cut(parts):
    data = b"".join(parts)
    whole, halves = read(data), read(data, pieces=5)
    assert [one for one, _ in whole[0]] == [one for one, _ in halves[0]]


@given(st.binary(max_size=300), st.integers(1, 20))
def test_no_bytes_crash_the_reader(data, pieces):
    for before in (b"", GET, CHUNKED + END):
        found, problem = read(before + data, pieces=pieces)
        assert problem in (0, 400, 413, 414, 417, 431)


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=60))
def test_a_target_is_printable_or_none(text):
    found = read_target(text)
    assert found is None or "".join(part or "" for part in found).isprintable()


def test_a_body_of_tiny_chunks_ends_long_before_its_limit_in_bytes():
    whole = CHUNKED + END + b"1\r\nx\r\n" * 10_000
    assert read(whole + b"0\r\n\r\n", max_body=1 << 20) == ([], 413)
