"""BlockingConnection: a websocket for blocking code. A small round trip is one system call each way.

Python's own timeout of a socket would poll before each call. Here the kernel keeps it: the socket blocks, and gives up
after TICK_S, when the owner looks at its clock. For that reason alone, ``recv`` may return
None before its deadline is over.
"""

from __future__ import annotations

import select
import socket
import struct
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING

from paddock.hosting.frames import SpinWait, wait_for
from paddock.hosting.websocket.connection import MESSAGE_BYTES, ClientConnection, Piece, Split
from paddock.hosting.websocket.endpoint import Endpoint, dial
from paddock.hosting.websocket.events import Binary, Closed, Event, WebSocketError

if TYPE_CHECKING:
    import ssl

TICK_S = 0.5
_KERNEL_WAITS = sys.platform != "win32"
_HAS_POLL = hasattr(select, "poll")
_SOON_S = 400e-6  # a server on this machine has replied by then


class BlockingConnection:
    """Connects when made, within ``timeout_s``: UpgradeRefused, OSError or TimeoutError if that fails.

    ``dial_s``: how much of that the server has to accept; then ``on_accept`` is called. After an error of any method
    ``abort`` it.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout_s: float = 10.0,
        dial_s: float = inf,
        on_accept: Callable[[], None] | None = None,
        context: ssl.SSLContext | None = None,
        max_bytes: int = MESSAGE_BYTES,
        split: Split | None = None,
    ) -> None:
        self._ws = ClientConnection(endpoint, max_bytes=max_bytes, split=split)
        ends_s = time.monotonic() + timeout_s
        self._sock = dial(endpoint, ends_s, context, dial_s=dial_s, on_accept=on_accept)
        self._abandoned = weakref.finalize(self, self._sock.close)
        # TLS may have read ahead, and may have to write in order to read: it is polled.
        self._kernel_waits = _KERNEL_WAITS and not endpoint.secure
        self._spin = SpinWait(self._sock, _SOON_S) if self._kernel_waits and _HAS_POLL else None
        self._alone: Binary | None = None  # the message of the last read, if it was one and nothing else
        try:
            if self._kernel_waits:
                _limit(self._sock, TICK_S)
            else:
                self._sock.setblocking(False)
            self._write(self._ws.request, ends_s)
            while not self._ws.is_open:
                if not self._read(ends_s) and time.monotonic() >= ends_s:
                    raise TimeoutError("The server has not answered the handshake in time.")
        except BaseException:
            self.abort()
            raise

    @property
    def subprotocol(self) -> str | None:
        """The one that the server chose among those offered."""
        return self._ws.subprotocol

    def limit(self, max_bytes: int) -> None:
        """Refuse larger messages from now on."""
        self._ws.limit(max_bytes)

    @property
    def is_closed(self) -> bool:
        """Whether the peer has sent a Close, or closed its end of the socket."""
        return self._ws.closed is not None

    def fileno(self) -> int:
        """For poll. It does not show what was read already: call ``recv`` until it returns None."""
        return self._sock.fileno()

    def send(self, data: Piece, timeout_s: float = 60.0) -> None:
        """Send a message of bytes; TimeoutError if the peer has not taken it by then."""
        self._send(self._ws.message(data), timeout_s)

    def send_text(self, text: str, timeout_s: float = 60.0) -> None:
        self._send(self._ws.text(text), timeout_s)

    def ping(self, timeout_s: float = 10.0) -> None:
        """Ask the server to show that it is alive."""
        self._send(self._ws.ping(), timeout_s)

    def recv(self, timeout_s: float | None = None) -> Event | None:
        """The next event; None if none came within ``timeout_s``, or within TICK_S. 0: only what is here."""
        ws = self._ws
        event = ws.next()
        if event is None:
            if ws.closed is not None:
                return ws.closed
            event = self._read_event(None if timeout_s is None else time.monotonic() + timeout_s)
        if type(event) is Binary:
            return event
        if answer := ws.outgoing():
            try:
                self._write(answer, time.monotonic() + TICK_S)
            except OSError:  # half an answer may be out
                if type(event) is not Closed:  # a peer that sent a Close may be gone already
                    raise
        return event

    def _read_event(self, ends_s: float | None) -> Event | None:
        """Read until there is an event; one read is enough for nearly all."""
        ws = self._ws
        try:
            while self._read(ends_s):
                event = self._alone or ws.next()
                if event is not None:
                    return event
                if ws.closed is not None:
                    return ws.closed
        except WebSocketError:
            with suppress(OSError):
                self._write(ws.outgoing(), time.monotonic() + TICK_S)
            raise
        return None

    def _read(self, ends_s: float | None) -> bool:
        """One read; False if nothing came until ``ends_s``, or within TICK_S."""
        left_s = inf if ends_s is None else ends_s - time.monotonic()
        if self._kernel_waits:
            if left_s < TICK_S:
                if not _ready(self._sock, left_s):
                    return False
            elif self._spin is not None:
                self._spin.spin_until_readable()
            try:
                count = self._sock.recv_into(self._ws.buffer())
            except BlockingIOError:
                return False  # after TICK_S
        else:
            tick_ends_s = time.monotonic() + min(left_s, TICK_S)
            while True:
                try:
                    count = self._sock.recv_into(self._ws.buffer())
                    break
                except OSError as error:
                    if not _only_waits(error):
                        raise
                    writes = type(error).__name__ == _WANTS_TO_WRITE
                    if not _ready(self._sock, tick_ends_s - time.monotonic(), write=writes):
                        return False
        self._alone = None
        if count:
            self._alone = self._ws.received(count)
        else:
            was_open = self._ws.is_open
            self._ws.eof()
            if not was_open:
                raise self._ws.cut_off()
        return True

    def _send(self, frame: bytes | memoryview, timeout_s: float) -> None:
        sent = 0
        try:
            sent = self._sock.send(frame)
        except OSError as error:
            if not _only_waits(error):
                raise
        if sent != len(frame):
            self._write(memoryview(frame)[sent:], time.monotonic() + timeout_s)

    def _write(self, data: Piece, ends_s: float) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._sock.send(rest) :]
            except OSError as error:
                if not _only_waits(error):
                    raise
                left_s = ends_s - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError("The server does not read what it is sent.") from None
                if not self._kernel_waits:
                    _ready(self._sock, left_s, write=type(error).__name__ != _WANTS_TO_READ)

    def close(self, *, timeout_s: float = 1.0) -> Closed | None:
        """Close, and wait up to ``timeout_s`` for the server to do the same. Safe to call twice."""
        if self._sock.fileno() == -1:
            return self._ws.closed
        ends_s = time.monotonic() + timeout_s
        try:
            self._ws.close()
            self._write(self._ws.outgoing(), ends_s)
            while self._ws.closed is None and time.monotonic() < ends_s:
                self.recv(ends_s - time.monotonic())
        except (OSError, WebSocketError):
            pass
        finally:
            self.abort()
        return self._ws.closed

    def abort(self) -> None:
        """Close the socket without a Close frame; safe to call twice."""
        self._abandoned()


# By name: only code that meets one of these has imported ssl.
_WANTS_TO_READ, _WANTS_TO_WRITE = "SSLWantReadError", "SSLWantWriteError"


def _only_waits(error: OSError) -> bool:
    """Whether the socket only has to become ready."""
    return isinstance(error, BlockingIOError) or type(error).__name__ in (_WANTS_TO_READ, _WANTS_TO_WRITE)


def _ready(sock: socket.socket, seconds: float, *, write: bool = False) -> bool:
    """Whether the socket can be read, or written, within so many seconds."""
    if _HAS_POLL:
        return wait_for(sock.fileno(), select.POLLOUT if write else select.POLLIN, max(0.0, seconds))
    return any(select.select([] if write else [sock], [sock] if write else [], [], max(0.0, seconds)))


def _limit(sock: socket.socket, seconds: float) -> None:
    """Let the kernel end a blocking call after so many seconds."""
    sock.setblocking(True)
    whole = int(seconds)
    value = struct.pack("@ll", whole, int((seconds - whole) * 1e6))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)
