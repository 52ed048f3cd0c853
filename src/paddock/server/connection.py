"""One HTTP connection: requests in, one at a time, responses out. Whoever is slow, too long or malformed is let go."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from paddock.server.http import Bodies, Request, Response
from paddock.server.request_reader import HEAD_BYTES, RequestReader, Where

if TYPE_CHECKING:
    from paddock.server.front import Caller

__all__ = ["HEAD_BYTES", "HEAD_S", "Handler", "HttpConnection"]

HEAD_S = 10.0  # from the first byte of a head to its end
_BODY_S, _BODY_BYTES_PER_S = 30.0, 1 << 16  # for a whole body: this, and its size at this speed
_IDLE_S = 75.0  # between requests
_WRITE_S = 30.0  # for a peer that reads slower than it is answered
_TOO_OFTEN_S = 0.05  # before a 429, so that a client that keeps asking is slowed down
STALLED_S = 30.0  # for a peer, of a websocket too, that takes nothing of what is sent to it
_LINGER_S = 2.0  # after a refusal, for what is still on its way: closing at once would cut off the answer


class Handler(Protocol):
    """What answers requests."""

    bodies: Bodies

    def knows(self, request: Request) -> bool:
        """Whether the head of a request has a valid token."""

    def too_often(self, request: Request) -> Response | None:
        """The 429 in place of a refusal before any token, if the address has had too many; this one counts."""

    async def handle(self, request: Request) -> Response:
        """The response to a request."""


class HttpConnection(asyncio.Protocol):
    """Answers each request with ``handler``, in their order; ``max_body`` bytes of a body at most.

    ``caller`` hears when a known peer keeps it busy, and when it is gone. One request is answered in a turn of the
    loop, however many came together. A peer that is not known is let go with its first refusal.
    """

    def __init__(self, handler: Handler, *, max_body: int, peer: str, caller: Caller) -> None:
        self._handler, self._caller = handler, caller
        self._loop = asyncio.get_running_loop()
        self._reader = RequestReader(max_body=max_body, peer=peer, knows=handler.knows, bodies=handler.bodies)
        self._due: deque[tuple[Request, bool]] = deque()
        self._where: Where = "between"
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._closing = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        _end_when_stalled(transport.get_extra_info("socket"))
        self._allow(_IDLE_S)

    def connection_lost(self, error: Exception | None) -> None:
        # What is being done goes on: it may be a step, which can't be taken back. Nobody gets the answer.
        self._closing = True
        self._due.clear()
        self._writable.set()
        self._allow(None)
        if self._task is None:
            self._reader.release()
        self._caller.release()

    def pause_writing(self) -> None:
        self._writable.clear()
        self._allow(_WRITE_S)

    def resume_writing(self) -> None:
        self._writable.set()
        self._allow(None)

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if self._task is not None:  # the next request waits, and so does who sends it
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
        elif self._reader.problem:
            self._refuse()
        else:
            self._wait()

    def _wait(self) -> None:
        """Time runs from when something new is waited for, not from the last byte, however slowly they drop in."""
        where = self._reader.where
        if where != self._where or self._timer is None:
            self._where = where
            body_s = _BODY_S + self._reader.announced / _BODY_BYTES_PER_S
            self._allow({"between": _IDLE_S, "head": HEAD_S, "body": body_s}[where])

    async def _respond(self) -> None:
        while self._due:
            request, stays = self._due.popleft()
            if request.known:
                self._caller.busy(True)
            response = await self._handler.handle(request)
            await asyncio.sleep(_TOO_OFTEN_S if response.status == 429 else 0)
            stays = stays and (request.known or response.status < 400)
            self._answer(response, close=not stays, head_only=request.method == "HEAD")
            await self._writable.wait()
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
        """Say this instead of answering, and take leave."""
        if response.status == 429:
            self._pause()  # what else comes meanwhile is not looked at
            self._loop.call_later(_TOO_OFTEN_S, lambda: self._answer(response, close=True))
        else:
            self._answer(response, close=True)

    def _refuse(self) -> None:
        problem, late = self._reader.problem, None
        if self._reader.where != "body":  # a body is read of peers alone whose token was valid
            late = self._handler.too_often(Request("-", "-", "", {}, peer=self._caller.peer))
        self.refuse(late or Response.of({"detail": _SAID[problem]}, problem))

    def _answer(self, response: Response, *, close: bool, head_only: bool = False) -> None:
        if self._closing:
            return
        self._transport.write(response.head(close=close) + (b"" if head_only else response.body))
        if close:
            self._closing = True
            self._due.clear()
            self._linger()

    def _linger(self) -> None:
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


_SAID = {
    400: "The request is malformed.",
    413: "The body is too large.",
    414: "The URL is too long.",
    417: "Of expectations only 100-continue is known.",
    431: "The request has too many headers, or too long ones.",
    503: "The server has no room for the body now. Try again later.",
}


def _end_when_stalled(sock: Any) -> None:
    """Let the kernel end it: it alone sees whether the peer takes bytes that are sent already."""
    if getattr(sock, "family", None) in (socket.AF_INET, socket.AF_INET6) and hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(STALLED_S * 1000))
