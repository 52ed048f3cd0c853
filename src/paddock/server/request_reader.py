"""RequestReader: a connection's bytes as whole requests. It knows no sockets and no time.

What a reader would get wrong: two readers of the same bytes that disagree where a request ends let one peer's request
be taken for another's. So whatever could be read in two ways is refused, and nothing after it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from paddock.errors import DependencyNotInstalled
from paddock.server.http import Bodies, Request, read_target

try:
    import httptools
except ImportError as error:
    raise DependencyNotInstalled("The server needs httptools. Run: pip install 'paddock[server]'") from error

HEAD_BYTES = 1 << 16
_URL_BYTES = 1 << 13
_HEADERS = 100
_PIECE_BYTES = 1 << 10  # parsed at a time: no more requests than that holds are read ahead
# Of these one is enough; which of two would count is what an attacker hopes for.
_ONCE = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "authorization", "origin", "sec-fetch-site", "expect"),
        *("content-type", "upgrade", "x-paddock-session"),
    }
)

Where = Literal["between", "head", "body"]


class _Refused(Exception):
    """Thrown out of the parser's callbacks, which ends its work at once."""


class RequestReader:
    """``problem`` is the status to answer with once something was wrong; ``where`` tells what is waited for.

    ``max_body`` bounds a body, ``bodies`` those of all readers. ``continues`` is true once, when a peer waits for leave
    to send its body. ``knows`` is asked about each head: the request of a peer that is not known is whole without its
    body, and the last that is read. ``unread`` came after a request that is whole; the next ``feed`` goes on with it.
    """

    def __init__(
        self,
        *,
        max_body: int,
        peer: str = "",
        knows: Callable[[Request], bool] = lambda _: True,
        bodies: Bodies | None = None,
    ) -> None:
        self._max_body, self._peer, self._knows = max_body, peer, knows
        self._bodies, self._held = bodies or Bodies(), 0
        self._last = False  # nothing is read after the request that came last
        self.unread = bytearray()
        self._parser: Any = httptools.HttpRequestParser(self)
        self._whole: list[tuple[Request, bool]] = []
        self.problem = 0
        self.continues = False
        self.where: Where = "between"
        self._begin()

    def _begin(self) -> None:
        self._url, self._body = b"", bytearray()
        self._headers: dict[str, str] = {}
        self._lines, self._head_bytes, self._bytes = 0, 0, 0
        self._request: Request | None = None

    def feed(self, data: bytes = b"") -> list[tuple[Request, bool]]:
        """The next requests that are whole, in order, each with whether the connection is to stay after it."""
        self._whole = []
        self.unread += data
        while self.unread and not (self._whole or self._last or self.problem):
            piece = bytes(self.unread[:_PIECE_BYTES])
            del self.unread[:_PIECE_BYTES]
            self._bytes += len(piece)
            try:
                self._parser.feed_data(piece)
                self._check_size()
            except httptools.HttpParserUpgrade:
                self._go_no_further()
            except (_Refused, httptools.HttpParserError):
                self.problem = self.problem or (0 if self._last else 400)
        if self._last or self.problem:
            self.unread.clear()
        return self._whole

    def release(self) -> None:
        """The bodies that were read are not needed any more."""
        self._bodies.left += self._held
        self._held = 0

    def _check_size(self) -> None:
        """What the parser keeps to itself, such as a header that does not end, is bounded too."""
        if self.where == "head" and self._bytes > HEAD_BYTES + _PIECE_BYTES:
            self._refuse(431)
        if self.where == "body" and self._bytes > 2 * self._max_body + HEAD_BYTES:
            self._refuse(413)

    def _go_no_further(self) -> None:
        """An upgrade that we do not do was asked for: that is ignored, but how the next request begins is not sure."""
        if self._whole and self._whole[-1][0].method != "CONNECT" and not self._whole[-1][0].body:
            self._whole[-1] = (self._whole[-1][0], False)
        else:
            self.problem = 400

    def _refuse(self, status: int) -> None:
        self.problem = self.problem or status
        raise _Refused

    # httptools calls these.

    def on_message_begin(self) -> None:
        self._begin()
        self.where = "head"

    def on_url(self, url: bytes) -> None:
        self._url += url
        if len(self._url) > _URL_BYTES:
            self._refuse(414)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._lines += 1
        self._head_bytes += len(name) + len(value)
        if self._lines > _HEADERS or self._head_bytes > HEAD_BYTES:
            self._refuse(431)
        if self.where == "body":
            return  # after a chunked body: too late to say who asks
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        if key in self._headers and key in _ONCE:
            self._refuse(400)
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        target = read_target(self._url)
        version, headers = self._parser.get_http_version(), self._headers
        if target is None or version not in ("1.0", "1.1") or (version == "1.1" and "host" not in headers):
            self._refuse(400)
        elif target.host is not None:
            headers["host"] = target.host
        self._check_length(version)
        expected = headers.get("expect")
        if expected is not None and expected.lower() != "100-continue":
            self._refuse(417)
        assert target is not None
        method = self._parser.get_method().decode("ascii")
        self._request = Request(method, target.path, target.query, headers, b"", self._peer)
        self._request = replace(self._request, known=self._knows(self._request))
        if not self._request.known and (self.announced or "expect" in headers):
            self._whole.append((self._request, False))
            self._last = True
            raise _Refused
        self.continues = expected is not None and version == "1.1"
        self.where = "body"

    def _check_length(self, version: str) -> None:
        length, coding = self._headers.get("content-length"), self._headers.get("transfer-encoding")
        if coding is not None and (coding.lower() != "chunked" or length is not None or version != "1.1"):
            self._refuse(400)
        if length is not None and not (length.isascii() and length.isdigit() and len(length) < 20):
            self._refuse(400)
        if int(length or 0) > self._max_body:
            self._refuse(413)
        if "upgrade" in self._headers and (coding is not None or int(length or 0)):
            self._refuse(400)

    def on_body(self, body: bytes) -> None:
        self._body += body
        self._held += len(body)
        self._bodies.left -= len(body)
        if len(self._body) > self._max_body:
            self._refuse(413)
        if self._bodies.left < 0:
            self._refuse(503)

    def on_message_complete(self) -> None:
        assert self._request is not None
        self._whole.append((replace(self._request, body=bytes(self._body)), self._parser.should_keep_alive()))
        self.where, self.continues = "between", False
        self._begin()

    @property
    def announced(self) -> int:
        """How many bytes of the body may be still to come, at most."""
        if "transfer-encoding" in self._headers:
            return self._max_body
        return int(self._headers.get("content-length", 0))
