"""How a server runs, as data. The defaults are the safe ones: this machine only, a token, limits on everything."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from paddock.errors import PlanError
from paddock.hosting.remote_address import is_loopback
from paddock.server.journal import Sync
from paddock.server.principals import Role

Mode = Literal["simulation", "production"]
Wire = Literal["0.10", "0.3"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Times in seconds, sizes in bytes."""

    host: str = "127.0.0.1"
    port: int = 8000
    uds: Path | None = None  # a unix socket in place of host and port
    max_sessions: int = 256
    sessions_each: int | None = None  # of one token; None: an operator's may have all, others half of their role's
    sessions_reserved: int | None = None  # for operators alone; None: an eighth, but never all
    deadline_s: float = 30.0  # for one request
    grace_s: float = 60.0  # a broken connection's session waits this long
    idle_s: float = 3600.0  # a connected session that is silent this long is ended; a client may think for long
    ping_s: float = 20.0  # a silent peer is asked after this time, and given up after this time once more
    tls_cert: Path | None = None
    tls_key: Path | None = None
    origins: frozenset[str] = field(default_factory=frozenset)
    hosts: frozenset[str] = field(default_factory=frozenset)  # names that it goes by besides those it knows itself
    journal: Path | None = None
    journal_sync: Sync = "batch"  # a crash of the server costs nothing; one of the machine the last second
    spares: int = 1  # workers kept ready for each environment
    max_body: int = 16 << 20  # of an HTTP request
    max_message: int = 64 << 20  # of a websocket
    rate_per_s: float = 30_000.0  # requests of one principal
    failures_per_s: float = 10.0  # requests without a valid token, of one address; ten times as many at once
    callers_each: int = 512  # connections of one address that are not websockets
    callers: int = 2048  # and of all addresses together
    drain_s: float = 20.0
    mode: Mode = "simulation"
    wire: Wire = "0.10"

    def check(self) -> None:
        """PlanError for what would be unsafe or can't work."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise PlanError("--tls-cert and --tls-key go together.")
        if self.uds is None and not is_loopback(self.host.lower().strip("[]")) and self.tls_cert is None:
            raise PlanError(
                f"--host {self.host} can be reached by other machines, and without TLS anyone on the way reads the "
                f"token. Pass --tls-cert and --tls-key, or stay on 127.0.0.1 behind a proxy that has TLS."
            )
        if self.max_sessions < 1 or self.deadline_s <= 0:
            raise PlanError("--max-sessions must be at least 1 and --deadline must be positive.")
        if not 0 <= self.reserved <= self.max_sessions:
            raise PlanError(f"--sessions-reserved must be between 0 and --max-sessions ({self.max_sessions}).")

    @property
    def reserved(self) -> int:
        """How many sessions nobody but operators may have."""
        if self.sessions_reserved is not None:
            return self.sessions_reserved
        return min(max(1, self.max_sessions // 8), self.max_sessions - 1)

    def quota(self, role: Role) -> tuple[int, int]:
        """How many sessions all tokens of a role may have together, and one of them."""
        together = self.max_sessions if role == "operator" else self.max_sessions - self.reserved
        if role == "observer":  # it only looks
            together = min(together, max(1, self.max_sessions // 8))
        each = together if role == "operator" else -(-together // 2)
        return together, each if self.sessions_each is None else min(together, self.sessions_each)
