"""One HTTP connection: requests in, one at a time, responses out. Whoever is slow, too long or malformed is let go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import httptools

from paddock.server.http import Request, Response

Handler = Callable[[Request], Awaitable[Response]]

HEAD_BYTES = 1 << 16
_HEADERS = 100
HEAD_S = 10.0  # from the first byte, or the last response's end, to the end of the head
_BODY_S = 30.0  # for each piece of a body
_IDLE_S = 75.0


class HttpConnection(asyncio.Protocol):
    """Reads requests with httptools and answers each with ``handle``; ``max_body`` bytes at most."""

    def __init__(self, handle: Handler, *, max_body: int, peer: str = "") -> None:
        self._handle, self._max_body, self._peer = handle, max_body, peer
        self._loop = asyncio.get_running_loop()
        self._parser: Any = httptools.HttpRequestParser(self)
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._waiting = b""  # came while a request was being answered
        self._closing = False
        self._begin()

    def _begin(self) -> None:
        self._url, self._body = b"", bytearray()
        self._headers: dict[str, str] = {}
        self._head_bytes, self._problem, self._complete = 0, 0, False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._expect(HEAD_S)

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._expect(None)
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        if self._task is not None:  # the next request waits, and so does who sends it
            self._waiting += data
            self._transport.pause_reading()
            return
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._problem = self._problem or 400
        except httptools.HttpParserError:
            self._problem = self._problem or 400
        if self._problem:
            self._answer(Response.of({"detail": _SAID[self._problem]}, self._problem), close=True)
        elif self._complete:
            self._expect(None)
            self._task = self._loop.create_task(self._respond())
        else:
            self._expect(_BODY_S if self._body else HEAD_S)

    # httptools calls these.

    def on_url(self, url: bytes) -> None:
        self._url += url
        if self._head_bytes > HEAD_BYTES:
            self._problem = 414

    def on_header(self, name: bytes, value: bytes) -> None:
        key = name.decode("latin-1").lower()
        if key in self._headers and key in ("host", "content-length", "authorization", "origin"):
            self._problem = 400  # which of the two would count is what an attacker hopes for
        self._headers[key] = value.decode("latin-1").strip()
        if len(self._headers) > _HEADERS:
            self._problem = 431

    def on_headers_complete(self) -> None:
        length = self._headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            self._problem = 400
        elif int(length) > self._max_body:
            self._problem = 413
        elif self._headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body += body
        if len(self._body) > self._max_body:
            self._problem = 413

    def on_message_complete(self) -> None:
        self._complete = True

    async def _respond(self) -> None:
        try:
            url = httptools.parse_url(self._url)
            request = Request(
                self._parser.get_method().decode("ascii"),
                (url.path or b"/").decode("latin-1"),
                (url.query or b"").decode("latin-1"),
                self._headers,
                bytes(self._body),
                self._peer,
            )
        except (httptools.HttpParserInvalidURLError, UnicodeDecodeError):
            self._answer(Response.of({"detail": _SAID[400]}, 400), close=True)
            return
        response = await self._handle(request)
        self._task = None
        self._answer(response, close=not self._parser.should_keep_alive(), head_only=request.method == "HEAD")
        if not self._closing:
            self._begin()
            self._expect(_IDLE_S)
            waiting, self._waiting = self._waiting, b""
            self._transport.resume_reading()
            if waiting:
                self.data_received(waiting)

    def _answer(self, response: Response, *, close: bool, head_only: bool = False) -> None:
        if self._closing:
            return
        self._transport.write(response.head(close=close) + (b"" if head_only else response.body))
        if close:
            self._closing = True
            self._transport.close()

    def _expect(self, within_s: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if within_s is None else self._loop.call_later(within_s, self._overdue)

    def _overdue(self) -> None:
        with suppress(Exception):
            self._transport.abort()


_SAID = {
    400: "The request is malformed.",
    413: "The body is too large.",
    414: "The URL is too long.",
    431: "The request has too many headers.",
}
