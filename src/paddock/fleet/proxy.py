"""The gateway's connections: clients on one side, servers on the other, and ``fleet.gateway`` deciding between them.

Nothing of a client's request reaches a server but what is listed here, so no header that names another address, host or
scheme does. The gateway has no tokens: servers check them.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from paddock.errors import Unreachable
from paddock.fleet import gateway as g
from paddock.hosting.remote_address import SUBPROTOCOLS, RemoteAddress
from paddock.hosting.websocket.connection import BINARY, CLOSE, FrameWriter, mask
from paddock.hosting.websocket.endpoint import default_context
from paddock.sandbox.http1 import HEAD_BYTES, Answer, Refused, Stream, head_bytes, values
from paddock.server import telemetry
from paddock.server.auth import AddressRates, OriginCheck, token_digest, token_from
from paddock.server.http import BodyBudget, Request, Response
from paddock.server.http_api import MARK_HEADER, report_incident, session_of
from paddock.server.http_connection import HttpConnection, end_if_stalled
from paddock.server.listener import Acceptor, NewConnection, become_streams, bind, notify, runner
from paddock.server.processes import Processes
from paddock.server.settings import Settings
from paddock.server.telemetry import Metrics
from paddock.server.websocket import handshake_refusal

logger = logging.getLogger("paddock.server.gateway")

_CHECK_S = 2.0  # between health checks of a server that is ready
_CHECKS = 8  # in that time, of one that is not
_DIAL_S = 10.0
_ANSWER_S = 330.0  # for an HTTP request: a step may take its server's --deadline, and a wait in its queue
_ANSWER_BYTES = 1 << 28
_PIECE_BYTES = 1 << 16
_LOOK_BYTES = 1 << 20  # the largest message that is looked at, before a session's first step
# What passes of a client's request, and of an answer.
_REQUEST_HEADERS = {"accept", "authorization", "content-type", "last-event-id", "traceparent", "user-agent"}
_REQUEST_HEADERS |= {"mcp-protocol-version", "mcp-session-id", "x-paddock-session"}
_REQUEST_HEADERS |= {"sec-websocket-key", "sec-websocket-protocol", "sec-websocket-version"}
_ANSWER_HEADERS = frozenset(("allow", "mcp-session-id", "retry-after", "www-authenticate", "x-paddock-session"))
_LATER = {"retry-after": "1"}
_ALL_S = 4.0  # for each server, when all are asked; less than a client waits
_TOKENS = 10_000  # that are remembered as valid


def run(
    servers: Sequence[RemoteAddress],
    settings: Settings,
    *,
    drained: Sequence[RemoteAddress] = (),
    context: ssl.SSLContext | None = None,
    when_ready: Callable[[Any], None] = lambda addresses: None,
) -> None:
    """Serve until SIGTERM or Ctrl-C; ``when_ready`` is called with the addresses.

    ``context``: for TLS to the servers.
    """
    settings.check()
    telemetry.begin_logging()
    runner()(_serve(servers, settings, drained, context, when_ready))


async def _serve(
    servers: Sequence[RemoteAddress],
    settings: Settings,
    drained: Sequence[RemoteAddress],
    context: ssl.SSLContext | None,
    when_ready: Callable[[Any], None],
) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    api = GatewayApi(servers, settings, drained, context)
    await api.check()
    acceptor = Acceptor(api, settings, bind(settings), ClientConnection)  # type: ignore[arg-type]  # as an HttpApi
    checks = asyncio.ensure_future(api.check_often())
    try:
        when_ready([socket.getsockname() for socket in acceptor.sockets])
        notify("READY=1")
        await stop.wait()
        notify("STOPPING=1")
    finally:
        checks.cancel()
        acceptor.close()
        # Their clients resume through another gateway, or through this one's successor.
        for flow in list(api.flows.values()):
            flow.drop()
        await api.answered(settings.drain_s)
        await acceptor.end()


class GatewayApi:
    """What ``HttpConnection`` and ``Acceptor`` ask: requests to responses, by way of the servers."""

    def __init__(
        self,
        servers: Sequence[RemoteAddress],
        settings: Settings,
        drained: Sequence[RemoteAddress] = (),
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.gateway = g.Gateway([str(one) for one in servers], drained=[str(one) for one in drained])
        self._servers, self._context = servers, context or default_context()
        self.flows: dict[int, Flow] = {}
        self.number = 0
        self.processes, self.metrics, self.relays = Processes(), Metrics(), 0
        self.bodies = BodyBudget()
        self.origin_check = OriginCheck.for_bind(
            None if settings.uds else settings.host, settings.origins, settings.hosts
        )
        per_s = settings.failures_per_s
        self._failures = AddressRates(per_s, max(1, int(10 * per_s)))
        self._valid: OrderedDict[bytes, None] = OrderedDict()  # digests of tokens that a server took
        self._open_asks = AddressRates(100.0, 100)
        self._answering = 0

    # Health

    async def check(self) -> None:
        """Ask every server once how it is."""
        await asyncio.gather(*(self._check(at) for at in range(len(self._servers))))

    async def check_often(self) -> None:
        """Ask again and again: those that are not ready more often, since they may be back."""
        while True:
            for _ in range(_CHECKS):
                await asyncio.sleep(_CHECK_S / _CHECKS)
                down = [at for at, one in enumerate(self.gateway.servers) if not one.ready]
                await asyncio.gather(*(self._check(at) for at in down))
            await self.check()

    async def _check(self, at: int) -> None:
        before, request = self.gateway.servers[at].ready, Request("GET", "/health/ready", "", {})
        try:
            answer, _ = await asyncio.wait_for(self._exchange(at, request), _CHECK_S)
        except (OSError, Refused, asyncio.TimeoutError):
            self.gateway.checked(at, ready=False)
        else:
            marks = values(answer.headers, MARK_HEADER)
            self.gateway.checked(at, ready=answer.status == 200, mark=marks[0] if marks else None)
        if self.gateway.servers[at].ready != before:
            logger.warning("%s is %s", self._servers[at], "not ready" if before else "ready")

    # Requests

    def knows(self, request: Request) -> bool:
        """Whether its body may be read. Only a server knows whether its token is valid."""
        return token_from(request.headers.get("authorization")) is not None

    def too_often(self, request: Request) -> Response | None:
        wait_s = self._open_asks.wait_s(request.peer, asyncio.get_running_loop().time())
        return _too_many() if wait_s else None

    def refusal(self, request: Request) -> Response | None:
        """Return the refusal of a request that no server should see."""
        why = self.origin_check.refusal(request.headers)
        if why is not None:
            return self.too_often(request) or Response.of({"detail": why}, 403)
        token = token_from(request.headers.get("authorization"))
        if token is None:
            return self.too_often(request)
        # Known tokens pass whatever others at the same address have tried.
        spent = token_digest(token) not in self._valid and self._failures.spent(request.peer, time.monotonic())
        return _too_many() if spent else None

    def learn(self, request: Request, status: int) -> Response | None:
        """Learn from a server's answer whether a token is valid; return the 429 to send in its place, if any."""
        if status == 401:
            return _too_many() if self._failures.wait_s(request.peer, time.monotonic()) else None
        token = token_from(request.headers.get("authorization"))
        if token is not None and status < 400:  # 101, too
            self._valid[token_digest(token)] = None
            self._valid.move_to_end(token_digest(token))
            if len(self._valid) > _TOKENS:
                self._valid.popitem(last=False)
        return None

    async def handle(self, request: Request) -> Response:
        """Return the response to any request."""
        self._answering += 1
        try:
            response = self.refusal(request) or await self._answer(request)
        except Exception:
            response = report_incident(request)
        finally:
            self._answering -= 1
        self.metrics.count("paddock_requests_total", f'status="{response.status}"')
        logger.info("%s %d", request, response.status)
        return response

    async def answered(self, within_s: float) -> None:
        """Wait until no request is being answered."""
        ends_s = asyncio.get_running_loop().time() + within_s
        while self._answering and asyncio.get_running_loop().time() < ends_s:
            await asyncio.sleep(0.01)

    async def _answer(self, request: Request) -> Response:
        segments, ready = request.segments, sum(one.ready for one in self.gateway.servers)
        if segments[:1] == ("health",) and request.method in ("GET", "HEAD"):
            if segments == ("health",):
                word = "healthy" if ready == len(self._servers) else "degraded"
                return Response.of({"status": word, "servers": len(self._servers), "servers_ready": ready})
            if segments == ("health", "live"):
                return Response.of({"live": True})
            if segments == ("health", "ready"):
                return Response.of({"ready": ready > 0}, 200 if ready else 503)
        if segments == ("sessions",) and request.method == "GET":
            return await self._all_sessions(request)
        if len(segments) == 2 and segments[0] == "sessions" and request.method == "DELETE":
            return min(await self._ask_all(request), key=lambda one: (one.status != 200, one.status == 404))
        answer = await self._relay(request)
        if segments == ("metrics",) and answer.status == 200:  # a server has checked who asks
            return Response(200, self._metrics().encode(), answer.content_type)
        return answer

    def _metrics(self) -> str:
        lines = [(name, labels, count) for name, labels, count in self.metrics.dump()["counts"]]
        lines += [("paddock_gateway_total", f'what="{what}"', count) for what, count in self.gateway.counts.items()]
        for one in self.gateway.servers:
            lines.append(("paddock_gateway_server_ready", f'server="{one.name}"', int(one.ready)))
            lines.append(("paddock_gateway_connections", f'server="{one.name}"', one.load))
        return "".join(f"{name}{{{labels}}} {count}\n" for name, labels, count in lines)

    async def _ask_all(self, request: Request) -> list[Response]:
        return await asyncio.gather(*(self._forward(at, request, _ALL_S) for at in range(len(self._servers))))

    async def _all_sessions(self, request: Request) -> Response:
        answers = await self._ask_all(request)
        rows: list[dict[str, Any]] = []
        missing = []
        for server, answer in zip(self._servers, answers, strict=True):
            try:
                rows += msgspec.json.decode(answer.body, type=_Sessions).sessions
            except (msgspec.DecodeError, RecursionError):
                missing.append(str(server))
        if len(missing) == len(answers):
            return min(answers, key=lambda one: one.status)  # a refusal rather than a failure
        more = {"missing": missing} if missing else {}
        return Response.of({"sessions": sorted(rows, key=lambda row: -row["age_s"]), **more})

    async def _relay(self, request: Request) -> Response:
        """Have the server with the request's session answer it; without a session any server, or a second one."""
        holder = self._holder(request)
        if holder is not None:
            return await self._forward(holder, request)
        tried: set[int] = set()
        answer = _unreachable("No server is ready.")
        while (at := self.gateway.choose(tried)) is not None:
            tried.add(at)
            answer = await self._forward(at, request)
            if answer.status not in (404, 503):  # neither was carried out
                break
        return answer

    def _holder(self, request: Request) -> int | None:
        session = self.session(request)
        return None if session is None else self.gateway.holder(session)

    def session(self, request: Request) -> str | None:
        """Return the session that a request names, or the pass that is for one."""
        token = token_from(request.headers.get("authorization")) or ""
        return token if self.gateway.holder(token) is not None else session_of(request)

    async def _forward(self, at: int, request: Request, within_s: float = _ANSWER_S) -> Response:
        try:
            answer, body = await asyncio.wait_for(self._exchange(at, request), within_s)
        except ConnectionRefusedError:
            self.gateway.checked(at, ready=False)
            return _unreachable("The server of this request does not answer.")
        except (OSError, Refused, asyncio.TimeoutError):
            return Response.of(
                {"detail": "The server was lost while it answered: the request may have been carried out."}, 502
            )
        kinds = values(answer.headers, "content-type")
        answered = Response(answer.status, body, kinds[0] if kinds else "application/json", _passing(answer))
        return self.learn(request, answer.status) or answered

    async def _exchange(self, at: int, request: Request) -> tuple[Answer, bytes]:
        """Send a request to a server; its answer and body."""
        stream = await asyncio.wait_for(self.connect(at), _DIAL_S)
        try:
            headers = [("Connection", "close"), ("Content-Length", str(len(request.body)))]
            return await stream.exchange(self.head(at, request, headers), request.body, request.method, _ANSWER_BYTES)
        finally:
            stream.writer.close()

    async def connect(self, at: int) -> Stream:
        """Connect to a server, with TLS if its URL says so."""
        address = self._servers[at]
        context = self._context if address.secure else None
        stream = await Stream.to(address.host, address.port, unix=address.unix, context=context, whom=str(address))
        end_if_stalled(stream.writer.transport)
        return stream

    def head(self, at: int, request: Request, headers: Sequence[tuple[str, str]]) -> bytes:
        """Write a request for a server: what may pass of the client's, and what is the gateway's to say."""
        passed = [(name, value) for name, value in request.headers.items() if name in _REQUEST_HEADERS]
        host = self._servers[at].endpoint("/").host_header
        target = f"{request.path}?{request.query}" if request.query else request.path
        return head_bytes(f"{request.method} {target} HTTP/1.1", [("Host", host), *headers, *passed])


class _Sessions(msgspec.Struct):
    """What a server lists. Its other fields are not looked at."""

    sessions: list[dict[str, Any]]

    def __post_init__(self) -> None:
        if not all(isinstance(row.get("age_s"), (int, float)) for row in self.sessions):
            raise ValueError("a session without an age")


def _too_many() -> Response:
    return Response.of({"detail": "Too many requests."}, 429, _LATER)


def _unreachable(text: str) -> Response:
    return Response.of({"detail": f"{text} Try again later.", "code": Unreachable.code}, 503, _LATER)


class ClientConnection(NewConnection):
    """A client's connection: like a server's, but a websocket becomes a flow."""

    _api: GatewayApi  # type: ignore[assignment]

    def _upgrade(self, upgrade: Request, head: bytes, rest: bytes) -> None:
        refused = self._api.refusal(upgrade) or handshake_refusal(upgrade)
        if refused is not None:
            self._become(self._http()).refuse(refused)
            return
        self._caller.release()
        Flow(self._api, upgrade, self._transport, rest, self._answer, self._caller.gone).begin()

    def _answer(self, response: Response) -> None:
        """Refuse the websocket after all."""
        connection: HttpConnection = self._become(self._http())
        connection.refuse(response)


class Flow:
    """One client's websocket and the server's that goes with it. Carries out what the gateway commands."""

    def __init__(
        self,
        api: GatewayApi,
        upgrade: Request,
        transport: Any,
        rest: bytes,
        refuse: Callable[[Response], None],
        on_end: Callable[[], None],
    ) -> None:
        self._api, self._upgrade, self._refuse, self._on_end = api, upgrade, refuse, on_end
        api.number += 1
        self.number = api.number
        api.flows[self.number] = self
        self._loop = asyncio.get_running_loop()
        self._reader, self._writer = become_streams(transport)
        end_if_stalled(transport)
        if rest:
            self._reader.feed_data(rest)
        self._far: Stream | None = None
        self._answer_head = b""
        self._refusal: Response | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by what they do; kept, or they might be garbage-collected
        self._from_client, self._from_server = Cutter(), Cutter()
        self._spliced = False
        self._frames = FrameWriter()

    def begin(self) -> None:
        offered = [one.strip() for one in self._upgrade.headers.get("sec-websocket-protocol", "").split(",")]
        native = any(one in offered for one in SUBPROTOCOLS) and self._upgrade.segments[-1:] == ("ws",)
        self._carry(self._api.gateway.arrive(self.number, native=native, session=self._api.session(self._upgrade)))

    def drop(self) -> None:
        self._carry(self._api.gateway.client_gone(self.number))

    def _carry(self, commands: list[g.Command]) -> None:
        for command in commands:
            if isinstance(command, g.ToServer):
                if self._far is not None:
                    self._far.writer.write(self._frames.frame(BINARY, command.frame))
            elif isinstance(command, g.ToClient):
                self._writer.write(_plain_frame(command.frame))
            elif isinstance(command, g.Dial):
                self._hang_up()
                self._run("dial", self._dial(command.server))
            elif isinstance(command, g.Accept):
                self._writer.write(self._answer_head)
                self._run("client", self._read_client())
            elif isinstance(command, g.Splice):
                self._splice()
            elif isinstance(command, g.Refuse):
                self._api.flows.pop(self.number, None)
                self._refuse(self._refusal or _unreachable("No server is ready."))
            else:
                self._end()

    def _run(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[what] = self._loop.create_task(work)
        task.add_done_callback(_report)

    def _hang_up(self) -> None:
        """End the connection to the server, or the attempt at one: a late success would take the place of the next."""
        for what in ("dial", "server"):
            if (task := self._tasks.pop(what, None)) is not None and task is not asyncio.current_task():
                task.cancel()
        if self._far is not None:
            self._far.writer.close()
            self._far = None
        self._from_server = Cutter()

    def _end(self) -> None:
        self._api.flows.pop(self.number, None)
        self._hang_up()
        for task in self._tasks.values():
            if task is not asyncio.current_task():
                task.cancel()
        self._writer.close()
        self._on_end()

    async def _dial(self, at: int) -> None:
        api, gateway = self._api, self._api.gateway
        stream: Stream | None = None
        try:
            stream = await asyncio.wait_for(api.connect(at), _DIAL_S)
            stream.deadline = time.monotonic() + _DIAL_S
            upgrade = [("Upgrade", "websocket"), ("Connection", "Upgrade")]
            answer, body = await stream.exchange(api.head(at, self._upgrade, upgrade), b"", "GET", HEAD_BYTES)
            refused = api.learn(self._upgrade, answer.status)
            if answer.status != 101:
                self._refusal = refused or Response(answer.status, body, headers=_passing(answer))
        except (OSError, Refused, asyncio.TimeoutError):
            if stream is not None:
                stream.writer.close()
            self._carry(gateway.unreached(self.number))
            return
        except asyncio.CancelledError:
            if stream is not None:
                stream.writer.close()
            raise
        if answer.status != 101:
            stream.writer.close()
        else:
            self._far = stream
            self._answer_head = _switching(answer)
            self._run("server", self._read_server(stream))
        self._carry(gateway.reached(self.number, answer.status))

    async def _read_client(self) -> None:
        with suppress(OSError):
            while data := await self._reader.read(_PIECE_BYTES):
                if self._spliced and self._far is not None:
                    self._far.writer.write(data)
                    await self._far.writer.drain()
                    continue
                for opcode, payload, raw in self._from_client.feed(data):
                    self._take_client(opcode, payload, raw)
                if self._from_client.blind and not self._spliced:
                    self._carry(self._api.gateway.splice(self.number))
                if (far := self._far) is not None:
                    with suppress(OSError):  # a server that was lost: its own reader says so
                        await far.writer.drain()
        self._carry(self._api.gateway.client_gone(self.number))

    def _take_client(self, opcode: int, payload: bytes, raw: bytes) -> None:
        if self._spliced or opcode != BINARY:
            if self._far is not None:  # a ping, or the client's Close
                self._far.writer.write(raw)
            return
        self._carry(self._api.gateway.client_frame(self.number, payload))

    async def _read_server(self, stream: Stream) -> None:
        with suppress(OSError):
            while data := await stream.reader.read(_PIECE_BYTES):
                if self._spliced:
                    self._writer.write(data)
                    await self._writer.drain()
                    continue
                for opcode, payload, raw in self._from_server.feed(data):
                    self._take_server(opcode, payload, raw)
                    if self._far is not stream:  # another server takes its place
                        return
                if self._from_server.blind and not self._spliced:
                    self._carry(self._api.gateway.splice(self.number))
                await self._writer.drain()
        if self._far is stream:
            self._carry(self._api.gateway.server_gone(self.number))

    def _take_server(self, opcode: int, payload: bytes, raw: bytes) -> None:
        gateway = self._api.gateway
        if self._spliced or (opcode != BINARY and not (opcode == CLOSE and gateway.may_move(self.number))):
            self._writer.write(raw)
        elif opcode == CLOSE:
            self._carry(gateway.server_gone(self.number))
        else:
            self._carry(gateway.server_frame(self.number, payload))

    def _splice(self) -> None:
        """Stop looking at messages. What was read and not passed on yet goes first."""
        self._spliced = True
        if self._far is not None:
            self._far.writer.write(self._from_client.rest())
            self._writer.write(self._from_server.rest())
            if "client" not in self._tasks:
                self._run("client", self._read_client())


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("a flow of the gateway failed", exc_info=error)


def _passing(answer: Answer) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers if name.lower() in _ANSWER_HEADERS}


def _switching(answer: Answer) -> bytes:
    names = ("sec-websocket-accept", "sec-websocket-protocol")
    chosen = [(name, value) for name, value in answer.headers if name.lower() in names]
    return head_bytes(
        "HTTP/1.1 101 Switching Protocols", [("Upgrade", "websocket"), ("Connection", "Upgrade"), *chosen]
    )


def _plain_frame(payload: bytes) -> bytes:
    """A frame from a server, which is not masked."""
    size, first = len(payload), 0x80 | BINARY
    if size < 126:
        return bytes((first, size)) + payload
    form, more = (126, 2) if size < 1 << 16 else (127, 8)
    return bytes((first, form)) + size.to_bytes(more, "big") + payload


class Cutter:
    """Cuts what a peer sends into frames: opcode, payload without its mask, and the bytes as they came.

    At a fragment, or a message that is too large to be looked at, it goes blind: ``rest`` has what is left.
    """

    def __init__(self) -> None:
        self._data = bytearray()
        self.blind = False

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield the frames that are complete."""
        self._data += data
        while (place := self._find_frame()) is not None:
            at, end = place
            raw = bytes(self._data[:end])
            del self._data[:end]
            yield raw[0] & 0x0F, mask(raw[at:], raw[at - 4 : at]) if raw[1] & 0x80 else raw[at:], raw

    def _find_frame(self) -> tuple[int, int] | None:
        """Return where the payload of a whole frame begins and ends."""
        data = self._data
        more = 0 if len(data) < 2 else {126: 2, 127: 8}.get(data[1] & 0x7F, 0)
        if self.blind or len(data) < 2 + more:
            return None
        size = int.from_bytes(data[2 : 2 + more], "big") if more else data[1] & 0x7F
        self.blind = size > _LOOK_BYTES or not data[0] & 0x80
        at = 2 + more + (4 if data[1] & 0x80 else 0)
        return None if self.blind or len(data) < at + size else (at, at + size)

    def rest(self) -> bytes:
        data, self._data = bytes(self._data), bytearray()
        return data
