"""Endpoint: where a websocket is and how to ask for it. What proves who asks is never shown."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Endpoint:
    """``host`` without brackets; ``path`` with its query, percent-encoded; ``unix``: a socket's file instead of TCP."""

    host: str
    port: int
    path: str = "/"
    secure: bool = False
    unix: str | None = None
    authorization: str | None = field(default=None, repr=False)
    subprotocols: tuple[str, ...] = ()

    @property
    def host_header(self) -> str:
        """The host as the server should know itself."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        usual = 443 if self.secure else 80
        return name if self.unix is not None or self.port == usual else f"{name}:{self.port}"

    @property
    def shown(self) -> str:
        """For messages."""
        return self.unix if self.unix is not None else self.host_header
