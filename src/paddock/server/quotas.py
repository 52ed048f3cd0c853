"""Quotas: how much each token, role and tenant may have of a server, over all of its processes.

An account is a token's principal, or a tenant: "@" and its name. A token of a tenant is held to both. CPU time and
memory are measured once per second, and only if there is a limit of them.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from paddock.server.auth import Principal, Rates, role_of, tenant_of
from paddock.server.settings import Quota, Settings

if TYPE_CHECKING:
    from paddock.server.live_session import LiveSession
    from paddock.server.processes import Processes

_HOUR_S = 3600.0
_OVERDRAFT_S = 360.0  # who has used the CPU time of so many seconds to come loses a session: a tenth of the hour
_MEASURED = 64  # sessions that ended last: their lengths say when the next one will


class Full(NamedTuple):
    """Why no session is free: a word for the metrics, a text for the peer, and in how many seconds to try again."""

    reason: str
    text: str
    wait_s: float | None = None


class Quotas:
    """What is left for whom."""

    def __init__(self, settings: Settings, processes: Processes) -> None:
        self._settings, self._processes = settings, processes
        self._of: dict[str, Quota] = {"": settings.quota_each}  # by account; "" is each token's
        self._of |= {f"@{name}": quota for name, quota in settings.tenants.items()}
        rates, cpu = processes.buckets("requests"), processes.buckets("cpu")
        self._rates = {
            kind: Rates(one.rate, max(1, int(one.rate)), rates) for kind, one in self._of.items() if one.rate
        }
        self._cpu = {kind: Rates(one.cpu / _HOUR_S, one.cpu, cpu) for kind, one in self._of.items() if one.cpu}
        self._measures = any(one.cpu or one.memory for one in self._of.values())
        self._cpu_s: dict[LiveSession, float] = {}  # what accounts were charged for the sessions of this process
        self._memory: Counter[str] = Counter()  # bytes by account, of this process
        self._lengths: deque[float] = deque(maxlen=_MEASURED)
        self._lived_s = 0.0  # by these, and by those that go on

    def _accounts(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield a principal's accounts, each with the one that its limits are under."""
        if tenant := tenant_of(name):
            yield f"@{tenant}", f"@{tenant}"
        yield name, ""

    # Requests

    def wait_s(self, name: str, now_s: float) -> float:
        """Return 0 and count a request if this principal may send it now; otherwise in how many seconds it may."""
        waits = (self._rates[kind].wait_s(one, now_s) for one, kind in self._accounts(name) if kind in self._rates)
        return next((wait_s for wait_s in waits if wait_s), 0.0)

    def charge(self, name: str, now_s: float, count: int) -> float:
        """Count requests that it has sent; return for how many seconds it must be silent to keep its rate."""
        rates = self._rates
        return max(rates[kind].charge(one, now_s, count) for one, kind in self._accounts(name) if kind in rates)

    # Sessions

    def why_full(self, principal: Principal, sessions: Counter[str]) -> Full | None:
        """Say why no session is free for it; None if one is. ``sessions``: of all processes, by principal."""
        most, reserved, role = self._settings.max_sessions, self._settings.reserved, principal.role
        by_role: Counter[str] = Counter()
        for name, count in sessions.items():
            by_role[role_of(name)] += count
        together, each = self._settings.quota(role)
        lower = by_role["agent"] + by_role["observer"]
        if (used_up := self._why_used_up(principal.name)) is not None:
            return used_up
        if sessions.total() >= most:
            return self._full("capacity", f"All {most} sessions are in use.", most)
        if role != "operator" and lower >= most - reserved:
            text = f"The remaining sessions are reserved for operators ({reserved} of {most})."
            return self._full("role", text, lower)
        if by_role[role] >= together:
            return self._full("role", f"The role {role!r} already has its {together} sessions.", together)
        if sessions[principal.name] >= each:
            text = f"You already have {each} sessions, the most that one token may have. Close one."
            return self._full("quota", text, each)
        if self.has_all(principal, sessions):
            own = _of_tenant(tenant_of(principal.name), sessions)
            return self._full("tenant", f"Your tenant already has its {own} sessions. Close one.", own)
        return None

    def has_all(self, principal: Principal, sessions: Counter[str]) -> bool:
        """Whether it, or its tenant, has as many sessions as it may."""
        tenant = tenant_of(principal.name)
        most = self._of[f"@{tenant}"].sessions if tenant else None
        full = most is not None and _of_tenant(tenant, sessions) >= most
        return full or sessions[principal.name] >= self._settings.quota(principal.role)[1]

    def _why_used_up(self, name: str) -> Full | None:
        for account, kind in self._accounts(name):
            whose, quota = "Your tenant" if kind else "Your token", self._of[kind]
            if owed_s := self._owed_s(account, kind):
                text = f"{whose} has used its CPU time, {quota.cpu:g} s per hour. Try again in {owed_s:.0f} s."
                return Full("cpu", text, owed_s)
            if quota.memory and self._used_bytes(account) >= quota.memory * 1e6:
                return Full("memory", f"{whose} uses all of its memory, {quota.memory:g} MB. Close a session.")
        return None

    def _owed_s(self, account: str, kind: str) -> float:
        return self._cpu[kind].charge(account, time.monotonic(), 0) if kind in self._cpu else 0.0

    def _used_bytes(self, account: str) -> int:
        return self._memory[account] + self._processes.of_others("memory")[account]

    def _full(self, reason: str, text: str, sessions: int) -> Full:
        wait_s = self._wait_s(sessions)
        when = "Try again later." if wait_s is None else f"One is likely to end in about {max(1, round(wait_s))} s."
        return Full(reason, f"{text} {when}", wait_s)

    def _wait_s(self, sessions: int) -> float | None:
        """Return in how many seconds one of so many sessions is likely to have ended; None if none ever has.

        Those that go on count with their ages: the mean of those that have ended would be too short.
        """
        others = self._processes.of_others("lengths")
        ended = len(self._lengths) + others["ended"]
        return (self._lived_s + others["lived_s"]) / ended / max(1, sessions) if ended else None

    # What sessions use

    def end(self, live: LiveSession) -> None:
        """Learn from a session that has ended how long sessions last, and charge what it used last."""
        self._lengths.append(time.monotonic() - live.began_s)
        if self._measures:
            self._charge_cpu(live, live.usage()[1])
            del self._cpu_s[live]

    def measure(self, lives: Collection[LiveSession]) -> Iterator[tuple[LiveSession, str, str]]:
        """Measure the sessions of this process; yield those that must end, with a word and a text that say why."""
        now_s = time.monotonic()
        self._lived_s = sum(self._lengths) + sum(now_s - live.began_s for live in lives)
        self._processes.publish("lengths", {"ended": len(self._lengths), "lived_s": round(self._lived_s)})
        if not self._measures:
            return
        by_account: dict[tuple[str, str], list[tuple[int, LiveSession]]] = {}
        for live in lives:
            used, cpu_s = live.usage()
            self._charge_cpu(live, cpu_s)
            for one in self._accounts(live.principal):
                by_account.setdefault(one, []).append((used, live))
        self._memory = Counter({account: sum(used for used, _ in own) for (account, _), own in by_account.items()})
        largest = {account: max(used for used, _ in own) for (account, _), own in by_account.items()}
        self._processes.publish("memory", self._memory)
        self._processes.publish("largest", largest)
        for (account, kind), own in by_account.items():
            whose, quota = "tenant" if kind else "token", self._of[kind]
            elsewhere = max((one.get(account, 0) for one in self._processes.each_of_others("largest")), default=0)
            above = quota.memory and self._used_bytes(account) > quota.memory * 1e6
            if above and largest[account] >= elsewhere:
                live = max(own, key=lambda one: one[0])[1]
                yield live, "memory", f"Its {whose} took more than {quota.memory:g} MB, and this session the most."
            elif self._owed_s(account, kind) > _OVERDRAFT_S:
                live = max((one for _, one in own), key=lambda one: self._cpu_s[one])
                yield live, "cpu", f"Its {whose} has used far more than {quota.cpu:g} CPU seconds in an hour."

    def _charge_cpu(self, live: LiveSession, cpu_s: float) -> None:
        more_s, self._cpu_s[live] = cpu_s - self._cpu_s.get(live, 0.0), cpu_s
        for account, kind in self._accounts(live.principal):
            if kind in self._cpu:
                self._cpu[kind].charge(account, time.monotonic(), more_s)

    def gauges(self, sessions: Counter[str]) -> dict[str, float]:
        """Return what this process's ``sessions``, by principal, use of the tenants' quotas."""
        found: dict[str, float] = {}
        for name in self._settings.tenants:
            found[f'paddock_tenant_sessions{{tenant="{name}"}}'] = _of_tenant(name, sessions)
            if self._measures:
                found[f'paddock_tenant_memory_bytes{{tenant="{name}"}}'] = self._memory[f"@{name}"]
        return found


def _of_tenant(tenant: str, sessions: Counter[str]) -> int:
    return sum(count for name, count in sessions.items() if tenant_of(name) == tenant)
