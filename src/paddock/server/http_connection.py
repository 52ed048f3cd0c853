"""HTTP connections: read requests, answer them one at a time, drop peers that are slow, too long or malformed."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paddock.sandbox.http1 import Length, Reader, Refused, Stream, parse_request_head
from paddock.server.auth import network_of
from paddock.server.http import BodyBudget, Request, Response, read_target

if TYPE_CHECKING:
    from paddock.server.http_api import HttpApi

HEAD_S = 10.0  # from the first byte of a head to its end
_BODY_S, _BODY_BYTES_PER_S = 30.0, 1 << 16  # for a whole body: this time, plus its size at this speed
_IDLE_S = 75.0  # between requests
_WRITE_S = 30.0  # for a peer that reads slower than we answer
_TOO_OFTEN_S = 0.05  # before a 429, so that a client that keeps asking is slowed down
STALLED_S = 30.0  # for a peer, of a websocket too, that takes nothing of what is sent to it
_LINGER_S = 2.0  # after a refusal, for bytes that are still on their way: closing at once would cut off the answer
_URL_BYTES = 1 << 13
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "QUERY"))
# Allowed once: an attacker hopes that two readers pick different ones of two.
ONCE = frozenset(
    ("authorization", "origin", "sec-fetch-site", "expect", "content-type", "upgrade", "x-paddock-session")
)


def end_if_stalled(transport: Any) -> None:
    """Have the kernel end a connection whose peer takes nothing: it alone sees what became of bytes that were sent."""
    sock = transport.get_extra_info("socket")
    if getattr(sock, "family", None) in (socket.AF_INET, socket.AF_INET6) and hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(STALLED_S * 1000))


_answering: set[asyncio.Task[None]] = set()  # kept here: a task whose peer has left might be all that refers to itself


class HttpConnection(asyncio.StreamReaderProtocol):
    """Answers requests with ``handler``, in order; a body may have ``max_body`` bytes.

    ``caller`` learns when a known peer keeps it busy, and when it is gone. One request is answered per turn of the
    loop, however many came together. A peer without a valid token is dropped with its first refusal.
    """

    def __init__(self, handler: HttpApi, *, max_body: int, peer: str, caller: Caller) -> None:
        reader = Reader()
        super().__init__(reader, lambda _, writer: self._begin(reader, writer))
        self._handler, self._caller, self._max_body, self._peer = handler, caller, max_body, peer
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False

    def connection_made(self, transport: Any) -> None:
        self._wire = transport
        end_if_stalled(transport)
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        # A request in progress goes on: it may be a step, which can't be undone. Nobody gets the answer.
        self._closing = True
        self._allow(None)
        super().connection_lost(error)
        self._caller.gone()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._allow(_WRITE_S)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._closing:
            self._linger()
        else:
            self._allow(None)

    def data_received(self, data: bytes) -> None:
        if not self._closing:
            super().data_received(data)

    def eof_received(self) -> bool | None:
        return super().eof_received() and not self._closing  # whether it stays open for the answer that is due

    def _begin(self, reader: Reader, writer: asyncio.StreamWriter) -> None:
        self._requests = RequestReader(
            Stream(reader, writer),
            max_body=self._max_body,
            peer=self._peer,
            relayed=self._caller.relayed,
            knows=self._handler.knows,
            bodies=self._handler.bodies,
            allow=self._allow,
        )
        task = self._loop.create_task(self._serve(writer))
        _answering.add(task)
        task.add_done_callback(_answering.discard)

    async def _serve(self, writer: asyncio.StreamWriter) -> None:
        if self._closing:  # refused before it was read
            return
        try:
            while (found := await self._requests.next()) is not None and not self._closing:
                request, stays = found
                self._allow(None)
                try:
                    if request.known:
                        self._caller.busy(True)
                    response = await self._handler.handle(request)
                    await asyncio.sleep(_TOO_OFTEN_S if response.status == 429 else 0)
                    stays = stays and (request.known or response.status < 400)
                    self._answer(response, close=not stays, head_only=request.method == "HEAD")
                    await writer.drain()
                finally:
                    self._requests.release()
                    self._caller.busy(False)
                if self._closing:
                    return
            self._wire.close()
        except Refused as refusal:
            self._refuse(refusal.status)
        except ConnectionError:  # the peer left before its answer was written
            pass
        finally:
            self._requests.release()

    def refuse(self, response: Response) -> None:
        self._closing = True  # whatever else comes meanwhile is ignored
        if response.status == 429:
            self._loop.call_later(_TOO_OFTEN_S, self._write, response, True)
        else:
            self._write(response, True)

    def _refuse(self, status: int) -> None:
        if self._closing or self._requests.at_end:  # the peer is gone, or will be
            self._wire.close()
            return
        late = None
        if not self._requests.in_body:  # bodies are read only from peers with a valid token
            late = self._handler.too_often(Request("-", "-", "", {}, peer=self._caller.peer))
        self.refuse(late or Response.of({"detail": _DETAILS[status]}, status))

    def _answer(self, response: Response, *, close: bool, head_only: bool = False) -> None:
        if not self._closing:
            self._closing = close
            self._write(response, close, head_only=head_only)

    def _write(self, response: Response, close: bool, *, head_only: bool = False) -> None:
        if self._wire.is_closing():
            return
        if close:
            self._linger()  # before it is written: a peer that is slow to read it has the time for that first
        self._wire.write(response.head(close=close) + (b"" if head_only else response.body))
        if close and self._requests.at_end:
            self._wire.close()
        elif close and self._wire.can_write_eof():
            self._wire.write_eof()

    def _linger(self) -> None:
        self._allow(_LINGER_S, self._wire.close)

    def _allow(self, within_s: float | None, end: Callable[[], object] | None = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if within_s is None else self._loop.call_later(within_s, end or self._wire.abort)


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


class RequestReader:
    """The requests of a connection, each read whole. ``max_body`` limits a body, ``bodies`` all of them together.

    ``knows`` is asked about each head: a request without a valid token is complete without its body, and the last one.
    ``allow`` is called with the seconds that each part may take, which slow bytes do not extend.
    """

    def __init__(
        self,
        stream: Stream,
        *,
        max_body: int,
        peer: str = "",
        relayed: bool = False,
        knows: Callable[[Request], bool] = lambda _: True,
        bodies: BodyBudget | None = None,
        allow: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._stream, self._max_body, self._peer, self._relayed = stream, max_body, peer, relayed
        self._knows, self._bodies, self._allow = knows, bodies or BodyBudget(), allow
        self._held = 0
        self.in_body = False

    async def next(self) -> tuple[Request, bool] | None:
        """Return the next request, and whether the connection stays open after it; None at the end of the connection.

        Refused, with the status to answer with, if it can't be read.
        """
        self.in_body = False
        self._allow(_IDLE_S)
        lines = await self._stream.head(lambda: self._allow(HEAD_S))
        if lines is None:
            return None
        request, length, stays = read_request_head(lines, self._peer, relayed=self._relayed)
        expects = "expect" in request.headers
        if isinstance(length, int) and length > self._max_body:
            raise Refused(413, "The body is too large.")
        request = replace(request, known=self._knows(request))
        if not request.known and (length or expects):
            return request, False
        if not length:
            return request, stays
        if expects:
            self._stream.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.in_body = True
        size = length if isinstance(length, int) else self._max_body
        self._allow(_BODY_S + size / _BODY_BYTES_PER_S)
        body = bytearray()
        async for piece in self._stream.body(length, self._max_body):
            body += piece
            self._held += len(piece)
            self._bodies.left -= len(piece)
            if self._bodies.left < 0:
                raise Refused(503, "There is no room for the body.")
        return replace(request, body=bytes(body)), stays

    @property
    def at_end(self) -> bool:
        """Whether the peer sends nothing more."""
        return self._stream.reader.at_eof()

    def release(self) -> None:
        """Give back the budget of bodies that were read and are done with."""
        self._bodies.left += self._held
        self._held = 0


def read_request_head(lines: Sequence[bytes], peer: str, *, relayed: bool = False) -> tuple[Request, Length, bool]:
    """Return a request without its body, the length of that, and whether another may follow; Refused if malformed."""
    method, target, minor, found, length = parse_request_head(lines)
    if len(target) > _URL_BYTES:
        raise Refused(414, "The URL is too long.")
    headers: dict[str, str] = {}
    for name, value in found:
        key = name.lower()
        if key in headers and key in ONCE:
            raise Refused(400, f"There is more than one {name}.")
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    place = read_target(target)
    if place is None or method not in _METHODS or (minor == 1 and "host" not in headers):
        raise Refused(400, "The method, the target or the Host is not valid.")
    path, query, host = place
    if host is not None:
        headers["host"] = host
    if "upgrade" in headers and length:
        raise Refused(400, "A request for an upgrade has no body.")
    if minor == 0:
        headers.pop("expect", None)  # such a client does not wait
    if headers.get("expect", "100-continue").lower() != "100-continue":
        raise Refused(417, "The only supported expectation is 100-continue.")
    options = [one.strip().lower() for one in headers.get("connection", "").split(",")]
    stays = "close" not in options if minor == 1 else "keep-alive" in options
    # Answered as if no upgrade was requested, and closed: where the next request begins is not certain.
    return Request(method, path, query, headers, peer=peer, relayed=relayed), length, stays and "upgrade" not in headers
