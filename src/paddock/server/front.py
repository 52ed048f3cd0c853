"""One port for HTTP and websockets: the first request of a connection decides. picows speaks the websockets.

Everything that depends on how picows is called inside stands in ``_websocket``: its protocol class takes positional
arguments that may change between versions.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from paddock.errors import DependencyNotInstalled
from paddock.server.connection import HEAD_BYTES, HEAD_S, HttpConnection
from paddock.server.http import Request, Response
from paddock.server.http_api import HttpApi
from paddock.server.settings import Settings

try:
    import picows
    from picows.picows import WSProtocol  # type: ignore[attr-defined]  # not in its stubs
except ImportError as error:
    raise DependencyNotInstalled(f"The server needs {error.name}. Run: pip install 'paddock[server]'") from error

_logger = logging.getLogger("paddock.server.websocket")
_PING_S = 20.0
_SLOW_READER_BYTES = 64 << 20  # of what waits to be sent to one peer
_END = b"\r\n\r\n"


class _Listener(picows.WSListener):
    """Between picows and a socket of the service."""

    def __init__(self) -> None:
        super().__init__()
        self.handler: Any = None
        self._transport: Any = None
        self._part = bytearray()  # of a message that comes in several frames
        self._text = False
        self._done = False  # the peer took leave
        self._early: list[bytes | str] = []

    def on_ws_connected(self, transport: Any) -> None:
        self._transport = transport
        for data in self._early:
            self.send(data)
        self._early.clear()

    def on_ws_frame(self, transport: Any, frame: Any) -> None:
        kind = frame.msg_type
        if kind is picows.WSMsgType.CLOSE:
            self._done = frame.get_close_code() == picows.WSCloseCode.OK
            transport.send_close(frame.get_close_code() or picows.WSCloseCode.OK)
            transport.disconnect()
            return
        if kind is picows.WSMsgType.BINARY or kind is picows.WSMsgType.TEXT:
            self._text = kind is picows.WSMsgType.TEXT
        elif kind is not picows.WSMsgType.CONTINUATION:
            return
        if not frame.fin or self._part:
            self._part += frame.get_payload_as_memoryview()
            if not frame.fin:
                return
            data, self._part = bytes(self._part), bytearray()
        else:
            data = frame.get_payload_as_bytes()
        self._take(data)

    def _take(self, data: bytes) -> None:
        if not self._text:
            self.handler.message(data)
            return
        try:
            text = data.decode()
        except UnicodeDecodeError:
            self.close(1007, "")
            return
        self.handler.message(text)

    def on_ws_disconnected(self, transport: Any) -> None:
        self.handler.closed(done=self._done)

    def send(self, data: bytes | str) -> None:
        if self._transport is None:
            self._early.append(data)
            return
        if self._transport.underlying_transport.get_write_buffer_size() > _SLOW_READER_BYTES:
            self._transport.underlying_transport.abort()  # it reads slower than it asks
        elif isinstance(data, str):
            self._transport.send(picows.WSMsgType.TEXT, data.encode())
        else:
            self._transport.send(picows.WSMsgType.BINARY, data)

    def close(self, code: int, reason: str) -> None:
        if self._transport is not None:
            with suppress(Exception):  # it may be gone already
                self._transport.send_close(code, reason.encode()[:120] or None)
                self._transport.disconnect()


def _websocket(api: HttpApi, settings: Settings, peer: str) -> Any:
    def listener_for(upgrade: Any) -> Any:
        headers = {name.lower(): value for name, value in upgrade.headers.items()}
        path, _, query = upgrade.path.decode("latin-1").partition("?")
        listener = _Listener()
        found, subprotocol = api.socket(Request("GET", path, query, headers, peer=peer), listener)
        if isinstance(found, Response):
            answer = picows.WSUpgradeResponse.create_error_response(
                HTTPStatus(found.status), found.body, {"content-type": found.content_type, **found.headers}
            )
            return picows.WSUpgradeResponseWithListener(answer, None)
        listener.handler = found
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
        _PING_S,
        _PING_S,
        picows.WSAutoPingStrategy.PING_WHEN_IDLE,
        True,
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
        self._head += data
        if _END not in self._head and len(self._head) <= HEAD_BYTES:
            return
        self._timer.cancel()
        head, came = bytes(self._head).partition(_END)[0].lower(), bytes(self._head)
        if b"\r\nupgrade:" in head and b"websocket" in head and head.startswith(b"get "):
            protocol = _websocket(self._api, self._settings, self._peer)
            self._transport.set_protocol(protocol)
            protocol.connection_made(self._transport)
            _feed(protocol, came)
        else:
            http = HttpConnection(self._api.handle, max_body=self._settings.max_body, peer=self._peer)
            self._transport.set_protocol(http)
            http.connection_made(self._transport)
            http.data_received(came)


def _feed(protocol: Any, data: bytes) -> None:
    """Hand what was read already to a protocol that lends its own buffer."""
    rest = memoryview(data)
    while rest:
        buffer = protocol.get_buffer(len(rest))
        size = min(len(buffer), len(rest))
        buffer[:size] = rest[:size]
        protocol.buffer_updated(size)
        rest = rest[size:]


async def listen(api: HttpApi, settings: Settings) -> asyncio.Server:
    """Listen where the settings say."""
    loop = asyncio.get_running_loop()
    context = None
    if settings.tls_cert is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    if settings.uds is not None:
        server = await loop.create_unix_server(lambda: FrontDoor(api, settings), str(settings.uds), ssl=context)
        settings.uds.chmod(0o600)
        return server
    return await loop.create_server(lambda: FrontDoor(api, settings), settings.host, settings.port, ssl=context)
