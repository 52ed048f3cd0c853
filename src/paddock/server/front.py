"""One port for HTTP and websockets: the first request of a connection decides. picows speaks the websockets.

Everything that depends on how picows is called inside stands in ``_websocket``: its protocol class takes positional
arguments that may change between versions.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from paddock.errors import DependencyNotInstalled
from paddock.server.connection import HEAD_BYTES, HEAD_S, HttpConnection
from paddock.server.http import Request, Response
from paddock.server.http_api import HttpApi
from paddock.server.settings import Settings
from paddock.server.unix_transport import UnixTransport
from paddock.server.upgrade import handed_on, handshake_refusal, read_upgrade

try:
    import picows
    from picows.picows import WSProtocol  # type: ignore[attr-defined]  # not in its stubs
except ImportError as error:
    raise DependencyNotInstalled(f"The server needs {error.name}. Run: pip install 'paddock[server]'") from error

_logger = logging.getLogger("paddock.server.websocket")


def _to_debug(record: logging.LogRecord) -> bool:
    """Of each connection picows says what bears no session; our own records do."""
    if record.levelno == logging.INFO:
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
    return _logger.isEnabledFor(record.levelno)


_logger.addFilter(_to_debug)
_SLOW_READER_BYTES = 64 << 20  # of what waits to be sent to one peer
_LOOK_BYTES = 1 << 20  # after so many it is looked how much that is
# By name once: looking a member of an enum up takes as long as the rest of a listener's work.
_BINARY, _TEXT = picows.WSMsgType.BINARY, picows.WSMsgType.TEXT
_END = b"\r\n\r\n"
_PROTOCOL_ERROR, _TOO_BIG = 1002, 1009


class _Listener(picows.WSListener):
    """Between picows and a socket of the service."""

    def __init__(self, max_message: int) -> None:
        super().__init__()
        self.handler: Any = None
        self._transport: Any = None
        self._most = max_message
        self._part: bytearray | None = None  # of a message that comes in several frames
        self._text = False
        self._done = False  # the peer took leave
        self._early: list[bytes | str] = []
        self._unlooked = 0  # bytes that were sent since it was looked whether the peer takes them

    def on_ws_connected(self, transport: Any) -> None:
        self._transport = transport
        for data in self._early:
            self.send(data)
        self._early.clear()

    def on_ws_frame(self, transport: Any, frame: Any) -> None:
        kind = frame.msg_type
        if kind is _BINARY or kind is _TEXT:
            if frame.fin and self._part is None and not (frame.rsv1 or frame.rsv2 or frame.rsv3):  # hot: nearly all
                if kind is _BINARY and self.handler is not None:
                    self.handler.message(frame.get_payload_as_bytes())
                    return
                self._text = kind is _TEXT
                self._take(frame.get_payload_as_bytes())
            else:
                self._piece(frame, begins=True)
        elif kind is picows.WSMsgType.CONTINUATION:
            self._piece(frame, begins=False)
        elif kind is picows.WSMsgType.PING:
            self._pong(frame.get_payload_as_bytes())
        elif kind is picows.WSMsgType.CLOSE:
            self._done = frame.get_close_code() == picows.WSCloseCode.OK
            transport.send_close(frame.get_close_code() or picows.WSCloseCode.OK)
            transport.disconnect()

    def _piece(self, frame: Any, *, begins: bool) -> None:
        """One frame of a message in several; one that no message can have at this place ends the connection."""
        if begins is (self._part is not None) or frame.rsv1 or frame.rsv2 or frame.rsv3:
            self.close(_PROTOCOL_ERROR, "")
            return
        if self._part is None:
            self._part, self._text = bytearray(), frame.msg_type is picows.WSMsgType.TEXT
        self._part += frame.get_payload_as_memoryview()
        if len(self._part) > self._most:
            self.close(_TOO_BIG, "")
        elif frame.fin:
            data, self._part = bytes(self._part), None
            self._take(data)

    def _take(self, data: bytes) -> None:
        if self.handler is None:
            return
        # Bytes that are no UTF-8 become what no JSON may hold: refused there, and the session lives on.
        self.handler.message(data.decode(errors="surrogateescape") if self._text else data)

    def on_ws_disconnected(self, transport: Any) -> None:
        self._leave()

    def _leave(self) -> None:
        """Nothing more of this peer is heard."""
        handler, self.handler = self.handler, None
        if handler is not None:
            handler.closed(done=self._done)

    def send(self, data: bytes | str) -> None:
        if self._transport is None:
            self._early.append(data)
            return
        self._unlooked += len(data)
        if self._unlooked > _LOOK_BYTES and not self._reads():
            return
        if type(data) is str:
            self._transport.send(_TEXT, data.encode())
        else:
            self._transport.send(_BINARY, data)

    def _pong(self, payload: bytes) -> None:
        if self._reads():
            self._transport.send_pong(payload)

    def _reads(self) -> bool:
        """Whether the peer takes what it is sent; who reads slower than it asks is let go."""
        self._unlooked = 0
        if self._transport.underlying_transport.get_write_buffer_size() <= _SLOW_READER_BYTES:
            return True
        self._transport.underlying_transport.abort()
        return False

    def close(self, code: int, reason: str) -> None:
        if self._transport is not None:
            with suppress(Exception):  # it may be gone already
                self._transport.send_close(code, reason.encode()[:120] or None)
                self._transport.disconnect()


def _websocket(listener: _Listener, subprotocol: str | None, settings: Settings) -> Any:
    """The protocol of a websocket that was let in."""

    def listener_for(upgrade: Any) -> Any:
        chosen = {} if subprotocol is None else {"Sec-WebSocket-Protocol": subprotocol}
        return picows.WSUpgradeResponseWithListener(picows.WSUpgradeResponse.create_101_response(chosen), listener)

    return WSProtocol(
        None,
        None,
        False,
        listener_for,
        _logger,
        True,
        HEAD_S,
        True,
        settings.ping_s,
        settings.ping_s,
        picows.WSAutoPingStrategy.PING_WHEN_IDLE,
        False,  # pings are answered by the listener, which looks whether the peer reads
        settings.max_message,
        None,
        1 << 14,
    )


class FrontDoor(asyncio.Protocol):
    """A new connection, until it is known what it is."""

    def __init__(self, api: HttpApi, settings: Settings) -> None:
        self._api, self._settings = api, settings
        self._head = bytearray()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        name = transport.get_extra_info("peername")
        self._peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "unix"
        self._timer = asyncio.get_running_loop().call_later(HEAD_S, transport.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        looked_at = max(0, len(self._head) - len(_END) + 1)
        self._head += data
        ends = self._head.find(_END, looked_at)
        if ends < 0 and len(self._head) <= HEAD_BYTES:
            return
        self._timer.cancel()
        came = bytes(self._head)
        upgrade = read_upgrade(came[: ends + len(_END)], self._peer) if ends >= 0 else None
        if upgrade is None:
            self._become(self._http()).data_received(came)
        else:
            self._open(upgrade, came[ends + len(_END) :])

    def _open(self, upgrade: Request, rest: bytes) -> None:
        listener = _Listener(self._settings.max_message)
        refused, subprotocol = handshake_refusal(upgrade), None
        if refused is None:
            found, subprotocol = self._api.socket(upgrade, listener)
            if isinstance(found, Response):
                refused = found
            else:
                listener.handler = found
        if refused is not None:
            self._become(self._http()).refuse(refused)
            return
        _feed(self._become(_websocket(listener, subprotocol, self._settings)), handed_on(upgrade) + rest)

    def _http(self) -> HttpConnection:
        return HttpConnection(self._api.handle, max_body=self._settings.max_body, peer=self._peer)

    def _become(self, protocol: Any) -> Any:
        self._transport.set_protocol(protocol)
        protocol.connection_made(UnixTransport(self._transport) if self._peer == "unix" else self._transport)
        return protocol


def _feed(protocol: Any, data: bytes) -> None:
    """Hand what was read already to a protocol that lends its own buffer."""
    rest = memoryview(data)
    while rest:
        buffer = protocol.get_buffer(len(rest))
        size = min(len(buffer), len(rest))
        buffer[:size] = rest[:size]
        protocol.buffer_updated(size)
        rest = rest[size:]


_TLS_RECORD = b"\x16"  # what a handshake begins with
_ACCEPT_AGAIN_S = 0.1


class _PlainHttp(asyncio.Protocol):
    """Who speaks plain HTTP where TLS is spoken is told so."""

    def connection_made(self, transport: Any) -> None:
        detail = "This port speaks TLS, and plain HTTP came. Use https:// (for websockets wss://)."
        answer = HttpConnection(_no_answer, max_body=0)
        transport.set_protocol(answer)
        answer.connection_made(transport)
        answer.refuse(Response.of({"detail": detail}, 400))


async def _no_answer(request: Request) -> Response:
    raise AssertionError("nothing is read of it")


class _TlsPort:
    """Accepts connections to a port with TLS. The first byte of each is looked at, and left to what follows."""

    def __init__(self, bound: asyncio.Server, door: Callable[[], FrontDoor], context: ssl.SSLContext) -> None:
        self._bound, self._door, self._context = bound, door, context
        self._loop = asyncio.get_running_loop()
        self._entering: set[asyncio.Task[None]] = set()  # kept, or they might be collected
        self.sockets = [socket.socket(fileno=os.dup(one.fileno())) for one in bound.sockets]
        for sock in self.sockets:
            sock.listen(100)
            sock.setblocking(False)
            self._listen(sock)

    def close(self) -> None:
        """Take in nobody more; who is in stays."""
        for sock in self.sockets:
            self._loop.remove_reader(sock)
            sock.close()
        self._bound.close()

    def _listen(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        try:
            sock, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:  # no descriptors, or no memory
            self._loop.remove_reader(listening)
            self._loop.call_later(_ACCEPT_AGAIN_S, self._listen, listening)
            return
        sock.setblocking(False)
        task = self._loop.create_task(self._enter(sock))
        self._entering.add(task)
        task.add_done_callback(self._entering.discard)

    async def _enter(self, sock: socket.socket) -> None:
        heard = asyncio.Event()
        self._loop.add_reader(sock, heard.set)
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(heard.wait(), HEAD_S)
        self._loop.remove_reader(sock)
        try:
            plain = sock.recv(1, socket.MSG_PEEK) != _TLS_RECORD
            door = _PlainHttp if plain else self._door
            await self._loop.connect_accepted_socket(door, sock, ssl=None if plain else self._context)
        except OSError:  # it is silent or gone, or its TLS is not TLS
            sock.close()


async def listen(api: HttpApi, settings: Settings) -> asyncio.Server | _TlsPort:
    """Listen where the settings say."""
    loop = asyncio.get_running_loop()

    def door() -> FrontDoor:
        return FrontDoor(api, settings)

    context = None
    if settings.tls_cert is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    if settings.uds is not None:
        server = await loop.create_unix_server(door, str(settings.uds), ssl=context)
        settings.uds.chmod(0o600)
        return server
    bound = await loop.create_server(door, settings.host, settings.port, start_serving=context is None)
    return bound if context is None else _TlsPort(bound, door, context)
