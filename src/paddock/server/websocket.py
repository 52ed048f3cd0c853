"""Websockets by picows: the handshake, the frames, and limits on peers that send too much or read too slowly.

Everything that depends on picows' internals is in ``websocket_protocol``: the protocol class takes positional
arguments that may change between versions.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from paddock.errors import DependencyNotInstalled, RateLimited
from paddock.hosting.failures import close_reason
from paddock.sandbox.http1 import Refused, head_bytes
from paddock.server.http import Request, Response
from paddock.server.http_connection import HEAD_S, read_request_head
from paddock.server.native_socket import NORMAL, POLICY_VIOLATION, TOO_MANY_FRAMES
from paddock.server.settings import Settings

try:
    import picows
    from picows.picows import WSProtocol  # type: ignore[attr-defined]  # not in its stubs
except ImportError as error:
    raise DependencyNotInstalled(f"The server needs {error.name}. Run: pip install 'picows<2.4' uvloop") from error

_logger = logging.getLogger("paddock.server.websocket")
_logger.setLevel(logging.WARNING)  # picows has an INFO line for each connection, without the session: ours name it
_SLOW_READER_BYTES = 64 << 20  # that may wait to be sent to one peer
_CHECK_BYTES = 1 << 20  # sent between two checks of that
# Bound once: looking up a member of an enum takes as long as the rest of a listener's work.
_BINARY, _TEXT = picows.WSMsgType.BINARY, picows.WSMsgType.TEXT
_PROTOCOL_ERROR, _TOO_BIG = 1002, 1009
# A client has at most 64 requests in flight: after 64 frames in one read, reading pauses until the next turn of the
# loop. More than 1,000 frames in one read can't be requests: the connection is closed.
_READ_BYTES, _LARGE_READ_BYTES = 1 << 14, 1 << 18
_FRAMES_A_TURN, _FRAMES_A_READ = 64, 1000
_PAUSE_S = 0.01  # a pause is not extended by less
_SMALL_BYTES = 1 << 16  # of a message before the Welcome: a Hello is smaller
_LINGER_S = 2.0  # from a Close to the end of the connection
_PIECES, _EMPTY_PIECES = 4096, 16  # of one message; the last may be empty too
_SMALL_PIECE = 1024  # bytes; a larger one costs no more than a request
_VERSION = "13"
_KEY_BYTES = 16


def read_upgrade(head: bytes, peer: str, *, relayed: bool = False) -> Request | None:
    """Read the request for a websocket from ``head``, blank line included; None if it is anything else.

    Read by our one reader of requests: a second parser that read the same bytes in its own way (two Hosts, a folded
    header) would be a way around the origin check.
    """
    if b"\nupgrade:" not in head.lower():
        return None
    try:
        request, _, _ = read_request_head(head[:-4].split(b"\r\n"), peer, relayed=relayed)
    except Refused:
        return None
    headers = request.headers
    options = [one.strip().lower() for one in headers.get("connection", "").split(",")]
    asks = headers.get("upgrade", "").lower() == "websocket" and "upgrade" in options
    return request if asks and request.method == "GET" else None


def handshake_refusal(request: Request) -> Response | None:
    """Refuse a request that is not a valid handshake; None if it is one."""
    if request.headers.get("sec-websocket-version") != _VERSION:
        detail = f"Only websockets of version {_VERSION} are supported."
        return Response.of({"detail": detail}, 426, {"upgrade": "websocket", "sec-websocket-version": _VERSION})
    try:
        key = base64.b64decode(request.headers.get("sec-websocket-key", ""), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY_BYTES:
        return Response.of({"detail": "Sec-WebSocket-Key is not 16 bytes in base64."}, 400)
    return None


def bare_handshake(request: Request) -> bytes:
    """Write a handshake with nothing in it but what picows' own parser needs."""
    fields = {"Host": "paddock", "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": _VERSION}
    fields["Sec-WebSocket-Key"] = request.headers["sec-websocket-key"]
    return head_bytes("GET / HTTP/1.1", fields.items())


class WebsocketListener(picows.WSListener):
    """Between picows and a socket of the service. Counts every frame, including those that no socket sees."""

    def __init__(self, max_message: int) -> None:
        super().__init__()
        self.handler: Any = None
        self.on_leave: Callable[[], None] = lambda: None
        self.on_lost: Callable[[], None] = lambda: None  # the connection has ended
        self.relay: Callable[[int, bytes], None] | None = None  # see ``Out``
        self.welcome = False  # before that, messages are small
        self.unfinished = 0  # bytes since the last whole frame, before the Welcome
        self._transport: Any = None
        self._most = max_message
        self._part: bytearray | None = None  # of a message that comes in several frames
        self._pieces = self._empty_pieces = 0  # of that message, so far
        self.frames = 1  # in the current read
        self.open = True
        self._paused: asyncio.Handle | None = None
        self._paused_until_s = 0.0
        self._text = False
        self._done = False  # the peer said goodbye
        self._early: list[bytes | str] = []
        self._unchecked = 0  # bytes sent since the last check whether the peer reads them

    def on_ws_connected(self, transport: Any) -> None:
        self._transport = transport
        for data in self._early:
            self.send(data)
        self._early.clear()

    def on_ws_frame(self, transport: Any, frame: Any) -> None:
        self.frames += 1
        if self.frames >= _FRAMES_A_TURN:  # rare
            if self.frames == _FRAMES_A_TURN and self.open:
                self.pause(0.0)  # the rest waits for the next turn of the loop
            elif self.frames > _FRAMES_A_READ and self.open:
                self.close(POLICY_VIOLATION, TOO_MANY_FRAMES)
            if not self.open:
                return
        try:
            self._take_frame(transport, frame)
        except Exception:  # picows logs it and closes: once, not for each frame that is left
            self.open, self.frames = False, _FRAMES_A_TURN
            raise

    def _take_frame(self, transport: Any, frame: Any) -> None:
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
        elif kind is picows.WSMsgType.PING or kind is picows.WSMsgType.PONG:
            self._pay()
            if kind is picows.WSMsgType.PING and self.open and self._reads():
                transport.send_pong(frame.get_payload_as_bytes())
        elif kind is picows.WSMsgType.CLOSE:
            self._done = frame.get_close_code() == picows.WSCloseCode.OK
            transport.send_close(frame.get_close_code() or picows.WSCloseCode.OK)
            transport.disconnect()

    def _pay(self, count: int | None = None) -> None:
        if self.handler is not None:
            self.handler.toll.pay_extra(count)

    def _piece(self, frame: Any, *, begins: bool) -> None:
        """Take one fragment of a message; one in the wrong place ends the connection."""
        if begins is (self._part is not None) or frame.rsv1 or frame.rsv2 or frame.rsv3:
            self.close(_PROTOCOL_ERROR, "")
            return
        if self._part is None:
            self._part, self._text = bytearray(), frame.msg_type is picows.WSMsgType.TEXT
            self._pieces = self._empty_pieces = 0
        payload = frame.get_payload_as_memoryview()
        self._pieces += 1
        self._pay(1 if len(payload) >= _SMALL_PIECE else None)
        self._empty_pieces += not payload and not frame.fin
        if self._empty_pieces > _EMPTY_PIECES or self._pieces > _PIECES:
            text = f"A message may have {_PIECES} fragments, {_EMPTY_PIECES} of them empty."
            self.close(POLICY_VIOLATION, close_reason(RateLimited.code, text))
            return
        self._part += payload
        if len(self._part) > self._most:
            self.close(_TOO_BIG, "")
        elif frame.fin:
            data, self._part = bytes(self._part), None
            self._take(data)

    def _take(self, data: bytes) -> None:
        if self.handler is None:
            return
        # Bytes that are not UTF-8 become surrogates, which the JSON reader refuses: the session lives on.
        self.handler.message(data.decode(errors="surrogateescape") if self._text else data)

    def on_ws_disconnected(self, transport: Any) -> None:
        self._leave()

    def _leave(self) -> None:
        """Take nothing more from this peer."""
        handler, self.handler = self.handler, None
        if handler is not None:
            self.on_leave()
            handler.closed(done=self._done)

    def send(self, data: bytes | str) -> None:
        if self._transport is None:
            self._early.append(data)
            return
        self._unchecked += len(data)
        if self._unchecked > _CHECK_BYTES and not self._reads():
            return
        if type(data) is str:
            self._transport.send(_TEXT, data.encode())
        else:
            self._transport.send(_BINARY, data)

    def _reads(self) -> bool:
        """Whether the peer reads what it is sent; one that reads slower than it asks is dropped."""
        self._unchecked = 0
        if self._transport.underlying_transport.get_write_buffer_size() <= _SLOW_READER_BYTES:
            return True
        self._transport.underlying_transport.abort()
        return False

    def pause(self, seconds: float) -> None:
        """Read nothing from this peer for so long. What was read already is handled."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + seconds
        if self._paused is not None:
            if until_s < self._paused_until_s + _PAUSE_S:
                return
            self._paused.cancel()
        with suppress(RuntimeError):  # it may be closing
            self._transport.underlying_transport.pause_reading()
        self._paused, self._paused_until_s = loop.call_later(seconds, self._resume), until_s

    def _resume(self) -> None:
        self._paused = None
        with suppress(RuntimeError):
            self._transport.underlying_transport.resume_reading()

    def close(self, code: int, reason: str) -> None:
        if self._transport is not None and self.open:
            self.open, self.frames = False, _FRAMES_A_TURN  # ignore the rest of this read
            loop = asyncio.get_running_loop()
            if code != NORMAL:  # don't wait for a peer that goes on sending
                loop.call_later(_LINGER_S, self._transport.underlying_transport.abort)
            with suppress(Exception):  # it may be gone already
                self._transport.send_close(code, reason.encode()[:120] or None)
                if code != POLICY_VIOLATION:
                    self._transport.disconnect()
                    return
                # Closing at once, with unread bytes of a peer that sends too much, would be a reset, which may
                # overtake the Close.
                self.pause(_LINGER_S)
                loop.call_soon(self._leave)


class _ShortReads(WSProtocol):  # type: ignore[misc]  # not in its stubs
    """Reads little at a time, so that one read can't hold up the loop; more in the middle of a large message."""

    def __init__(self, listener: WebsocketListener, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._listener = listener

    def get_buffer(self, size_hint: int) -> memoryview:
        listener = self._listener
        most = _READ_BYTES if listener.frames else _LARGE_READ_BYTES
        listener.frames = 0 if listener.open else _FRAMES_A_TURN
        if self.transport.is_close_frame_sent:  # picows goes on reading for a while
            listener.close(_PROTOCOL_ERROR, "")
        return super().get_buffer(size_hint)[:most]  # type: ignore[no-any-return]

    def connection_lost(self, error: Exception | None) -> None:
        self._listener.on_lost()
        super().connection_lost(error)

    def buffer_updated(self, size: int) -> None:
        super().buffer_updated(size)
        listener = self._listener
        if not listener.welcome:
            listener.welcome = listener.handler is not None and listener.handler.welcome
            listener.unfinished = 0 if listener.frames else listener.unfinished + size
            if listener.unfinished > _SMALL_BYTES and not listener.welcome:
                listener.close(_TOO_BIG, "")


def websocket_protocol(listener: WebsocketListener, subprotocol: str | None, settings: Settings) -> Any:
    """Make the protocol of an admitted websocket, which takes positional arguments of picows' own version."""

    def listener_for(upgrade: Any) -> Any:
        chosen = {} if subprotocol is None else {"Sec-WebSocket-Protocol": subprotocol}
        return picows.WSUpgradeResponseWithListener(picows.WSUpgradeResponse.create_101_response(chosen), listener)

    return _ShortReads(
        listener,
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
        False,  # the listener answers pings: it checks whether the peer reads
        settings.max_message,
        None,
        1 << 14,
    )


def feed(protocol: Any, data: bytes) -> None:
    """Pass bytes that were read already to a protocol that reads into its own buffer."""
    rest = memoryview(data)
    while rest:
        buffer = protocol.get_buffer(len(rest))
        size = min(len(buffer), len(rest))
        buffer[:size] = rest[:size]
        protocol.buffer_updated(size)
        rest = rest[size:]


class UnixTransport:
    """The transport of a unix socket for picows, which sets TCP options on every socket.

    Without this, the error in its ``connection_made`` ends the whole process, not just the
    connection.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        found = self._transport.get_extra_info(name, default)
        return _WithoutTcp(found) if name == "socket" else found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _WithoutTcp:
    """A socket that accepts TCP options and ignores them."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock

    def setsockopt(self, level: int, name: int, value: Any) -> None:
        if level != socket.IPPROTO_TCP:
            self._sock.setsockopt(level, name, value)

    def getsockopt(self, level: int, name: int) -> Any:
        return 0 if level == socket.IPPROTO_TCP else self._sock.getsockopt(level, name)

    def fileno(self) -> int:
        return self._sock.fileno()  # type: ignore[no-any-return]
