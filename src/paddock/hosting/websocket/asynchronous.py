"""AsyncConnection: a websocket for asyncio. Events go to a function as they come, which must not block."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any

from paddock.hosting.websocket.connection import MESSAGE_BYTES, ClientConnection, Piece, Split
from paddock.hosting.websocket.endpoint import Endpoint, default_context
from paddock.hosting.websocket.events import Closed, Event, WebSocketError

if TYPE_CHECKING:
    import ssl

OnEvent = Callable[[Event], None]
OnEnd = Callable[[BaseException | Closed], None]


class AsyncConnection(asyncio.BufferedProtocol):
    """Made by ``connect``. ``on_end`` is called once when nothing more will come, but not after ``abort``."""

    def __init__(self, ws: ClientConnection, on_event: OnEvent, on_end: OnEnd) -> None:
        loop = asyncio.get_running_loop()
        self._ws, self._on_event, self._on_end = ws, on_event, on_end
        self._transport: Any = None
        self._opened: asyncio.Future[None] = loop.create_future()
        self._lost: asyncio.Future[None] = loop.create_future()
        self._writable = asyncio.Event()
        self._writable.set()
        self.is_writable = True  # whether ``drain`` would not wait
        self._end_reported = False

    @classmethod
    async def connect(
        cls,
        endpoint: Endpoint,
        on_event: OnEvent,
        on_end: OnEnd,
        *,
        timeout_s: float = 10.0,
        dial_s: float = inf,
        on_accept: Callable[[], None] | None = None,
        context: ssl.SSLContext | None = None,
        max_bytes: int = MESSAGE_BYTES,
        split: Split | None = None,
    ) -> AsyncConnection:
        """Connect within ``timeout_s``: UpgradeRefused, OSError or TimeoutError if that fails.

        ``dial_s``: how much of that the server has to accept; then ``on_accept`` is called.
        """
        ws = ClientConnection(endpoint, max_bytes=max_bytes, split=split)
        connection = cls(ws, on_event, on_end)
        try:
            await asyncio.wait_for(connection._open(endpoint, context, timeout_s, dial_s, on_accept), timeout_s)
        except asyncio.TimeoutError:  # another class than TimeoutError before Python 3.11
            connection._opened.cancel()
            connection.abort()
            raise TimeoutError("The server has not answered the handshake in time.") from None
        except BaseException:
            connection._opened.cancel()
            connection.abort()
            raise
        return connection

    async def _open(
        self,
        endpoint: Endpoint,
        context: ssl.SSLContext | None,
        timeout_s: float,
        dial_s: float,
        on_accept: Callable[[], None] | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        # TCP first and alone: only a server that does not accept is given up early.
        if endpoint.unix is not None:
            dialing = loop.create_unix_connection(asyncio.Protocol, endpoint.unix)
        else:
            dialing = loop.create_connection(asyncio.Protocol, endpoint.host, endpoint.port)
        transport, _ = await asyncio.wait_for(dialing, min(dial_s, timeout_s))
        try:
            if transport.is_closing():  # already lost: nobody told this protocol, and nobody will
                raise ConnectionResetError("the connection was closed")
            if on_accept is not None:
                on_accept()
            if endpoint.secure:
                secured = await loop.start_tls(
                    transport,
                    self,
                    context or default_context(),
                    server_hostname=endpoint.host,
                    ssl_handshake_timeout=timeout_s,
                )
                assert secured is not None
                transport = secured
            transport.set_protocol(self)
            self.connection_made(transport)
            await self._opened
        except BaseException:
            transport.abort()
            raise

    @property
    def subprotocol(self) -> str | None:
        """The one that the server chose among those offered."""
        return self._ws.subprotocol

    # asyncio calls these. TCP_NODELAY is its default.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.write(self._ws.request)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._ws.buffer()

    def buffer_updated(self, count: int) -> None:
        ws = self._ws
        try:
            alone = ws.received(count)
            if alone is not None:  # hot: one small message by itself
                self._on_event(alone)
                return
            if not self._opened.done() and ws.is_open:
                self._opened.set_result(None)
            while (event := ws.next()) is not None:
                if type(event) is Closed:
                    self._write_outgoing()
                    self._end(event)
                    return
                self._on_event(event)
        except (WebSocketError, OSError) as error:  # UpgradeRefused is an OSError
            self._write_outgoing()
            self._end(error)
            return
        self._write_outgoing()

    def _write_outgoing(self) -> None:
        if data := self._ws.outgoing():
            self._transport.write(data)

    def eof_received(self) -> bool:
        try:
            self._end(self._ws.eof())
        except OSError as error:
            self._end(error)
        return False

    def connection_lost(self, error: BaseException | None) -> None:
        self.resume_writing()
        if not self._lost.done():
            self._lost.set_result(None)
        self._end(error or ConnectionResetError("the connection was closed"))

    def pause_writing(self) -> None:
        self.is_writable = False
        self._writable.clear()

    def resume_writing(self) -> None:
        self.is_writable = True
        self._writable.set()

    def _end(self, why: BaseException | Closed) -> None:
        if not self._opened.done():
            self._opened.set_exception(why if isinstance(why, BaseException) else self._ws.cut_off())
            self._end_reported = True
        if not self._end_reported:
            self._end_reported = True
            self._on_end(why)
        if self._transport is not None:
            self._transport.close()

    def send(self, data: Piece) -> None:
        """Begin to send a message of bytes; ``drain`` waits for a peer that is slow to take it."""
        self._transport.write(self._ws.message(data))

    def send_text(self, text: str) -> None:
        self._transport.write(self._ws.text(text))

    def ping(self) -> None:
        """Ask the server to show that it is alive."""
        self._transport.write(self._ws.ping())

    async def drain(self) -> None:
        """Wait until the peer has taken most of what was sent, or is gone."""
        await self._writable.wait()

    async def close(self, *, timeout_s: float = 1.0) -> None:
        """Close, and wait up to ``timeout_s`` for the server to do the same. Safe to call twice."""
        self._end_reported = True
        if self.say_close():
            await asyncio.wait([self._lost], timeout=timeout_s)
        self.abort()

    def say_close(self) -> bool:
        """Send a Close frame, unless the connection is lost."""
        if self._lost.done() or self._transport is None:
            return False
        self._ws.close()
        self._write_outgoing()
        return True

    def cut(self) -> None:
        """Let the server see the end, although the event loop that this belongs to does not run any more."""
        with suppress(OSError):
            self._transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    def abort(self) -> None:
        """Close the socket without a Close frame; safe to call twice."""
        self._end_reported = True
        if self._transport is not None:
            self._transport.abort()
