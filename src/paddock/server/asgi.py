"""The service as an ASGI application, for uvicorn and the like: ``create_app`` of ``paddock.openenv`` returns one.

Whoever runs it chooses where it listens, so two settings come from environment variables. ``PADDOCK_TOKEN``: the token
that requests need; without it they need none. ``PADDOCK_ALLOW_HOSTS``: names, separated by commas, by which the server
may be addressed beside localhost; with any of them, IP addresses are allowed too.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias
from urllib.parse import quote

from paddock.server.auth import OriginCheck, Tokens
from paddock.server.http import Request, Response
from paddock.server.http_api import HttpApi
from paddock.server.native_socket import NORMAL
from paddock.server.served_env import ServedEnv
from paddock.server.service import Service
from paddock.server.settings import Settings

__all__ = ["AsgiApp", "ServedEnv", "Settings", "asgi_app"]

Event: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]

_ONCE = frozenset(("host", "content-length", "authorization", "origin"))
_SLOW_READER_BYTES = 64 << 20  # that may wait to be sent to one peer
_GOING_AWAY = 1001


def asgi_app(served: ServedEnv | Sequence[ServedEnv], settings: Settings) -> AsgiApp:
    """Make the application that serves these environments; ``settings.host`` and the like have no effect."""
    token = os.environ.get("PADDOCK_TOKEN")
    named = os.environ.get("PADDOCK_ALLOW_HOSTS", "").lower().replace(",", " ").split()
    own = OriginCheck.for_bind("127.0.0.1")
    return AsgiApp(
        [served] if isinstance(served, ServedEnv) else served,
        settings,
        OriginCheck(own.hosts | frozenset(named), settings.origins, literals=bool(named)),
        Tokens.of(token) if token else None,
    )


class AsgiApp:
    """ASGI 3: http, websocket and lifespan. Without lifespan it starts with the first request and never stops."""

    def __init__(
        self, served: Sequence[ServedEnv], settings: Settings, origin_check: OriginCheck, tokens: Tokens | None
    ) -> None:
        self._served, self._settings, self._origin_check, self._tokens = served, settings, origin_check, tokens
        self._service: Service | None = None
        self._starting: asyncio.Future[HttpApi] | None = None

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(await self._api(), scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(await self._api(), scope, receive, send)

    async def _api(self) -> HttpApi:
        if self._starting is None or (self._starting.done() and self._starting.exception() is not None):
            self._starting = asyncio.ensure_future(self._start())
        return await asyncio.shield(self._starting)

    async def _start(self) -> HttpApi:
        service = Service(self._served, self._settings)
        await service.start()
        self._service = service
        return HttpApi(service, self._origin_check, self._tokens)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            event = await receive()
            if event["type"] == "lifespan.startup":
                try:
                    await self._api()
                except Exception as error:
                    await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
                    return
                await send({"type": "lifespan.startup.complete"})
            elif event["type"] == "lifespan.shutdown":
                service, self._service, self._starting = self._service, None, None
                if service is not None:
                    await service.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, api: HttpApi, scope: Event, receive: Receive, send: Send) -> None:
        response: Response | None
        request = _request(api, scope)
        body: bytes | Response | None = b""
        if isinstance(request, Request) and api.knows(request):  # nobody else's body is kept
            body = await _body(receive, self._settings.max_body)
        if body is None:  # the peer left before it was whole
            return
        if isinstance(request, Response):
            response = request
        elif isinstance(body, Response):
            response = body
        else:
            response = await _unless_gone(api.handle(replace(request, body=body)), receive)
        if response is not None:
            await send({"type": "http.response.start", "status": response.status, "headers": _headers(response)})
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else response.body})

    async def _websocket(self, api: HttpApi, scope: Event, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        out, request = _Out(), _request(api, scope)
        found, subprotocol = (request, None) if isinstance(request, Response) else api.socket(request, out)
        if isinstance(found, Response):
            await _deny(found, scope, send)
            return
        writing: asyncio.Future[None] | None = None
        event: Event = {}
        try:
            await send({"type": "websocket.accept", "subprotocol": subprotocol})
            writing = asyncio.ensure_future(out.write(send))
            while (event := await receive())["type"] == "websocket.receive":
                text = event.get("text")
                found.message(text if text is not None else event.get("bytes") or b"")
                if out.pause_s:
                    pause_s, out.pause_s = out.pause_s, 0.0
                    await asyncio.sleep(pause_s)
        finally:
            api.forget(out)
            found.closed(done=event.get("code") == NORMAL)
            if writing is not None:
                writing.cancel()


class _Out:
    """The way to a websocket's peer: messages wait here for the task that sends them."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._woken = asyncio.Event()
        self._closed = False
        self.pause_s = 0.0  # for so long nothing is read from the peer
        self.relay = None  # an application runs in one process

    def pause(self, seconds: float) -> None:
        self.pause_s = max(self.pause_s, seconds)

    def send(self, data: bytes | str) -> None:
        if self._closed:
            return
        self._bytes += len(data)
        if self._bytes > _SLOW_READER_BYTES:  # it reads slower than it asks
            self.close(_GOING_AWAY, "")
            return
        self._put({"type": "websocket.send", "text" if isinstance(data, str) else "bytes": data})

    def close(self, code: int, reason: str) -> None:
        if not self._closed:
            self._closed = True
            self._put(
                {"type": "websocket.close", "code": code, "reason": reason.encode()[:120].decode(errors="ignore")}
            )

    def _put(self, event: Event) -> None:
        self._events.append(event)
        self._woken.set()

    async def write(self, send: Send) -> None:
        """Write until the connection is closed by either side."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._events:
                event = self._events.popleft()
                self._bytes -= len(event.get("text") or event.get("bytes") or "")
                try:
                    await send(event)
                except Exception:  # the peer is gone; each server has an error of its own for that
                    return
                if event["type"] == "websocket.close":
                    return


async def _body(receive: Receive, most: int) -> bytes | Response | None:
    parts, size, more = [], 0, True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None
        parts.append(event.get("body", b""))
        size += len(parts[-1])
        if size > most:
            return Response.of({"detail": "The body is too large."}, 413)
        more = event.get("more_body", False)
    return b"".join(parts)


def _request(api: HttpApi, scope: Event) -> Request | Response:
    """Read the request of a scope, or refuse one whose headers contradict each other."""
    client = scope.get("client")
    peer = f"{client[0]}:{client[1]}" if client else ""
    headers: dict[str, str] = {}
    for raw_name, value in scope["headers"]:
        name = raw_name.decode("latin-1").lower()
        if name in headers and name in _ONCE:
            late = api.too_often(Request("-", "-", "", {}, peer=peer))
            return late or Response.of({"detail": "The request is malformed."}, 400)
        headers[name] = value.decode("latin-1").strip()
    raw = scope.get("raw_path")
    path = raw.decode("latin-1") if raw else quote(scope["path"])
    path = path.removeprefix(quote(scope.get("root_path", "").rstrip("/")))
    query = scope.get("query_string", b"").decode("latin-1")
    return Request(scope.get("method", "GET"), path or "/", query, headers, b"", peer)


def _headers(response: Response) -> list[tuple[bytes, bytes]]:
    found = {**response.all_headers, "content-length": str(len(response.body))}
    found.pop("date")  # the server has its own
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in found.items()]


async def _unless_gone(handling: Any, receive: Receive) -> Response | None:
    """Return the response, or None as soon as the peer disconnects."""

    async def until_disconnected() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    answer: asyncio.Future[Response] = asyncio.ensure_future(handling)
    gone = asyncio.ensure_future(until_disconnected())
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else None
    finally:
        gone.cancel()
        answer.cancel()


async def _deny(response: Response, scope: Event, send: Send) -> None:
    """Refuse a websocket; if the server can't send a response, it makes this a 403."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008, "reason": ""})
        return
    start = {"type": "websocket.http.response.start", "status": response.status, "headers": _headers(response)}
    await send(start)
    await send({"type": "websocket.http.response.body", "body": response.body})
