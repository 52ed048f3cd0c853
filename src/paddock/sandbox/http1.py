"""HTTP/1 for the proxy of a sandbox and for the server, read strictly, from both sides.

Two readers of the same bytes that disagree about where a message ends let one peer's request be taken for another's. So
what could be read in two ways is refused, and nothing after it is read.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    import ssl  # it takes longer to import than all of this

HEAD_BYTES = 64 * 1024
_HEADERS = 100
_CHUNK_LINE = 512
_CHUNK_BYTES = 256  # that a chunk counts as at least: a body of tiny ones would take seconds to read
_PIECE = 64 * 1024
_INTERIM = 8  # answers 1xx before the answer

_T = TypeVar("_T")
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


class Reader(asyncio.StreamReader):
    """Gives all that came before the connection broke; then ``broke`` tells this end from an ordinary one."""

    broke = False

    def __init__(self) -> None:
        super().__init__(limit=HEAD_BYTES)

    def set_exception(self, exc: Exception) -> None:
        self.broke = True
        self.feed_eof()


class Stream:
    """A connection whose reads and writes end by ``deadline``. ``whom`` names the far side; "" is the one that asks."""

    def __init__(
        self, reader: Reader, writer: asyncio.StreamWriter, deadline: float | None = None, whom: str = ""
    ) -> None:
        self.reader, self.writer, self.deadline, self.whom = reader, writer, deadline, whom
        self.began = False  # whether something was written: then it is too late for another answer

    @classmethod
    async def dial(
        cls, connect: Callable[..., Awaitable[Any]], whom: str = "", deadline: float | None = None
    ) -> Stream:
        """Connect by ``connect``: a method of the event loop, with all its arguments but the protocol's factory."""
        loop, reader = asyncio.get_running_loop(), Reader()
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await connect(lambda: protocol)
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop), deadline, whom)

    @classmethod
    async def to(
        cls, host: str, port: int, *, unix: str | None = None, context: ssl.SSLContext | None = None, whom: str
    ) -> Stream:
        """Connect to a server: by a unix socket if it has one, with TLS if there is a context."""
        loop = asyncio.get_running_loop()
        if unix is not None:
            return await cls.dial(partial(loop.create_unix_connection, path=unix), whom)
        name = None if context is None else host
        connect = partial(loop.create_connection, host=host, port=port, ssl=context, server_hostname=name)
        return await cls.dial(connect, whom)

    async def _within(self, work: Awaitable[_T]) -> _T:
        try:
            if self.deadline is None:
                return await work
            # The whole exchange has one deadline: a byte now and then does not keep it alive.
            return await asyncio.wait_for(work, self.deadline - time.monotonic())
        except asyncio.TimeoutError:
            if self.whom:
                raise Refused(504, f"{self.whom} did not answer in time.", "timeout") from None
            raise Refused(408, "The request did not arrive in time.", "timeout") from None
        except (OSError, EOFError, RuntimeError):  # RuntimeError: uvloop can't go on reading what it has closed
            raise self.broken_error() from None

    def broken_error(self) -> Refused:
        if self.whom:
            return Refused(502, f"The connection to {self.whom} broke.", "unreachable")
        return Refused(400, "The request ended too soon.")

    def too_large_error(self, limit: int) -> Refused:
        if self.whom:
            text = f"The answer of {self.whom} is longer than the {limit} bytes that may pass."
            return Refused(502, text, "too large")
        return Refused(413, f"The body is longer than the {limit} bytes that may pass.", "too large")

    async def send(self, data: bytes) -> None:
        self.began = True
        self.writer.write(data)
        await self._within(self.writer.drain())

    async def receive(self, most: int = _PIECE) -> bytes:
        """Some bytes as soon as there are any; b"" at the end."""
        return await self._within(self.reader.read(most))

    async def line(self, too_long: int = 431) -> bytes:
        """The next line, without its end; refused with the status ``too_long`` if it is."""
        try:
            line = await self._within(self.reader.readuntil(b"\n"))
        except asyncio.LimitOverrunError:
            raise Refused(too_long, f"A line is longer than {HEAD_BYTES} bytes.") from None
        if not line.endswith(b"\r\n"):
            raise Refused(400, "A line does not end with CR LF.")
        return line[:-2]

    async def head(self, begins: Callable[[], object] = lambda: None) -> list[bytes] | None:
        """The lines before the first empty one; None if the other side closed without sending anything.

        ``begins`` is called when the first byte has come.
        """
        first = await self.receive(1)
        if not first:
            return None
        begins()
        lines = [first + await self.line(too_long=414)]
        size = len(lines[0])
        while line := await self.line():
            lines.append(line)
            size += len(line)
            if size > HEAD_BYTES or len(lines) > _HEADERS + 1:
                raise Refused(431, f"There are more than {_HEADERS} headers, or more than {HEAD_BYTES} bytes of them.")
        return lines

    async def answer(self, method: str) -> Answer:
        """The head of the answer to a request by ``method``; a few that only say to wait are skipped."""
        for _ in range(_INTERIM):
            if (lines := await self.head()) is None:
                raise self.broken_error()
            answer = parse_answer(lines, method)
            if answer.status >= 200 or answer.status == 101:
                return answer
        raise Refused(502, f"{self.whom} sent no final answer.", "unreachable")

    async def exchange(self, head: bytes, body: bytes, method: str, limit: int) -> tuple[Answer, bytes]:
        """Send a request and return the answer to it, with a body of at most ``limit`` bytes."""
        await self.send(head + body)
        answer = await self.answer(method)
        return answer, b"".join([piece async for piece in self.body(answer.length, limit)])

    async def body(self, length: Length, limit: int) -> AsyncIterator[bytes]:
        """The pieces of a body as they come: exactly ``length``, at most ``limit`` bytes, or Refused."""
        left = limit
        if length == "until close":
            while piece := await self.receive():
                left -= len(piece)
                if left < 0:
                    raise self.too_large_error(limit)
                yield piece
            if self.reader.broke:
                raise self.broken_error()
            return
        size = await self._chunk_size() if length == "chunked" else length
        while size:
            left -= max(size, _CHUNK_BYTES) if length == "chunked" else size
            if left < 0:
                raise self.too_large_error(limit)
            while size:
                piece = await self.receive(min(size, _PIECE))
                if not piece:
                    raise self.broken_error()
                size -= len(piece)
                yield piece
            if length == "chunked":
                if await self.line():
                    raise Refused(400, "A chunk is longer than it says.")
                size = await self._chunk_size()

    async def _chunk_size(self) -> int:
        """The size of the next chunk; 0 once the last one and the trailers were read."""
        line = await self.line(too_long=413)
        match = _CHUNK.fullmatch(line)
        if match is None:
            raise Refused(400, "A chunk's size is malformed.")
        if len(line) > _CHUNK_LINE:
            raise Refused(413, f"The line with a chunk's size is longer than {_CHUNK_LINE} bytes.", "too large")
        size = int(match["size"], 16)
        if not size:
            for _ in range(_HEADERS):
                if not await self.line():
                    return 0
            raise Refused(431, "There are too many trailers.")
        return size

    async def write_body(self, pieces: AsyncIterator[bytes], length: Length) -> None:
        """Send a body with framing of our own: that of the other connection does not pass."""
        async for piece in pieces:
            await self.send(b"%x\r\n%b\r\n" % (len(piece), piece) if length == "chunked" else piece)
        if length == "chunked":
            await self.send(b"0\r\n\r\n")


def parse_request_head(lines: Sequence[bytes]) -> tuple[str, str, int, Headers, Length]:
    """Method, target, minor version, headers and the body's length of a request; Refused if it is malformed."""
    line = _REQUEST_LINE.fullmatch(lines[0])
    if line is None:
        raise Refused(400, "The first line is not a request line of HTTP/1.0 or 1.1.")
    headers, minor = _headers(lines[1:]), int(line["minor"])
    if len(values(headers, "host")) > 1:
        raise Refused(400, "There is more than one Host.")
    return line["method"].decode(), line["target"].decode(), minor, headers, _length(headers, minor)


def parse_request(lines: Sequence[bytes]) -> Request:
    """Parse the head of a request to a proxy; Refused if it is malformed."""
    method, target, minor, headers, length = parse_request_head(lines)
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


def parse_answer(lines: Sequence[bytes], method: str) -> Answer:
    """Parse the head of the answer to a request by ``method``; Refused if it is malformed."""
    line = _STATUS_LINE.fullmatch(lines[0])
    if line is None:
        raise Refused(502, "The answer's first line is not a status line of HTTP/1.", "unreachable")
    headers, status = _headers(lines[1:]), int(line["status"])
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


def framing(length: Length) -> Headers:
    """The header that says how long a body is."""
    if length == "chunked":
        return (("Transfer-Encoding", "chunked"),)
    return (("Content-Length", str(length)),) if isinstance(length, int) else ()


def head_bytes(first: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """A head for the wire, with the empty line that ends it. All parts have passed the patterns above."""
    return "\r\n".join([first, *(f"{name}: {value}" for name, value in headers), "", ""]).encode("latin-1")


def _headers(lines: Sequence[bytes]) -> Headers:
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


def _host(text: str) -> str:
    return text.lower().removesuffix(".").strip("[]")


def _port(text: str | None, default: int) -> int:
    port = default if text is None else int(text)
    if not 0 < port < 65536:
        raise Refused(400, "The port is not between 1 and 65535.")
    return port
