"""HTTP connections: read requests, answer them one at a time, drop peers that are slow, too long or malformed.

Two readers of the same bytes that disagree about where a request ends let one peer's request
be taken for another's. So anything that could be read in two ways is refused, and nothing after it is read.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from paddock.errors import DependencyNotInstalled
from paddock.server.auth import network_of
from paddock.server.http import BodyBudget, Request, Response, read_target

if TYPE_CHECKING:
    from paddock.server.http_api import HttpApi

try:
    import httptools
except ImportError as error:
    raise DependencyNotInstalled(
        "The server needs httptools. Run: pip install 'picows<2.4' uvloop httptools"
    ) from error

HEAD_S = 10.0  # from the first byte of a head to its end
_BODY_S, _BODY_BYTES_PER_S = 30.0, 1 << 16  # for a whole body: this time, plus its size at this speed
_IDLE_S = 75.0  # between requests
_WRITE_S = 30.0  # for a peer that reads slower than we answer
_TOO_OFTEN_S = 0.05  # before a 429, so that a client that keeps asking is slowed down
STALLED_S = 30.0  # for a peer, of a websocket too, that takes nothing of what is sent to it
_LINGER_S = 2.0  # after a refusal, for bytes that are still on their way: closing at once would cut off the answer
HEAD_BYTES = 1 << 16
_URL_BYTES = 1 << 13
_HEADERS = 100
_PIECE_BYTES = 1 << 10  # parsed at a time: no more requests than it holds are read ahead
# Allowed once: an attacker hopes that two readers pick different ones of two.
_ONCE = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "authorization", "origin", "sec-fetch-site", "expect"),
        *("content-type", "upgrade", "x-paddock-session"),
    }
)

Where = Literal["between", "head", "body"]


_answering: set[asyncio.Task[None]] = set()  # kept here: a task whose peer has left might be all that refers to itself


class HttpConnection(asyncio.Protocol):
    """Answers requests with ``handler``, in order; a body may have ``max_body`` bytes.

    ``caller`` learns when a known peer keeps it busy, and when it is gone. One request is answered per turn of the
    loop, however many came together. A peer without a valid token is dropped with its first refusal.
    """

    def __init__(self, handler: HttpApi, *, max_body: int, peer: str, caller: Caller) -> None:
        self._handler, self._caller = handler, caller
        self._loop = asyncio.get_running_loop()
        self._reader = RequestReader(
            max_body=max_body, peer=peer, relayed=caller.relayed, knows=handler.knows, bodies=handler.bodies
        )
        self._due: deque[tuple[Request, bool]] = deque()
        self._where: Where = "between"
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._closing = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        sock = transport.get_extra_info("socket")
        if getattr(sock, "family", None) in (socket.AF_INET, socket.AF_INET6) and hasattr(socket, "TCP_USER_TIMEOUT"):
            # The kernel ends it: it alone sees whether the peer takes bytes that were sent already.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(STALLED_S * 1000))
        self._allow(_IDLE_S)

    def connection_lost(self, error: Exception | None) -> None:
        # A request in progress goes on: it may be a step, which can't be undone. Nobody gets the answer.
        self._closing = True
        self._due.clear()
        self._writable.set()
        self._allow(None)
        if self._task is None:
            self._reader.release()
        self._caller.gone()

    def pause_writing(self) -> None:
        self._writable.clear()
        self._allow(_WRITE_S)

    def resume_writing(self) -> None:
        self._writable.set()
        self._allow(None)

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if self._task is not None:  # the next request waits, and so does its sender
            self._reader.unread += data
            self._pause()
            return
        self._due.extend(self._reader.feed(data))
        if self._reader.continues and not self._reader.problem:
            self._reader.continues = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self._due:
            self._allow(None)
            self._task = self._loop.create_task(self._respond())
            _answering.add(self._task)
            self._task.add_done_callback(_answering.discard)
        elif self._reader.problem:
            self._refuse()
        else:
            self._wait()

    def _wait(self) -> None:
        """Give each part of a request its own time limit, which slow bytes do not extend."""
        where = self._reader.where
        if where != self._where or self._timer is None:
            self._where = where
            body_s = _BODY_S + self._reader.announced_bytes / _BODY_BYTES_PER_S
            self._allow({"between": _IDLE_S, "head": HEAD_S, "body": body_s}[where])

    async def _respond(self) -> None:
        try:
            while self._due:
                request, stays = self._due.popleft()
                if request.known:
                    self._caller.busy(True)
                response = await self._handler.handle(request)
                await asyncio.sleep(_TOO_OFTEN_S if response.status == 429 else 0)
                stays = stays and (request.known or response.status < 400)
                self._answer(response, close=not stays, head_only=request.method == "HEAD")
                await self._writable.wait()
        finally:
            self._task = None
            self._reader.release()
            self._caller.busy(False)
        if self._closing:
            return
        if self._reader.problem:
            self._refuse()
            return
        self._resume()
        self.data_received(b"")

    def refuse(self, response: Response) -> None:
        if response.status == 429:
            self._pause()  # whatever else comes meanwhile is ignored
            self._loop.call_later(_TOO_OFTEN_S, lambda: self._answer(response, close=True))
        else:
            self._answer(response, close=True)

    def _refuse(self) -> None:
        problem, late = self._reader.problem, None
        if self._reader.where != "body":  # bodies are read only from peers with a valid token
            late = self._handler.too_often(Request("-", "-", "", {}, peer=self._caller.peer))
        self.refuse(late or Response.of({"detail": _DETAILS[problem]}, problem))

    def _answer(self, response: Response, *, close: bool, head_only: bool = False) -> None:
        if self._closing:
            return
        self._transport.write(response.head(close=close) + (b"" if head_only else response.body))
        if close:
            self._closing = True
            self._due.clear()
            self._resume()
            if self._transport.can_write_eof():
                self._transport.write_eof()
            self._timer = self._loop.call_later(_LINGER_S, self._transport.close)

    def _pause(self) -> None:
        with suppress(RuntimeError):  # it may be closing
            self._transport.pause_reading()

    def _resume(self) -> None:
        with suppress(RuntimeError):
            self._transport.resume_reading()

    def _allow(self, within_s: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if within_s is None else self._loop.call_later(within_s, self._transport.abort)


_DETAILS = {
    400: "The request is malformed.",
    413: "The body is too large.",
    414: "The URL is too long.",
    417: "The only supported expectation is 100-continue.",
    431: "The request has too many headers, or headers that are too long.",
    503: "The server has no room for the body now. Try again later.",
}


RELAYED = "relayed"  # in place of an address


class Caller:
    """A connection that is not a websocket (yet), from ``address``."""

    def __init__(self, callers: Callers, sock: socket.socket, address: str, peer: str) -> None:
        self._callers, self._sock, self.address, self.peer = callers, sock, address, peer
        self.relayed = address == RELAYED
        self._here = True

    def busy(self, busy: bool) -> None:
        """Note whether a request of a known peer is due. A busy caller is never dropped, a recently busy one last."""
        if self._here:
            quiet = self._callers.quiet[self.address]
            quiet.pop(self, None)
            if not busy:
                quiet[self] = None

    def drop(self) -> None:
        """Drop it: whoever reads from its socket finds that it has ended."""
        self.release()
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Stop counting it: it is gone, or became a websocket, which is counted elsewhere."""
        if self._here:
            self._here = False
            callers, address = self._callers, self.address
            callers.count -= 1
            callers.counts[address] -= 1
            callers.quiet[address].pop(self, None)
            if not callers.counts[address]:
                del callers.counts[address], callers.quiet[address]

    def entered(self, transport: Any) -> None:
        """Note its transport, to be closed when the server stops."""
        self._callers.open[self] = transport

    def gone(self) -> None:
        """Note that the connection has ended, whatever it became."""
        self.release()
        self._callers.open.pop(self, None)


class Callers:
    """Limits connections that are not websockets: ``each`` per address, ``most`` in all.

    The one that has been quiet longest makes room: of its own address, or of the address with the most connections.
    """

    def __init__(self, each: int, most: int) -> None:
        self._each, self._most = each, most
        self.counts: Counter[str] = Counter()
        self.count = 0
        self.quiet: dict[str, dict[Caller, None]] = {}  # by address, the quietest first
        self.open: dict[Caller, Any] = {}  # transports of all that were let in, websockets too

    def admit(self, sock: socket.socket, peer: str, *, relayed: bool = False) -> Caller | None:
        """Count a new connection; None if there is no room because all the others are busy.

        One that another process of this server has ``relayed`` was counted there.
        """
        address = RELAYED if relayed else network_of(peer)
        crowded = address if self.counts[address] >= self._each else None
        if relayed:
            crowded = None
        elif crowded is None and self.count >= self._most:
            crowded = max(self.quiet, key=self.counts.__getitem__)
        if crowded is not None:
            longest = next(iter(self.quiet.get(crowded, ())), None)
            if longest is None:
                return None
            longest.drop()
        self.count += 1
        self.counts[address] += 1
        caller = Caller(self, sock, address, peer)
        self.quiet.setdefault(address, {})[caller] = None
        return caller

    def make_room(self) -> None:
        """Drop a quiet connection: descriptors have run out."""
        longest = next((one for quiet in self.quiet.values() for one in quiet), None)
        if longest is not None:
            longest.drop()


class _Refused(Exception):
    """Raised in the parser's callbacks to stop it at once."""


class RequestReader:
    """Turns a connection's bytes into whole requests, without sockets or time.

    ``problem`` is the status to answer with once something is wrong; ``where`` says what comes next. ``max_body``
    limits a body, ``bodies`` those of all readers. ``continues`` is true once, when a peer waits for a 100 before it
    sends its body. ``knows`` is asked about each head: a request without a valid token is complete without its body,
    and the last one that is read. ``unread`` bytes came after a complete request; the next ``feed`` continues with
    them.
    """

    def __init__(
        self,
        *,
        max_body: int,
        peer: str = "",
        relayed: bool = False,
        knows: Callable[[Request], bool] = lambda _: True,
        bodies: BodyBudget | None = None,
    ) -> None:
        self._max_body, self._peer, self._relayed, self._knows = max_body, peer, relayed, knows
        self._bodies, self._held = bodies or BodyBudget(), 0
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
        """Return the next complete requests in order, each with whether the connection stays open after it."""
        self._whole = []
        self.unread += data
        while self.unread and not (self._whole or self._last or self.problem):
            piece = bytes(self.unread[:_PIECE_BYTES])
            del self.unread[:_PIECE_BYTES]
            self._bytes += len(piece)
            try:
                self._parser.feed_data(piece)
                # Limits what the parser keeps to itself too, such as a header that does not end.
                if self.where == "head" and self._bytes > HEAD_BYTES + _PIECE_BYTES:
                    self._refuse(431)
                if self.where == "body" and self._bytes > 2 * self._max_body + HEAD_BYTES:
                    self._refuse(413)
            except httptools.HttpParserUpgrade:
                # Answered as if no upgrade was requested, and closed: where the next request begins is not certain.
                if self._whole and self._whole[-1][0].method != "CONNECT" and not self._whole[-1][0].body:
                    self._whole[-1] = (self._whole[-1][0], False)
                    self._last = True
                else:
                    self.problem = 400
            except (_Refused, httptools.HttpParserError):
                self.problem = self.problem or (0 if self._last else 400)
        if self._last or self.problem:
            self.unread.clear()
        return self._whole

    def release(self) -> None:
        """Give back the budget of bodies that were read and are done with."""
        self._bodies.left += self._held
        self._held = 0

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
            return  # after a chunked body: too late for credentials
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        if key in self._headers and key in _ONCE:
            self._refuse(400)
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        target = read_target(self._url)
        version, headers = self._parser.get_http_version(), self._headers
        if target is None or version not in ("1.0", "1.1") or (version == "1.1" and "host" not in headers):
            self._refuse(400)
        path, query, host = target or ("", "", None)
        if host is not None:
            headers["host"] = host
        length, coding = headers.get("content-length"), headers.get("transfer-encoding")
        if coding is not None and (coding.lower() != "chunked" or length is not None or version != "1.1"):
            self._refuse(400)
        if length is not None and not (length.isascii() and length.isdigit() and len(length) < 20):
            self._refuse(400)
        if int(length or 0) > self._max_body:
            self._refuse(413)
        if "upgrade" in headers and (coding is not None or int(length or 0)):
            self._refuse(400)
        expected = headers.get("expect")
        if expected is not None and expected.lower() != "100-continue":
            self._refuse(417)
        method = self._parser.get_method().decode("ascii")
        self._request = Request(method, path, query, headers, b"", self._peer, relayed=self._relayed)
        self._request = replace(self._request, known=self._knows(self._request))
        if not self._request.known and (self.announced_bytes or "expect" in headers):
            self._whole.append((self._request, False))
            self._last = True
            raise _Refused
        self.continues = expected is not None and version == "1.1"
        self.where = "body"

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
    def announced_bytes(self) -> int:
        """How many bytes of the body may still come, at most."""
        if "transfer-encoding" in self._headers:
            return self._max_body
        return int(self._headers.get("content-length", 0))
