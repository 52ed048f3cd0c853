"""Read HTTP/1 strictly, from both sides. What two parsers could read in two ways is refused, so nothing hides in it."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

HEAD_BYTES = 64 * 1024
_HEADERS = 200
_TRAILER_LINES = 64
_CHUNK_LINE = 512
_PIECE = 64 * 1024

Headers = tuple[tuple[str, str], ...]
# Bytes of a body; None: there is none. "until close" is for answers alone.
Length = int | Literal["chunked", "until close"] | None

_REQUEST_LINE = re.compile(rb"(?P<method>[A-Z]{1,16}) (?P<target>[\x21-\x7e]+) HTTP/1\.(?P<minor>[01])")
_STATUS_LINE = re.compile(
    rb"HTTP/1\.(?P<minor>[01]) (?P<status>[1-5][0-9][0-9])(?: (?P<reason>[\t\x20-\x7e\x80-\xff]*))?"
)
_HEADER = re.compile(rb"(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+):(?P<value>[\t\x20-\x7e\x80-\xff]*)")
_AUTHORITY = (
    r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?\.?|\[[0-9A-Fa-f:.]{2,45}\])"
    r"(?::(?P<port>[1-9][0-9]{0,4}))?"
)
_CONNECT = re.compile(_AUTHORITY)
_ABSOLUTE = re.compile(rf"(?P<scheme>https?)://{_AUTHORITY}(?P<path>[/?][^#]*)?", re.IGNORECASE)
_DIGITS = re.compile(r"[0-9]{1,15}")
_CHUNK = re.compile(rb"(?P<size>[0-9A-Fa-f]{1,8})[ \t]*(?:;[\t\x20-\x7e]*)?")
_PORTS = {"http": 80, "https": 443}

# Of one connection, not of the message: these never pass. Those that begin with "proxy-" do not either.
_HOP_BY_HOP = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings", "expect"}
# Written by the proxy itself, from what it understood.
_FRAMING = {"content-length", "host", "paddock-proxy"}


class Refused(Exception):
    """Why there is no answer: a status, a text that reveals nothing but the request, and a word for the log."""

    def __init__(self, status: int, text: str, verdict: str = "malformed") -> None:
        super().__init__(text)
        self.status, self.text, self.verdict = status, text, verdict


@dataclass(frozen=True)
class Request:
    """What was asked. ``scheme`` is "" for CONNECT; ``host`` is lower case, an IPv6 address without its brackets."""

    method: str
    scheme: str
    host: str
    port: int
    path: str
    headers: Headers
    minor: int
    length: Length

    @property
    def authority(self) -> str:
        return f"{self._host_in_url}:{self.port}"

    @property
    def host_header(self) -> str:
        return self._host_in_url if self.port == _PORTS.get(self.scheme) else self.authority

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host_header}{self.path}"

    @property
    def _host_in_url(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


@dataclass(frozen=True)
class Answer:
    """Status line and headers of an answer, without those of the connection that it came by."""

    status: int
    reason: str
    headers: Headers
    length: Length = None


class Stream:
    """A connection whose reads and writes end by ``deadline``. ``whom`` names the far side; "" is the one that asks."""

    def __init__(self, sock: socket.socket, deadline: float, whom: str = "") -> None:
        self.sock, self.deadline, self.whom = sock, deadline, whom
        self.began = False  # whether something was written: then it is too late for another answer
        self._buffer = bytearray()

    def late(self) -> Refused:
        if self.whom:
            return Refused(504, f"{self.whom} did not answer in time.", "timeout")
        return Refused(408, "The request did not arrive in time.", "timeout")

    def broken_error(self) -> Refused:
        if self.whom:
            return Refused(502, f"The connection to {self.whom} broke.", "unreachable")
        return Refused(400, "The request ended too soon.")

    def send(self, data: bytes) -> None:
        self.began = True
        self._arm()
        try:
            self.sock.sendall(data)
        except TimeoutError:
            raise self.late() from None
        except OSError:
            raise self.broken_error() from None

    def receive(self, most: int = _PIECE) -> bytes:
        """Some bytes as soon as there are any; b"" at the end."""
        if self._buffer:
            piece = bytes(self._buffer[:most])
            del self._buffer[:most]
            return piece
        return self._more(most)

    def head(self) -> bytes | None:
        """What comes before the first empty line; None if the other side closed without sending anything."""
        data = self._until(b"\r\n\r\n", HEAD_BYTES)
        if data is None and self._buffer:
            raise self.broken_error()
        return data

    def line(self, most: int) -> bytes:
        data = self._until(b"\r\n", most)
        if data is None:
            raise self.broken_error()
        return data

    def early(self) -> bytes:
        """What was read past the head."""
        data = bytes(self._buffer)
        self._buffer.clear()
        return data

    def _until(self, mark: bytes, most: int) -> bytes | None:
        searched = 0
        while True:
            end = self._buffer.find(mark, searched)
            if end > most or (end < 0 and len(self._buffer) > most + len(mark)):
                if self.whom:
                    raise Refused(502, f"The head of {self.whom}'s answer is too long.", "unreachable")
                raise Refused(431, f"The head of the request is too long: more than {HEAD_BYTES} bytes.")
            if end >= 0:
                data = bytes(self._buffer[:end])
                del self._buffer[: end + len(mark)]
                return data
            searched = max(0, len(self._buffer) - len(mark) + 1)
            more = self._more(_PIECE)
            if not more:
                return None
            self._buffer += more

    def _more(self, most: int) -> bytes:
        self._arm()
        try:
            return self.sock.recv(most)
        except TimeoutError:
            raise self.late() from None
        except OSError:
            raise self.broken_error() from None

    def _arm(self) -> None:
        # The whole exchange has one deadline: a byte now and then does not keep it alive.
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise self.late()
        self.sock.settimeout(left)


def parse_request(head: bytes) -> Request:
    """Parse the head of a request; Refused if it is malformed."""
    first, *rest = head.split(b"\r\n")
    line = _REQUEST_LINE.fullmatch(first)
    if line is None:
        raise Refused(400, "The first line is not a request line of HTTP/1.0 or 1.1.")
    method, target, minor = line["method"].decode(), line["target"].decode(), int(line["minor"])
    headers = _headers(rest)
    if len(values(headers, "host")) > 1:
        raise Refused(400, "There is more than one Host.")
    length = _length(headers, minor)
    if method == "CONNECT":
        match = _CONNECT.fullmatch(target)
        if match is None or match["port"] is None or length:
            raise Refused(400, "CONNECT needs host:port, and has no body.")
        return Request(method, "", _host(match["host"]), _port(match["port"], 0), "", headers, minor, None)
    match = _ABSOLUTE.fullmatch(target)
    if match is None or method == "TRACE":
        raise Refused(400, "Ask a proxy for a whole URL, as GET http://host/path, without user, password or '#'.")
    scheme = match["scheme"].lower()
    path = match["path"] or "/"
    path = path if path.startswith("/") else "/" + path
    port = _port(match["port"], _PORTS[scheme])
    return Request(method, scheme, _host(match["host"]), port, path, headers, minor, length)


def parse_answer(head: bytes, method: str) -> Answer:
    """Parse the head of the answer to a request by ``method``; Refused if it is malformed."""
    first, *rest = head.split(b"\r\n")
    line = _STATUS_LINE.fullmatch(first)
    if line is None:
        raise Refused(502, "The answer's first line is not a status line of HTTP/1.", "unreachable")
    headers, status = _headers(rest), int(line["status"])
    length: Length
    if method == "HEAD" or status < 200 or status in (204, 304):
        length = None
    else:
        length = _length(headers, int(line["minor"]))
        length = "until close" if length is None else length
    passed = end_to_end(headers)
    if method == "HEAD":  # here it says how long the body would be
        lengths = [value for value in values(headers, "content-length") if _DIGITS.fullmatch(value)]
        passed += tuple(("Content-Length", value) for value in lengths[:1])
    reason = (line["reason"] or b"").decode("latin-1")
    return Answer(status, reason if reason.isascii() else "", passed, length)


def values(headers: Headers, name: str) -> list[str]:
    """Those of the header ``name``, given in lower case."""
    return [value for other, value in headers if other.lower() == name]


def end_to_end(headers: Headers) -> Headers:
    """The headers that belong to the message and not to the connection."""
    named = {one.strip().lower() for value in values(headers, "connection") for one in value.split(",")}
    dropped = _HOP_BY_HOP | _FRAMING | named
    return tuple(one for one in headers if one[0].lower() not in dropped and not one[0].lower().startswith("proxy-"))


def body(stream: Stream, length: Length, limit: int) -> Iterator[bytes]:
    """The pieces of a body as they come: exactly ``length``, at most ``limit`` bytes, or Refused."""
    if isinstance(length, int):
        if length > limit:
            raise _too_large(stream, limit)
        yield from _exactly(stream, length)
    elif length is not None:
        left = limit
        for piece in _chunks(stream, limit) if length == "chunked" else iter(stream.receive, b""):
            left -= len(piece)
            if left < 0:
                raise _too_large(stream, limit)
            yield piece


def write_body(stream: Stream, pieces: Iterable[bytes], length: Length) -> None:
    """Send a body with framing of our own: that of the other connection does not pass."""
    for piece in pieces:
        stream.send(b"%x\r\n%b\r\n" % (len(piece), piece) if length == "chunked" else piece)
    if length == "chunked":
        stream.send(b"0\r\n\r\n")


def framing(length: Length) -> Headers:
    """The header that says how long a body is."""
    if length == "chunked":
        return (("Transfer-Encoding", "chunked"),)
    return (("Content-Length", str(length)),) if isinstance(length, int) else ()


def head_bytes(first: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """A head for the wire, with the empty line that ends it. All parts have passed the patterns above."""
    return "\r\n".join([first, *(f"{name}: {value}" for name, value in headers), "", ""]).encode("latin-1")


def _headers(lines: list[bytes]) -> Headers:
    if len(lines) > _HEADERS:
        raise Refused(431, f"There are more than {_HEADERS} headers.")
    headers = []
    for line in lines:
        # Folded lines, blanks before the colon, bare CR or LF, NUL: all fail to match.
        match = _HEADER.fullmatch(line)
        if match is None:
            raise Refused(400, "A header is malformed.")
        headers.append((match["name"].decode(), match["value"].strip(b" \t").decode("latin-1")))
    return tuple(headers)


def _length(headers: Headers, minor: int) -> Length:
    lengths, codings = values(headers, "content-length"), values(headers, "transfer-encoding")
    if codings:
        if lengths or len(codings) > 1 or codings[0].lower() != "chunked" or minor == 0:
            raise Refused(400, "The length of the body is given in more than one way, or in an unknown one.")
        return "chunked"
    if not lengths:
        return None
    if len(lengths) > 1 or not _DIGITS.fullmatch(lengths[0]):
        raise Refused(400, "Content-Length is not one whole number.")
    return int(lengths[0])


def _chunks(stream: Stream, limit: int) -> Iterator[bytes]:
    while True:
        match = _CHUNK.fullmatch(stream.line(_CHUNK_LINE))
        if match is None:
            raise Refused(400, "A chunk's size is malformed.")
        size = int(match["size"], 16)
        if size > limit:
            raise _too_large(stream, limit)
        if not size:
            break
        yield from _exactly(stream, size)
        if stream.line(0) != b"":
            raise Refused(400, "A chunk is longer than it says.")
    for _ in range(_TRAILER_LINES):
        if not stream.line(HEAD_BYTES // _TRAILER_LINES):
            return
    raise Refused(400, "There are too many trailers.")


def _exactly(stream: Stream, count: int) -> Iterator[bytes]:
    while count:
        piece = stream.receive(min(count, _PIECE))
        if not piece:
            raise stream.broken_error()
        count -= len(piece)
        yield piece


def _too_large(stream: Stream, limit: int) -> Refused:
    if stream.whom:
        return Refused(502, f"The answer of {stream.whom} is longer than the {limit} bytes that may pass.", "too large")
    return Refused(413, f"The body is longer than the {limit} bytes that may pass.", "too large")


def _host(text: str) -> str:
    return text.lower().removesuffix(".").strip("[]")


def _port(text: str | None, default: int) -> int:
    port = default if text is None else int(text)
    if not 0 < port < 65536:
        raise Refused(400, "The port is not between 1 and 65535.")
    return port
