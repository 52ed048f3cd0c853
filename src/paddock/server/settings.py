"""How a server runs, as data. The defaults are safe: this machine only, a token, limits on everything."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from paddock.errors import PlanError
from paddock.hosting.remote_address import is_loopback
from paddock.server.auth import Role
from paddock.server.journal import Sync

Mode = Literal["simulation", "production"]
Wire = Literal["0.10", "0.3"]
MOST_PROCESSES = 256  # the first byte of a session's id names its process


@dataclass(frozen=True, kw_only=True)
class Quota:
    """What a token, or the tokens of a tenant together, may have. None: as much as there is."""

    sessions: int | None = None
    rate: float | None = None  # requests per second
    cpu: float | None = None  # CPU seconds of its workers per hour
    memory: float | None = None  # MB that its workers may take together

    def check(self, whose: str) -> None:
        """Raise PlanError if nothing could be done with it."""
        for name in ("sessions", "rate", "cpu", "memory"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise PlanError(f"{whose} {name} = {value}: expected more than 0.")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Times in seconds, sizes in bytes."""

    host: str = "127.0.0.1"
    port: int = 8000
    uds: Path | None = None  # a unix socket in place of host and port
    processes: int = 1  # that serve; their limits hold for all of them together
    max_sessions: int = 256
    sessions_each: int | None = None  # per token; None: all for an operator, half of their role's for others
    sessions_reserved: int | None = None  # for operators only; None: an eighth, but never all
    max_memory: float | None = None  # MB for the workers of all sessions together
    cpu_each: float | None = None  # CPU seconds per hour and token
    memory_each: float | None = None  # MB per token
    tenants: Mapping[str, Quota] = field(default_factory=dict)  # beyond what each of a tenant's tokens may have
    deadline_s: float = 30.0  # for one request
    grace_s: float = 60.0  # a broken connection's session waits this long
    idle_s: float = 3600.0  # a session that is silent for so long is ended; a client may think for long
    ping_s: float = 20.0  # a peer is pinged after this much silence, and given up after as much again
    tls_cert: Path | None = None
    tls_key: Path | None = None
    origins: frozenset[str] = field(default_factory=frozenset)
    hosts: frozenset[str] = field(default_factory=frozenset)  # more names by which it may be addressed
    journal: Path | None = None
    journal_sync: Sync = "batch"  # a crash of the server costs nothing, a crash of the machine the last second
    spares: int = 2  # workers kept ready per environment, for each of the principals that used it last
    max_body: int = 16 << 20  # of an HTTP request
    max_message: int = 64 << 20  # of a websocket message
    rate_per_s: float = 30_000.0  # requests per principal
    failures_per_s: float = 10.0  # requests without a valid token per address; ten times as many at once
    callers_each: int = 512  # connections per address that are not websockets
    callers: int = 2048  # and from all addresses together
    drain_s: float = 20.0
    mode: Mode = "simulation"
    wire: Wire = "0.10"

    def check(self) -> None:
        """Raise PlanError for settings that would be unsafe or can't work."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise PlanError("--tls-cert and --tls-key must be given together.")
        if self.uds is None and not is_loopback(self.host.lower().strip("[]")) and self.tls_cert is None:
            raise PlanError(
                f"--host {self.host} can be reached by other machines, and without TLS anyone on the way can read the "
                f"token. Pass --tls-cert and --tls-key, or stay on 127.0.0.1 behind a proxy that has TLS."
            )
        if not 1 <= self.processes <= MOST_PROCESSES:
            raise PlanError(f"--processes must be between 1 and {MOST_PROCESSES}.")
        if self.processes > 1 and sys.platform != "linux":
            raise PlanError("Several processes need Linux. Use --processes 1.")
        if self.max_sessions < 1 or not self.deadline_s > 0:  # nor NaN
            raise PlanError("--max-sessions must be at least 1 and --deadline must be positive.")
        if not 0 <= self.reserved <= self.max_sessions:
            raise PlanError(f"--sessions-reserved must be between 0 and --max-sessions ({self.max_sessions}).")
        self.quota_each.check("Each token's")
        Quota(memory=self.max_memory).check("The server's")
        for name, quota in self.tenants.items():
            quota.check(f"[tenants.{name}]")

    @property
    def quota_each(self) -> Quota:
        return Quota(sessions=self.sessions_each, rate=self.rate_per_s, cpu=self.cpu_each, memory=self.memory_each)

    @property
    def reserved(self) -> int:
        if self.sessions_reserved is not None:
            return self.sessions_reserved
        return min(max(1, self.max_sessions // 8), self.max_sessions - 1)

    def quota(self, role: Role) -> tuple[int, int]:
        """Return how many sessions all tokens of a role may have together, and how many each."""
        together = self.max_sessions if role == "operator" else self.max_sessions - self.reserved
        if role == "observer":  # it only watches
            together = min(together, max(1, self.max_sessions // 8))
        each = together if role == "operator" else -(-together // 2)
        return together, each if self.sessions_each is None else min(together, self.sessions_each)
