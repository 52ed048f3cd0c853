"""run(): a server on one port for HTTP and websockets, until SIGTERM or Ctrl-C, which drain it.

The first request of a connection decides which of the two it is. Under systemd the server reports when it is ready.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from paddock.errors import PlanError
from paddock.hosting.websocket.connection import FrameWriter
from paddock.sandbox.http1 import HEAD_BYTES
from paddock.server import telemetry
from paddock.server.auth import OriginCheck, Tokens
from paddock.server.http import Request, Response
from paddock.server.http_api import HttpApi
from paddock.server.http_connection import HEAD_S, Caller, Callers, HttpConnection
from paddock.server.journal import lock_folder, server_mark
from paddock.server.processes import Parent, Processes
from paddock.server.served_env import ServedEnv
from paddock.server.service import Service
from paddock.server.settings import Settings
from paddock.server.websocket import (
    UnixTransport,
    WebsocketListener,
    bare_handshake,
    feed,
    handshake_refusal,
    read_upgrade,
    websocket_protocol,
)


def run(
    served: Sequence[ServedEnv],
    settings: Settings,
    tokens: Tokens | None,
    *,
    when_ready: Callable[[Any], None],
    log: telemetry.LogForm | None = None,
) -> None:
    """Serve. ``when_ready`` is called with the addresses once requests are answered; ``log``: see ``begin_logging``."""
    settings.check()
    telemetry.begin_logging(log)
    run = runner()
    processes = Processes(settings.processes)
    if settings.journal is not None:
        processes.mark = server_mark(settings.journal, processes.mark)
    try:
        if settings.processes > 1:
            _serve_together(settings, processes, lambda: run(_serve(served, settings, tokens, processes)), when_ready)
        else:
            run(_serve(served, settings, tokens, processes, when_ready))
    finally:
        if settings.uds is not None:
            settings.uds.unlink(missing_ok=True)


def runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    """Prepare this process for many connections; return what runs a coroutine: uvloop, where it is installed."""
    import resource  # here: this module can be imported on every system

    with suppress(OSError, ValueError):
        # A session takes about five descriptors; the usual soft limit of 1,024 is for programs that use select().
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with suppress(ImportError):
        import uvloop

        return uvloop.run
    return asyncio.run


def _serve_together(
    settings: Settings, processes: Processes, serve: Callable[[], None], when_ready: Callable[[Any], None]
) -> None:
    if threading.active_count() > 1:  # a fork copies only one of them, and whatever the others have locked
        raise PlanError("Several processes can't be started in a program that has threads. Use --processes 1.")
    lock = None
    try:
        lock = None if settings.journal is None else lock_folder(settings.journal)
        listening = bind(settings)
        addresses = [one.getsockname() for one in listening]

        def ready() -> None:
            when_ready(addresses)
            notify("READY=1")

        stopping = partial(notify, "STOPPING=1")
        drain_s = settings.drain_s
        gc.freeze()  # before the processes begin, so that they share the memory of all this
        Parent(processes, listening, serve, when_ready=ready, when_stopping=stopping, drain_s=drain_s).run()
    finally:
        processes.dispose()
        if lock is not None:
            os.close(lock)


async def _serve(
    served: Sequence[ServedEnv],
    settings: Settings,
    tokens: Tokens | None,
    processes: Processes,
    when_ready: Callable[[Any], None] | None = None,
) -> None:
    """Serve in this process; without ``when_ready`` it has a parent, which knows the addresses."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    # A terminal sends Ctrl-C to all processes, and the parent passes it on.
    loop.add_signal_handler(signal.SIGINT, stop.set if when_ready is not None else lambda: None)
    service = Service(served, settings, processes)
    origin_check = OriginCheck.for_bind(None if settings.uds else settings.host, settings.origins, settings.hosts)
    api = HttpApi(service, origin_check, tokens)
    acceptor: Acceptor | None = None
    try:
        await service.start()
        server = acceptor = await listen(api, settings)
        service.each_tick.append(lambda: processes.report_load(server.connections + service.sessions_here))
        gc.freeze()  # all this stays: a garbage collection of it would hold up every session
        if when_ready is None:
            processes.report()
        else:
            when_ready([socket.getsockname() for socket in server.sockets])
            notify("READY=1")
        await stop.wait()
        if when_ready is not None:
            notify("STOPPING=1")
    finally:
        if acceptor is not None:
            acceptor.close()
        await service.stop()
        if acceptor is not None:
            await acceptor.end()


def notify(state: str) -> None:
    """Tell systemd, if it started this process (``Type=notify``)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address.startswith(("/", "@")):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
            to.connect("\0" + address[1:] if address[0] == "@" else address)
            to.sendall(state.encode())


# ── Connections ──

_END = b"\r\n\r\n"
_BINARY = 2  # the opcode of a websocket frame
_PIECE_BYTES = 1 << 16
_BACKLOG = 4096  # connections that wait to be accepted; the kernel may allow fewer
_ACCEPT_S, _ACCEPT_AGAIN_S = 0.005, 0.1  # per turn of the loop; and after running out of descriptors
_ENTER_A_TURN = 16
_END_S = 0.5  # for what was written and the end of TLS, when the server stops
_TLS_S = 60.0  # for the handshake: on a busy machine a client may be slow too
_TLS_RECORD = b"\x16"  # the first byte of a handshake

_relaying: set[asyncio.Task[None]] = set()  # kept here: streams and tasks that only refer to each other are collected


class NewConnection(asyncio.Protocol):
    """A new connection, until its first request tells whether it is HTTP or a websocket."""

    def __init__(self, api: HttpApi, settings: Settings, caller: Caller) -> None:
        self._api, self._settings, self._caller = api, settings, caller
        self._peer = caller.peer
        self._head = bytearray()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._is_unix = transport.get_extra_info("socket").family == socket.AF_UNIX
        self._caller.entered(transport)
        self._timer = asyncio.get_running_loop().call_later(HEAD_S, transport.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self._timer.cancel()
        self._caller.gone()

    def data_received(self, data: bytes) -> None:
        looked_at = max(0, len(self._head) - len(_END) + 1)
        self._head += data
        ends = self._head.find(_END, looked_at)
        if ends < 0 and len(self._head) <= HEAD_BYTES:
            return
        self._timer.cancel()
        came = bytes(self._head)
        head, rest = came[: ends + len(_END)], came[ends + len(_END) :]
        upgrade = read_upgrade(head, self._peer, relayed=self._caller.relayed) if ends >= 0 else None
        if upgrade is None:
            self._become(self._http()).data_received(came)
        else:
            self._upgrade(upgrade, head, rest)

    def _upgrade(self, upgrade: Request, head: bytes, rest: bytes) -> None:
        elsewhere = self._api.holder(upgrade)
        if elsewhere is None:
            self._open(upgrade, head, rest)
        else:
            self._relay(elsewhere, head + rest)

    def _open(self, upgrade: Request, head: bytes, rest: bytes) -> None:
        listener = WebsocketListener(self._settings.max_message)
        refused, subprotocol = handshake_refusal(upgrade), None
        if refused is not None:
            refused = self._api.too_often(upgrade) or refused
        else:
            found, subprotocol = self._api.socket(upgrade, listener)
            if isinstance(found, Response):
                refused = found
            else:
                listener.handler = found
                listener.on_leave = partial(self._api.forget, listener)
                listener.relay = None if upgrade.relayed else partial(self._relay_native, listener, head)
        if refused is not None:
            self._become(self._http()).refuse(refused)
            return
        self._caller.release()
        listener.on_lost = self._caller.gone
        self._websocket = self._become(websocket_protocol(listener, subprotocol, self._settings))
        feed(self._websocket, bare_handshake(upgrade) + rest)

    def _relay_native(self, listener: WebsocketListener, head: bytes, process: int, hello: bytes) -> None:
        """Let another process have a websocket whose Hello resumes a session there.

        It gets the same request and the same Hello; its 101 is left out, since the peer got one. A peer sends nothing
        between its Hello and the Welcome; what one sends nevertheless is lost.
        """
        listener.open = False
        self._transport.pause_reading()

        def relay() -> None:
            if not self._transport.is_closing():
                listener.on_lost = lambda: None
                self._websocket.connection_lost(None)  # ends its timers
                self._relay(process, head + bytes(FrameWriter().frame(_BINARY, hello)), upgraded=True)

        asyncio.get_running_loop().call_soon(relay)  # picows is still at work

    def _relay(self, process: int, came: bytes, *, upgraded: bool = False) -> None:
        """Let another process have this connection. It gets the same bytes, and the peer the bytes of its answers."""
        self._caller.release()
        reader, writer = become_streams(self._transport)
        with suppress(RuntimeError):  # it may be closing
            self._transport.resume_reading()

        self._api.relays += 1
        task = asyncio.ensure_future(self._carry(reader, writer, process, came, upgraded=upgraded))
        _relaying.add(task)
        task.add_done_callback(_relaying.discard)

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, process: int, came: bytes, *, upgraded: bool
    ) -> None:
        ends = [writer]
        try:
            sock = self._api.processes.connect(process, self._peer)
            far_reader, far_writer = await asyncio.open_unix_connection(sock=sock)
            ends.append(far_writer)
            far_writer.write(came)
            if upgraded and b" 101 " not in (await far_reader.readuntil(_END)).partition(b"\r\n")[0]:
                raise ConnectionAbortedError("it was refused: the client finds its connection closed")
            ways = [asyncio.ensure_future(_copy(*way)) for way in ((reader, far_writer), (far_reader, writer))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        except (OSError, EOFError):
            self._transport.abort()
        finally:
            self._api.relays -= 1
            for end in ends:
                end.close()
            self._caller.gone()

    def _http(self) -> HttpConnection:
        return HttpConnection(self._api, max_body=self._settings.max_body, peer=self._peer, caller=self._caller)

    def _become(self, protocol: Any) -> Any:
        self._transport.set_protocol(protocol)
        protocol.connection_made(UnixTransport(self._transport) if self._is_unix else self._transport)
        return protocol


def become_streams(transport: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Read from and write to a connection that had another protocol until now."""
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    return reader, asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(_PIECE_BYTES):
            sink.write(data)
            await sink.drain()


class _PlainHttp(HttpConnection):
    """Tells a client that speaks plain HTTP to a TLS port to use https."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._caller.entered(transport)
        detail = "This port expects TLS. Use https:// (wss:// for websockets)."
        late = self._handler.too_often(Request("-", "-", "", {}, peer=self._caller.peer))
        self.refuse(late or Response.of({"detail": detail}, 400))


class Acceptor:
    """Accepts a few connections per turn of the loop, so that a burst doesn't delay the others.

    Nothing is done for one before its first byte has come: a silent one costs a descriptor, and no TLS.
    """

    def __init__(
        self,
        api: HttpApi,
        settings: Settings,
        sockets: Sequence[socket.socket | Processes],
        begin: type[NewConnection] = NewConnection,
    ) -> None:
        self.sockets: Sequence[Any] = sockets
        self._begin = begin
        self._api, self._settings = api, settings
        self._loop = asyncio.get_running_loop()
        count = api.processes.count  # each has its share of the connections
        self._callers = Callers(-(-settings.callers_each // count), -(-settings.callers // count))
        # Connections to be let in, by address: TLS makes that slow, so each address has its turn.
        self._entrants: dict[str, deque[tuple[socket.socket, Caller]]] = {}
        self._silent: dict[socket.socket, tuple[Caller, asyncio.TimerHandle]] = {}  # that have sent nothing yet
        self._entering: set[asyncio.Task[None]] = set()  # kept, or they might be garbage-collected
        self._context: ssl.SSLContext | None = None
        if settings.tls_cert is not None:
            self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self._context.load_cert_chain(settings.tls_cert, settings.tls_key)
        for sock in self.sockets:
            self._watch(sock)

    @property
    def connections(self) -> int:
        """How many there are, of those that wait to be let in too."""
        return len(self._callers.open) + len(self._silent) + sum(map(len, self._entrants.values()))

    def _watch(self, listening: Any) -> None:
        if listening.fileno() >= 0:  # it may have been closed meanwhile
            self._loop.add_reader(listening, self._accept, listening)

    def close(self) -> None:
        """Stop accepting, and drop connections that wait to be let in; open ones stay until ``end``."""
        for sock in self.sockets:
            self._loop.remove_reader(sock)
            sock.close()
        for sock in list(self._silent):
            _drop(sock, self._no_longer_silent(sock))
        for line in self._entrants.values():
            for sock, caller in line:
                _drop(sock, caller)
        self._entrants.clear()
        for task in self._entering:
            task.cancel()

    async def end(self) -> None:
        """Close the connections that are still open, and return when they are closed.

        Those to other processes end by themselves: each answers what it was asked.
        """
        ends_s = time.monotonic() + self._settings.drain_s
        while self._api.relays and time.monotonic() < ends_s:
            await asyncio.sleep(0.005)
        for transport in list(self._callers.open.values()):
            transport.close()
        await self._until_closed()
        for caller, transport in list(self._callers.open.items()):  # deaf, or silent at the end of TLS
            transport.abort()
            caller.drop()  # asyncio's TLS can't be aborted once it was closed twice
        await self._until_closed()

    async def _until_closed(self) -> None:
        ends_s = time.monotonic() + _END_S
        while self._callers.open and time.monotonic() < ends_s:
            await asyncio.sleep(0.005)

    def _accept(self, listening: Any) -> None:
        ends_s = time.monotonic() + _ACCEPT_S
        while time.monotonic() < ends_s:
            try:
                sock, name = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # out of descriptors or memory
                self._callers.make_room()
                self._loop.remove_reader(listening)
                self._loop.call_later(_ACCEPT_AGAIN_S, self._watch, listening)
                return
            # By another process. A unix socket's own name says nothing: whoever connects may have chosen it.
            relayed = isinstance(listening, Processes) and isinstance(name, str) and name != ""
            self._api.metrics.count("paddock_connections_total", by=not relayed)
            sock.setblocking(False)
            has_data = _has_data(sock)
            if has_data is None:  # it has left already, as in most floods
                sock.close()
                continue
            peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else name if relayed else "unix"
            caller = self._callers.admit(sock, peer, relayed=relayed)
            if caller is None:
                sock.close()
            elif has_data:
                self._queue(sock, caller)
            else:
                self._silent[sock] = caller, self._loop.call_later(HEAD_S, caller.drop)
                self._loop.add_reader(sock, self._on_first_byte, sock)

    def _on_first_byte(self, sock: socket.socket) -> None:
        caller = self._no_longer_silent(sock)
        if _has_data(sock) is None:
            _drop(sock, caller)
        else:
            self._queue(sock, caller)

    def _no_longer_silent(self, sock: socket.socket) -> Caller:
        caller, timer = self._silent.pop(sock)
        timer.cancel()
        self._loop.remove_reader(sock)
        return caller

    def _queue(self, sock: socket.socket, caller: Caller) -> None:
        if len(self._entrants.get(caller.address, ())) >= self._settings.callers_each:
            # Those that were dropped meanwhile are still in the queue, and each has a descriptor.
            _drop(sock, caller)
            return
        if not self._entrants:
            self._loop.call_soon(self._let_in)
        self._entrants.setdefault(caller.address, deque()).append((sock, caller))

    def _let_in(self) -> None:
        for _ in range(_ENTER_A_TURN):
            if not self._entrants:
                return
            address = next(iter(self._entrants))
            line = self._entrants.pop(address)
            sock, caller = line.popleft()
            task = self._loop.create_task(self._enter(sock, caller))
            self._entering.add(task)
            task.add_done_callback(partial(self._finish_entering, sock, caller))
            if line:
                self._entrants[address] = line  # behind the other addresses
        if self._entrants:
            self._loop.call_soon(self._let_in)

    async def _enter(self, sock: socket.socket, caller: Caller) -> None:
        def door() -> NewConnection | _PlainHttp:
            if plain:
                return _PlainHttp(self._api, max_body=0, peer=caller.peer, caller=caller)
            return self._begin(self._api, self._settings, caller)

        tls: dict[str, Any] = {}
        secure = self._context is not None and sock.family != socket.AF_UNIX  # that of another process has no TLS
        plain = secure and sock.recv(1, socket.MSG_PEEK) != _TLS_RECORD
        if secure and not plain:
            tls = {"ssl": self._context, "ssl_handshake_timeout": _TLS_S}
        await self._loop.connect_accepted_socket(door, sock, **tls)

    def _finish_entering(self, sock: socket.socket, caller: Caller, task: asyncio.Task[None]) -> None:
        # Here and not in the task, which may be cancelled before it begins.
        self._entering.discard(task)
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            _drop(sock, caller)
        if error is not None and not isinstance(error, OSError):  # an OSError: it left, or its TLS is not TLS
            raise error


def _drop(sock: socket.socket, caller: Caller) -> None:
    caller.release()
    sock.close()


def _has_data(sock: socket.socket) -> bool | None:
    """Whether the peer has sent something; None if it has left."""
    try:
        return bool(sock.recv(1, socket.MSG_PEEK)) or None
    except BlockingIOError:
        return False
    except OSError:
        return None


async def listen(api: HttpApi, settings: Settings) -> Acceptor:
    """Listen where the settings say, or where the parent does, and accept connections from now on."""
    processes = api.processes
    return Acceptor(api, settings, bind(settings) if processes.count == 1 else [processes])


def bind(settings: Settings) -> list[socket.socket]:
    """Return sockets that listen where the settings say: one for each address of the host's name."""
    found: list[socket.socket] = []
    try:
        if settings.uds is not None:
            if settings.uds.is_socket():  # of a server that was killed
                settings.uds.unlink()
            found.append(socket.socket(socket.AF_UNIX))
            found[-1].bind(str(settings.uds))
            settings.uds.chmod(0o600)
        else:
            host = settings.host or None
            infos = socket.getaddrinfo(host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            found += [socket.create_server(address, family=family) for family, _, _, _, address in dict.fromkeys(infos)]
        for sock in found:
            sock.listen(_BACKLOG)
            sock.setblocking(False)
    except BaseException:
        for sock in found:
            sock.close()
        raise
    return found
