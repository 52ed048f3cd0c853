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
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from paddock.errors import DependencyNotInstalled, RateLimited
from paddock.hosting.close_reason import close_reason
from paddock.server.connection import HEAD_BYTES, HEAD_S, HttpConnection
from paddock.server.http import Request, Response
from paddock.server.http_api import HttpApi
from paddock.server.native_socket import NORMAL, POLICY_VIOLATION, TOO_MANY_FRAMES
from paddock.server.rates import network_of
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
    """Log picows' INFO lines at DEBUG: they don't name the session, ours do."""
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
# A client has at most 64 requests in flight: after 64 frames in one read, reading pauses until the next turn of the
# loop. More than 1,000 frames in one read can't be requests: the connection is closed.
_READ_BYTES, _LARGE_READ_BYTES = 1 << 14, 1 << 18
_FRAMES_A_TURN, _FRAMES_A_READ = 64, 1000
_PAUSE_S = 0.01  # a pause is not made longer for less
_SMALL_BYTES = 1 << 16  # of a message before the Welcome: a Hello has less
_LINGER_S = 2.0  # from a Close to the end of the connection
_PIECES, _EMPTY_PIECES = 4096, 16  # of one message; the last may be empty too
_BACKLOG = 4096  # connections that wait to be accepted; the kernel may allow fewer
_ACCEPT_S, _ACCEPT_AGAIN_S = 0.005, 0.1  # of a turn of the loop; and when there were no descriptors
_ENTER_A_TURN = 16
_TLS_S = 60.0  # for its handshake: on a busy machine a client may be slow too
_SMALL_PIECE = 1024  # bytes; larger ones cost no more than a request
_LINGERING: weakref.WeakSet[Any] = weakref.WeakSet()  # transports of peers that sent too much and were told so


class _Listener(picows.WSListener):
    """Between picows and a socket of the service. Every frame counts, those too that no socket gets to see."""

    def __init__(self, max_message: int) -> None:
        super().__init__()
        self.handler: Any = None
        self.on_leave: Callable[[], None] = lambda: None
        self.welcome = False  # before that, messages are small
        self.unfinished = 0  # bytes since the last whole frame, before the Welcome
        self._transport: Any = None
        self._most = max_message
        self._part: bytearray | None = None  # of a message that comes in several frames
        self._pieces = self._empty_pieces = 0  # so many until now
        self.frames = 1  # of the read that is looked at
        self.open = True
        self._paused: asyncio.Handle | None = None
        self._paused_until_s = 0.0
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
        self.frames += 1
        if self.frames >= _FRAMES_A_TURN and not (self.open and self._may_go_on()):
            return
        try:
            self._take_frame(transport, frame)
        except Exception:  # picows logs it and says goodbye, once and not for each frame that is left
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
            if kind is picows.WSMsgType.PING and self.open:
                self._pong(frame.get_payload_as_bytes())
        elif kind is picows.WSMsgType.CLOSE:
            self._done = frame.get_close_code() == picows.WSCloseCode.OK
            transport.send_close(frame.get_close_code() or picows.WSCloseCode.OK)
            transport.disconnect()

    def _may_go_on(self) -> bool:
        """Whether this frame counts, after many in one read. The rest of them waits for the next turn of the loop."""
        if self.frames == _FRAMES_A_TURN:
            self.pause(0.0)
        elif self.frames > _FRAMES_A_READ:
            self.close(POLICY_VIOLATION, TOO_MANY_FRAMES)
        return self.open

    def _pay(self, count: int | None = None) -> None:
        if self.handler is not None:
            self.handler.toll.pay_extra(count)

    def _piece(self, frame: Any, *, begins: bool) -> None:
        """One frame of a message in several; one that no message can have at this place ends the connection."""
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
        # Bytes that are no UTF-8 become what no JSON may hold: refused there, and the session lives on.
        self.handler.message(data.decode(errors="surrogateescape") if self._text else data)

    def on_ws_disconnected(self, transport: Any) -> None:
        self._leave()

    def _leave(self) -> None:
        """Nothing more of this peer is heard."""
        handler, self.handler = self.handler, None
        if handler is not None:
            self.on_leave()
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

    def pause(self, seconds: float) -> None:
        """Read nothing more of this peer for so long. What was read already is looked at."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + seconds
        if self._paused is not None:
            if until_s < self._paused_until_s + _PAUSE_S:
                return
            self._paused.cancel()
        with suppress(RuntimeError):  # it may be closing
            self._transport.underlying_transport.pause_reading()
        self._paused, self._paused_until_s = loop.call_later(seconds, self._go_on), until_s

    def _go_on(self) -> None:
        self._paused = None
        with suppress(RuntimeError):
            self._transport.underlying_transport.resume_reading()

    def close(self, code: int, reason: str) -> None:
        if self._transport is not None and self.open:
            self.open, self.frames = False, _FRAMES_A_TURN  # what else came with this read does not count
            loop = asyncio.get_running_loop()
            if code != NORMAL:  # one that goes on sending is not waited for
                loop.call_later(_LINGER_S, self._transport.underlying_transport.abort)
            with suppress(Exception):  # it may be gone already
                self._transport.send_close(code, reason.encode()[:120] or None)
                if code != POLICY_VIOLATION:
                    self._transport.disconnect()
                    return
                # What a peer that sends too much has sent and nobody reads would, at once, make the end of the
                # connection a reset, which may overtake the Close.
                self.pause(_LINGER_S)
                _LINGERING.add(self._transport.underlying_transport)
                loop.call_soon(self._leave)


class _ShortReads(WSProtocol):  # type: ignore[misc]  # not in its stubs
    """Reads so little at a time that what came can't hold up the loop; more in the middle of a large message."""

    def __init__(self, listener: _Listener, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._listener = listener

    def get_buffer(self, size_hint: int) -> memoryview:
        listener = self._listener
        most = _READ_BYTES if listener.frames else _LARGE_READ_BYTES
        listener.frames = 0 if listener.open else _FRAMES_A_TURN
        if self.transport.is_close_frame_sent:  # picows goes on reading for a while
            listener.close(_PROTOCOL_ERROR, "")
        return super().get_buffer(size_hint)[:most]  # type: ignore[no-any-return]

    def buffer_updated(self, size: int) -> None:
        super().buffer_updated(size)
        listener = self._listener
        if not listener.welcome:
            listener.welcome = listener.handler is not None and listener.handler.welcome
            listener.unfinished = 0 if listener.frames else listener.unfinished + size
            if listener.unfinished > _SMALL_BYTES and not listener.welcome:
                listener.close(_TOO_BIG, "")


def _websocket(listener: _Listener, subprotocol: str | None, settings: Settings) -> Any:
    """The protocol of a websocket that was let in."""

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
        False,  # pings are answered by the listener, which looks whether the peer reads
        settings.max_message,
        None,
        1 << 14,
    )


class Caller:
    """A connection that is not a websocket yet, from ``address``. ``busy`` while a known peer's request is due."""

    def __init__(self, callers: Callers, sock: socket.socket, address: str, peer: str) -> None:
        self._callers, self._sock, self.address, self.peer = callers, sock, address, peer
        self._here = True

    def busy(self, busy: bool) -> None:
        """One that is busy is not sent away; one that has just been is the last to be."""
        if self._here:
            quiet = self._callers.quiet[self.address]
            quiet.pop(self, None)
            if not busy:
                quiet[self] = None

    def send_away(self) -> None:
        """Whoever reads from its socket finds that it has ended."""
        self.release()
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """It is gone, or a websocket: that one is known, and counted elsewhere."""
        if self._here:
            self._here = False
            self._callers.forget(self)


class Callers:
    """How many connections there may be before anyone is known: ``each`` of one address, ``most`` of all.

    The one that has been quiet longest makes room: of its address, or of the address that has most.
    """

    def __init__(self, each: int, most: int) -> None:
        self._each, self._most = each, most
        self._counts: Counter[str] = Counter()
        self._count = 0
        self.quiet: dict[str, dict[Caller, None]] = {}  # by address, the one that is quiet longest first

    def admit(self, sock: socket.socket, peer: str) -> Caller | None:
        """A new one; None if there is no room, because all the others are busy."""
        address = network_of(peer)
        crowded = address if self._counts[address] >= self._each else None
        if crowded is None and self._count >= self._most:
            crowded = max(self.quiet, key=self._counts.__getitem__)
        if crowded is not None:
            longest = next(iter(self.quiet.get(crowded, ())), None)
            if longest is None:
                return None
            longest.send_away()
        self._count += 1
        self._counts[address] += 1
        caller = Caller(self, sock, address, peer)
        self.quiet.setdefault(address, {})[caller] = None
        return caller

    def make_room(self) -> None:
        """Descriptors have run out."""
        longest = next((one for quiet in self.quiet.values() for one in quiet), None)
        if longest is not None:
            longest.send_away()

    def forget(self, caller: Caller) -> None:
        """It counts no more."""
        self._count -= 1
        self._counts[caller.address] -= 1
        self.quiet[caller.address].pop(caller, None)
        if not self._counts[caller.address]:
            del self._counts[caller.address], self.quiet[caller.address]


class FrontDoor(asyncio.Protocol):
    """A new connection, until it is known what it is."""

    def __init__(self, api: HttpApi, settings: Settings, caller: Caller) -> None:
        self._api, self._settings, self._caller = api, settings, caller
        self._peer = caller.peer
        self._head = bytearray()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(HEAD_S, transport.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self._timer.cancel()
        self._caller.release()

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
        if refused is not None:
            refused = self._api.too_often(upgrade) or refused
        else:
            found, subprotocol = self._api.socket(upgrade, listener)
            if isinstance(found, Response):
                refused = found
            else:
                listener.handler = found
                listener.on_leave = partial(self._api.forget, listener)
        if refused is not None:
            self._become(self._http()).refuse(refused)
            return
        self._caller.release()
        _feed(self._become(_websocket(listener, subprotocol, self._settings)), handed_on(upgrade) + rest)

    def _http(self) -> HttpConnection:
        return HttpConnection(self._api, max_body=self._settings.max_body, peer=self._peer, caller=self._caller)

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


class _PlainHttp(HttpConnection):
    """Tell a client that speaks plain HTTP to a TLS port to use https."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        detail = "This port expects TLS. Use https:// (wss:// for websockets)."
        late = self._handler.too_often(Request("-", "-", "", {}, peer=self._caller.peer))
        self.refuse(late or Response.of({"detail": detail}, 400))


class Acceptor:
    """Accepts a few connections per turn of the loop, so that a burst doesn't delay the others.

    Nothing is done for one before its first byte has come: a silent one costs a descriptor, and no TLS.
    """

    def __init__(self, api: HttpApi, settings: Settings, bound: asyncio.Server) -> None:
        self._bound = bound  # asyncio's own server would accept all who wait at once, and begin TLS with each
        self.sockets = [socket.socket(fileno=os.dup(one.fileno())) for one in bound.sockets]
        self._api, self._settings = api, settings
        self._loop = asyncio.get_running_loop()
        self._callers = Callers(settings.callers_each, settings.callers)
        # Those who wait to be let in, by address; each address in turn, as TLS makes it slow.
        self._entrants: dict[str, deque[tuple[socket.socket, Caller]]] = {}
        self._silent: dict[socket.socket, tuple[Caller, asyncio.TimerHandle]] = {}  # nothing has come from them yet
        self._entering: set[asyncio.Task[None]] = set()  # kept, or they might be collected
        self._context: ssl.SSLContext | None = None
        if settings.tls_cert is not None:
            self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self._context.load_cert_chain(settings.tls_cert, settings.tls_key)
        for sock in self.sockets:
            sock.listen(_BACKLOG)
            sock.setblocking(False)
            self._loop.add_reader(sock, self._accept, sock)

    def close(self) -> None:
        """Stop accepting, and let those go that wait to be let in or were sent away; open connections stay."""
        for transport in list(_LINGERING):
            transport.abort()
        for sock in self.sockets:
            self._loop.remove_reader(sock)
            sock.close()
        self._bound.close()
        for sock in list(self._silent):
            _drop(sock, self._no_longer_silent(sock))
        for line in self._entrants.values():
            for sock, caller in line:
                _drop(sock, caller)
        self._entrants.clear()
        for task in self._entering:
            task.cancel()

    def _accept(self, listening: socket.socket) -> None:
        ends_s = time.monotonic() + _ACCEPT_S
        while time.monotonic() < ends_s:
            try:
                sock, name = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # no descriptors, or no memory
                self._callers.make_room()
                self._loop.remove_reader(listening)
                self._loop.call_later(_ACCEPT_AGAIN_S, self._accept_again, listening)
                return
            self._api.metrics.count("paddock_connections_total")
            sock.setblocking(False)
            has_data = _has_data(sock)
            if has_data is None:  # it has left already, as most of a flood has
                sock.close()
                continue
            peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "unix"
            caller = self._callers.admit(sock, peer)
            if caller is None:
                sock.close()
            elif has_data:
                self._queue(sock, caller)
            else:
                self._silent[sock] = caller, self._loop.call_later(HEAD_S, caller.send_away)
                self._loop.add_reader(sock, self._on_first_byte, sock)

    def _accept_again(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening, self._accept, listening)

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
            # Those that were sent away meanwhile are still in line, and each has a descriptor.
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
            task.add_done_callback(partial(self._entered, sock, caller))
            if line:
                self._entrants[address] = line  # after the others
        if self._entrants:
            self._loop.call_soon(self._let_in)

    async def _enter(self, sock: socket.socket, caller: Caller) -> None:
        def door() -> FrontDoor | _PlainHttp:
            if plain:
                return _PlainHttp(self._api, max_body=0, peer=caller.peer, caller=caller)
            return FrontDoor(self._api, self._settings, caller)

        tls: dict[str, Any] = {}
        plain = self._context is not None and sock.recv(1, socket.MSG_PEEK) != _TLS_RECORD
        if self._context is not None and not plain:
            tls = {"ssl": self._context, "ssl_handshake_timeout": _TLS_S}
        await self._loop.connect_accepted_socket(door, sock, **tls)

    def _entered(self, sock: socket.socket, caller: Caller, task: asyncio.Task[None]) -> None:
        # Here and not in the task, which may be cancelled before it begins.
        self._entering.discard(task)
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            _drop(sock, caller)
        if error is not None and not isinstance(error, OSError):  # that is: it left, or its TLS is not TLS
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
    """Listen where the settings say."""
    loop = asyncio.get_running_loop()
    if settings.uds is not None:
        bound = await loop.create_unix_server(asyncio.Protocol, str(settings.uds), start_serving=False)
        settings.uds.chmod(0o600)
    else:
        bound = await loop.create_server(asyncio.Protocol, settings.host, settings.port, start_serving=False)
    return Acceptor(api, settings, bound)
