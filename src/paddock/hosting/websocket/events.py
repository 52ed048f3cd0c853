"""What a websocket connection reports to its owner, and its errors. Pings are answered before they are reported."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from paddock.errors import BadFrame, Unreachable

NORMAL = 1000
PROTOCOL_ERROR = 1002
NO_CODE = 1005  # a Close without one; never on the wire
ABNORMAL = 1006  # the connection ended without a Close; never on the wire
NOT_UTF8 = 1007
TOO_LARGE = 1009


class Binary(msgspec.Struct, frozen=True):
    """A message of bytes. A large one may come in two parts, see ``MessageReader``; else ``rest`` is None."""

    data: bytes | bytearray
    rest: memoryview | None = None


class Text(msgspec.Struct, frozen=True):
    """A message of text."""

    text: str


class Pong(msgspec.Struct, frozen=True):
    """The peer's answer to a ping."""

    data: bytes


class Ping(msgspec.Struct, frozen=True):
    """The peer asked whether this end is alive; the connection has answered already."""

    data: bytes


class Closed(msgspec.Struct, frozen=True):
    """Nothing more will come. ``code``: the peer's, NO_CODE or ABNORMAL."""

    code: int
    reason: str = ""


Event: TypeAlias = "Binary | Text | Ping | Pong | Closed"


class WebSocketError(BadFrame):
    """The peer broke the protocol; ``close_code`` is for the Close that says so."""

    def __init__(self, message: str, close_code: int = PROTOCOL_ERROR) -> None:
        super().__init__(message)
        self.close_code = close_code


class UpgradeRefused(Unreachable):
    """The server answered, but not with a websocket. ``status``: HTTP's, 0 for none; ``body``: its beginning."""

    def __init__(self, message: str, *, status: int = 0, body: bytes = b"", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.status, self.body, self.retry_after_s = status, body, retry_after_s
