"""The transport of a unix socket as picows can use it, which sets options of TCP on every socket.

A reader would get wrong: without this the error in its ``connection_made`` ends the whole process, not the connection.
"""

from __future__ import annotations

import socket
from typing import Any


class UnixTransport:
    """``transport`` in all but its socket."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As asyncio's transports have it."""
        found = self._transport.get_extra_info(name, default)
        return _WithoutTcp(found) if name == "socket" else found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _WithoutTcp:
    """A socket that takes TCP's options and does nothing about them."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock

    def setsockopt(self, level: int, name: int, value: Any) -> None:
        """Set an option, unless it is TCP's."""
        if level != socket.IPPROTO_TCP:
            self._sock.setsockopt(level, name, value)

    def getsockopt(self, level: int, name: int) -> Any:
        """An option; of TCP's, 0."""
        return 0 if level == socket.IPPROTO_TCP else self._sock.getsockopt(level, name)

    def fileno(self) -> int:
        """The descriptor."""
        return self._sock.fileno()  # type: ignore[no-any-return]
