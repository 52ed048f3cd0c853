"""The service as an ASGI application: what answers the OpenEnv routes of a FastAPI application (``add_routes``).

Whoever runs it chooses where it listens, so two settings come from environment variables. ``PADDOCK_TOKEN``: the token
that requests need; without it they need none. ``PADDOCK_ALLOW_HOSTS``: names, separated by commas, by which the server
may be addressed beside localhost; with any of them, IP addresses are allowed too.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeAlias
from urllib.parse import quote

from paddock.hosting.openenv.http_bodies import TASK_METHODS
from paddock.server.auth import OriginCheck, Tokens
from paddock.server.http import Request, Response
from paddock.server.http_api import ROUTES, HttpApi, openapi
from paddock.server.http_connection import ONCE
from paddock.server.native_socket import NORMAL
from paddock.server.served_env import ServedEnv
from paddock.server.service import Service
from paddock.server.settings import Settings

__all__ = ["AsgiApp", "ServedEnv", "Settings", "add_routes", "asgi_app"]

Event: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]

_ONCE = ONCE | {"host", "content-length"}
_SLOW_READER_BYTES = 64 << 20  # that may wait to be sent to one peer
_GOING_AWAY = 1001
# Of Starlette's TestClient. No peer on a network has such an address, and no page can send such a Host.
_TEST_CLIENT, _TEST_HOST = ("testclient", 50000), "testserver"
_OPENENVS = ("health", "reset", "step", "state", "metadata", "schema", "mcp", "ws", "list_environments")


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


def add_routes(app: Any, front: AsgiApp) -> None:
    """Add OpenEnv's routes to a FastAPI application; it starts and stops the service with its lifespan.

    Its OpenAPI document has them too, and like them needs the token.
    """
    from starlette.routing import Route, WebSocketRoute

    outer, own_document, routes = app.router.lifespan_context, app.openapi, app.router.routes
    production = front.settings.mode == "production"
    for route in ROUTES:
        path = f"/{{env_name}}/{route.name}" if route.name in TASK_METHODS else f"/{route.name}"
        if path[1:] != route.name or (route.name in _OPENENVS and (route.in_production or not production)):
            if route.method == "WS":
                routes.append(WebSocketRoute(path, front, name=route.name))
            else:
                routes.append(Route(path, front, methods=[route.method], name=route.name))
    for place, route in enumerate(routes):
        if getattr(route, "path", "") == app.openapi_url == "/openapi.json":
            routes[place] = Route(app.openapi_url, front, methods=["GET"], name="openapi")

    def document() -> dict[str, Any]:
        theirs, ours = own_document(), front.openapi()
        everything = app.router.default is front
        paths = {path: one for path, one in ours["paths"].items() if everything or path[1:] in _OPENENVS}
        for path, one in theirs["paths"].items():
            paths[path] = paths.get(path, {}) | one
        parts = {
            key: {**ours["components"].get(key, {}), **theirs.get("components", {}).get(key, {})}
            for key in (*ours["components"], *theirs.get("components", {}))
        }
        return {**theirs, "paths": paths, "components": parts}

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[Any]:
        async with outer(app) as state:
            await front.start()
            try:
                yield state
            finally:
                await front.stop()

    app.openapi, front.document, app.router.lifespan_context = document, lambda: app.openapi(), lifespan


class AsgiApp:
    """ASGI 3, http and websocket. ``start`` it in the event loop that serves it.

    If nothing does, as where a lifespan is not run, it runs in a thread of its own from the first request on: each
    request may then come from another event loop.
    """

    def __init__(
        self, served: Sequence[ServedEnv], settings: Settings, origin_check: OriginCheck, tokens: Tokens | None
    ) -> None:
        self._served, self.settings, self._origin_check, self._tokens = served, settings, origin_check, tokens
        self.service: Service | None = None
        self.document: Callable[[], dict[str, Any]] = self.openapi
        self._starting: asyncio.Future[HttpApi] | None = None
        self._home: asyncio.AbstractEventLoop | None = None  # where the service runs
        self._threaded = False  # that is the loop of a thread of its own
        self._choosing = threading.Lock()

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document. Blocks until the environments are described, once."""
        for one in self._served:
            one.describe()
        return openapi({one.name: one for one in self._served}, production=self.settings.mode == "production")

    async def start(self) -> None:
        """Start the service in this event loop."""
        with self._choosing:
            self._home = self._home or asyncio.get_running_loop()
            self._threaded = self._home is not asyncio.get_running_loop()
        try:
            await _in(self._home, self._api)()
        except BaseException:
            self._home = None
            raise

    async def stop(self) -> None:
        if self._home is not None:
            await _in(self._home, self._stop)()

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        with self._choosing:
            self._home = self._home or self._start_thread()
        here = asyncio.get_running_loop()
        if here is self._home:
            await self._answer(scope, receive, send)
        else:
            await _in(self._home, self._answer)(scope, _in(here, receive), _in(here, send))

    def _start_thread(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, name="paddock-app", daemon=True).start()
        self._threaded = True
        return loop

    async def _answer(self, scope: Event, receive: Receive, send: Send) -> None:
        answer = self._http if scope["type"] == "http" else self._websocket
        await answer(await self._api(), scope, receive, send)

    async def _api(self) -> HttpApi:
        if self._starting is None or (self._starting.done() and self._starting.exception() is not None):
            self._starting = asyncio.ensure_future(self._start())
        return await asyncio.shield(self._starting)

    async def _start(self) -> HttpApi:
        # Without a lifespan it is most likely a test: nothing is kept ready for further sessions.
        spares = 0 if self._threaded else self.settings.spares
        service = Service(self._served, replace(self.settings, spares=spares))
        await service.start()
        self.service = service
        itself = weakref.ref(self)  # else the service would keep it alive

        def document() -> dict[str, Any]:
            front = itself()
            return {} if front is None else front.document()

        if self._threaded:
            weakref.finalize(self, _end_soon, asyncio.get_running_loop(), service).atexit = False
        return HttpApi(service, self._origin_check, self._tokens, document)

    async def _stop(self) -> None:
        service, self.service, self._starting, self._home = self.service, None, None, None
        if service is not None:
            await _end(service, threaded=self._threaded)

    async def _http(self, api: HttpApi, scope: Event, receive: Receive, send: Send) -> None:
        response: Response | None
        request = _request(api, scope)
        body: bytes | Response | None = b""
        if isinstance(request, Request) and api.knows(request):  # nobody else's body is kept
            body = await _body(receive, self.settings.max_body)
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


def _in(loop: asyncio.AbstractEventLoop, call: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Return ``call`` for other event loops: it runs in its own."""
    return lambda *arguments: asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call(*arguments), loop))


async def _end(service: Service, *, threaded: bool) -> None:
    """Stop the service, with the thread in which it runs."""
    await service.stop()
    if threaded:
        asyncio.get_running_loop().call_soon(asyncio.get_running_loop().stop)


def _end_soon(loop: asyncio.AbstractEventLoop, service: Service) -> None:
    """Do so for an application that is gone."""
    if not service.draining:
        asyncio.run_coroutine_threadsafe(_end(service, threaded=True), loop)


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
    if headers.get("host") == _TEST_HOST and client is not None and tuple(client) == _TEST_CLIENT:
        headers["host"] = "localhost"
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
