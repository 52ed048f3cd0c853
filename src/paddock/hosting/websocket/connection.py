"""ClientConnection: a whole websocket without I/O, from the handshake to the Close. Its driver only moves bytes.

The driver reads into ``buffer()``, says ``received``, takes events with ``next`` until there are none, and then writes
what ``outgoing`` has: answers to pings and to a Close, which nobody has to think of. A reader would get wrong: a small
message that comes alone is what ``received`` returns, and ``next`` does not know of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from paddock.hosting.websocket.endpoint import Endpoint
from paddock.hosting.websocket.events import ABNORMAL, NO_CODE, NORMAL, Binary, Closed, Event, Ping, WebSocketError
from paddock.hosting.websocket.handshake import Handshake
from paddock.hosting.websocket.masking import BINARY, CLOSE, PING, PONG, TEXT, FrameWriter, Piece
from paddock.hosting.websocket.reading import MESSAGE_BYTES, MessageReader, Split

_REASON_BYTES = 123


class ClientConnection:
    """One connection to ``endpoint``."""

    def __init__(self, endpoint: Endpoint, *, max_bytes: int = MESSAGE_BYTES, split: Split | None = None) -> None:
        self._handshake: Handshake | None = Handshake(endpoint)
        self._scratch = bytearray(4096)
        self._secure = endpoint.secure
        self.request = self._handshake.request
        self.subprotocol: str | None = None
        self._reader = MessageReader(max_bytes=max_bytes, split=split)
        self._writer = FrameWriter()
        # A message of bytes, as it goes onto the socket. These three are the hot ones, so no call lies in between.
        self.message: Callable[[Piece], bytes | memoryview] = partial(self._writer.frame, BINARY)
        # Where the next bytes from the socket belong.
        self.buffer: Callable[[], memoryview] = lambda: memoryview(self._scratch)
        # So many bytes were put there. UpgradeRefused if the server will not.
        self.received: Callable[[int], Binary | None] = self._shake_hands
        self._pong: bytes | None = None
        self._closing: bytes | None = None  # a Close that is to be sent
        self._close_sent = False
        self.closed: Closed | None = None

    @property
    def is_open(self) -> bool:
        """Whether the handshake is done; also after the end."""
        return self._handshake is None

    def cut_off(self) -> ConnectionResetError:
        """For a server that closes instead of an answer to the handshake, as many with TLS do when plain HTTP comes."""
        hint = "" if self._secure else "; does it want https?"
        return ConnectionResetError(f"the server closed the connection in the middle of the handshake{hint}")

    def _shake_hands(self, count: int) -> None:
        assert self._handshake is not None, "afterwards it is the reader that receives"
        if self._handshake.feed(memoryview(self._scratch)[:count]):
            self._adopt(self._handshake)

    def _adopt(self, done: Handshake) -> None:
        self.subprotocol = done.subprotocol
        self._handshake = None
        self._scratch = bytearray()
        self._reader.begin_with(done.rest)
        self.buffer, self.received = self._reader.buffer, self._reader.received

    def next(self) -> Event | None:
        """The next event that is here, or None. After a WebSocketError only ``outgoing`` is of use."""
        if self.closed is not None:
            return None
        try:
            event = self._reader.next()
        except WebSocketError as error:
            self.closed = Closed(ABNORMAL, str(error))
            self._queue_close(error.close_code, str(error))
            raise
        if event is None or type(event) is Binary:
            return event
        if type(event) is Ping:
            self._pong = event.data  # of several only the last must be answered
        elif type(event) is Closed:
            self.closed = event
            self._queue_close(NORMAL if event.code == NO_CODE else event.code, "")
        return event

    def eof(self) -> Closed:
        """The socket's other end was closed. UpgradeRefused if it was while the server refused."""
        if self._handshake is not None and (refusal := self._handshake.eof()) is not None:
            raise refusal
        if self.closed is None:
            self.closed = Closed(ABNORMAL)
        return self.closed

    def outgoing(self) -> bytes:
        """What is to be written beside messages; empty nearly always."""
        if self._pong is None and self._closing is None:
            return b""
        pong, closing = self._pong, self._closing
        self._pong = self._closing = None
        frames = [] if pong is None or self._close_sent else [self._writer.frame(PONG, pong)]
        if closing is not None:
            frames.append(self._writer.frame(CLOSE, closing))
            self._close_sent = True
        return b"".join(frames)

    def text(self, text: str) -> bytes | memoryview:
        """A message of text."""
        return self._writer.frame(TEXT, text.encode())

    def ping(self, data: bytes = b"") -> bytes | memoryview:
        """A question that the server answers with a Pong, whatever else it does."""
        return self._writer.frame(PING, data[:125])

    def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Take leave: ``outgoing`` has the Close, the server's answer comes as Closed."""
        self._queue_close(code, reason)

    def _queue_close(self, code: int, reason: str) -> None:
        if not self._close_sent and self._closing is None:
            text = reason.encode("utf-8", "replace")[:_REASON_BYTES].decode("utf-8", "ignore").encode()
            self._closing = code.to_bytes(2, "big") + text
