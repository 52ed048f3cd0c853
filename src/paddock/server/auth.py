"""Access control: where a request may come from, who sends it, how often it may, and how much it may have.

Only digests of tokens are kept, so none can be printed or logged.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import logging
import re
import secrets
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from paddock.errors import PlanError
from paddock.hosting.remote_address import is_loopback

if TYPE_CHECKING:
    from paddock.server.live_session import LiveSession
    from paddock.server.processes import Processes
    from paddock.server.settings import Quota, Settings

Role = Literal["operator", "agent", "observer"]

audit = logging.getLogger("paddock.audit")

# Must match all of it: no part of "[::1].evil.example" or "localhost:80@evil.example" may pass for the whole.
_HOST = re.compile(r"(?P<name>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_LEAST_LENGTH = 16  # characters; 16 of base64 are 96 bits
_FILE_BYTES = 1 << 20


@dataclass(frozen=True)
class OriginCheck:
    """Refuses what browsers may send for other sites, before tokens are looked at.

    ``hosts``: names by which this server may be addressed; with ``literals`` also by any IP address. A page of another
    site may reach a server on this machine by a name of its own that resolves to 127.0.0.1, so the name must be one of
    ours. An IP address can't be such a name.
    """

    hosts: frozenset[str]
    origins: frozenset[str] = frozenset()
    literals: bool = False

    @classmethod
    def for_bind(
        cls, host: str | None, origins: frozenset[str] = frozenset(), hosts: frozenset[str] = frozenset()
    ) -> OriginCheck:
        """Make the check for a server that listens on ``host``; None is a unix socket, which no page can reach."""
        own = _LOOPBACK | {name.lower() for name in hosts} | ({host.lower()} if host else set())
        if host is None or is_loopback(host.lower().strip("[]")):
            return cls(own, origins)
        return cls(own | {socket.gethostname().lower(), socket.getfqdn().lower()}, origins, literals=True)

    def refusal(self, headers: Mapping[str, str]) -> str | None:
        """Say why a request with these headers is refused (403), or None."""
        if not self._is_ours(headers.get("host", "")):
            return "This server is not known by that Host; see --allow-host."
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self.origins:
            return "Requests from that Origin are not allowed; see --allow-origin."
        if origin is None and headers.get("sec-fetch-site", "none").lower() not in ("none", "same-origin"):
            return "Requests from other sites are not allowed."
        return None

    def _is_ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found["name"].lower()
        if name in self.hosts or not self.literals:
            return name in self.hosts
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True


@dataclass(frozen=True)
class Principal:
    """Whoever has a valid token. ``name`` is derived from the token and reveals nothing about it.

    ``session``: the only session that this principal may use, by a pass; it opens none.
    """

    name: str
    role: Role
    session: str | None = None


@dataclass(frozen=True)
class _Entry:
    digest: bytes
    principal: Principal
    ends: datetime | None


class Tokens:
    """The valid tokens. With ``file``, a changed file applies from the next request on.

    While the file can't be read, every token is refused, but the old ones are not withdrawn: one typo must not end
    every session.
    """

    def __init__(self, entries: Iterable[_Entry], file: Path | None = None, tenants: Collection[str] = ()) -> None:
        self._entries, self._file, self._tenants = tuple(entries), file, tenants
        self._stamp, self._readable = _file_stamp(file), True

    @classmethod
    def fresh(cls) -> tuple[Tokens, str]:
        """Generate an operator token; the returned text is the only place where it can be read."""
        token = secrets.token_urlsafe(32).lstrip("-")  # a command line would take it for an option
        return cls([_entry("operator", token, None)]), token

    @classmethod
    def of(cls, token: str) -> Tokens:
        """Take one operator token, chosen by whoever runs the server."""
        if len(token) < _LEAST_LENGTH or token.split() != [token]:
            raise PlanError(f"A token must have at least {_LEAST_LENGTH} characters and no spaces.")
        return cls([_entry("operator", token, None)])

    @classmethod
    def from_file(cls, file: Path, tenants: Collection[str] = ()) -> Tokens:
        """Read one token per line: ``role token``, or an operator's ``token``; then an ISO time if it expires.

        ``role@tenant``: for one of the ``tenants``.
        """
        return cls(_read_entries(file, tenants), file, tenants)

    def principal(self, authorization: str | None, *, now: datetime | None = None) -> Principal | None:
        """Return who sends this ``Authorization`` header: Bearer, or Basic with the token as password."""
        token = token_from(authorization)
        if token is None:
            return None
        self._read_again()
        digest, found = token_digest(token), None
        for entry in self._entries:  # always all of them: the time taken reveals nothing
            if hmac.compare_digest(entry.digest, digest):
                found = entry
        return None if found is None or _is_expired(found, now) or not self._readable else found.principal

    def names(self, *, now: datetime | None = None) -> set[str]:
        """Return the principals whose tokens are valid now, or were when the file could last be read."""
        if not self._readable:
            self._stamp = None  # it may be readable again, and unchanged
        self._read_again()
        return {entry.principal.name for entry in self._entries if not _is_expired(entry, now)}

    def _read_again(self) -> None:
        stamp = _file_stamp(self._file)
        if self._file is not None and stamp != self._stamp:
            try:
                self._entries, readable = tuple(_read_entries(self._file, self._tenants)), True
            except (OSError, PlanError) as error:
                readable = False
                if self._readable:
                    audit.error("no token is accepted until the token file can be read; sessions go on: %s", error)
            if readable and not self._readable:
                audit.warning("the token file can be read again")
            self._stamp, self._readable = stamp, readable


def _is_expired(entry: _Entry, now: datetime | None) -> bool:
    return entry.ends is not None and (now or datetime.now(timezone.utc)) >= entry.ends


def token_from(authorization: str | None) -> str | None:
    """Return the token in an ``Authorization`` header, if there is one."""
    kind, _, value = (authorization or "").partition(" ")
    value = value.strip()
    if kind.lower() == "bearer" and value:
        return value
    if kind.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2] or None
        except ValueError:  # not base64, or not text
            return None
    return None


def _read_entries(file: Path, tenants: Collection[str]) -> list[_Entry]:
    with file.open("rb") as opened:
        data = opened.read(_FILE_BYTES + 1)
    if len(data) > _FILE_BYTES:
        raise PlanError(f"{file} has more than {_FILE_BYTES} bytes. Is it a file of tokens?")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise PlanError(f"{file} is not UTF-8. Is it a file of tokens?") from None
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        role, tenant = "operator", ""
        if len(words) > 1 and words[0].partition("@")[0] in get_args(Role):
            role, _, tenant = words.pop(0).partition("@")
        if tenant and tenant not in tenants:
            there = f"There are: {', '.join(tenants)}." if tenants else "See [tenants.NAME] of --config."
            raise PlanError(f"{file}, line {number}: there is no such tenant. {there}")
        if wrong := _line_error(words):
            raise PlanError(
                f"{file}, line {number}: {wrong}. Expected 'role token', 'role@tenant token' or 'token', then at most "
                f"an ISO time at which it expires. Roles are {', '.join(get_args(Role))}; a token has at least "
                f"{_LEAST_LENGTH} characters."
            )
        ends = _read_time(words[1]) if len(words) == 2 else None
        if len(words) == 2 and ends is None:
            # Not repeated: it may be a token, and this goes to a log.
            text = "the token's expiry is not an ISO time such as 2027-01-31T00:00:00Z"
            raise PlanError(f"{file}, line {number}: {text}.")
        entries.append(_entry(role, words[0], ends, tenant))
    if not entries:
        raise PlanError(f"{file} has no token. Write a line such as 'operator xxx…', with at least 16 characters.")
    return entries


def _line_error(words: list[str]) -> str:
    """Say what is wrong with a line after its role. The words are not repeated: any of them may be a token."""
    if words[0] in get_args(Role):
        return "there is a role without a token"
    if len(words[0]) < _LEAST_LENGTH:
        if len(words) > 1 and len(words[1]) >= _LEAST_LENGTH and _read_time(words[1]) is None:
            return "its first word is not a role, and too short for a token"
        return f"the token has only {len(words[0])} characters"
    if len(words) > 2:
        return "there is more than the token and its expiry"
    return ""


def _read_time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)


def _entry(role: str, token: str, ends: datetime | None, tenant: str = "") -> _Entry:
    digest = token_digest(token)
    return _Entry(digest, Principal(principal_name(role, digest, tenant), role), ends)  # type: ignore[arg-type]


def principal_name(role: str, digest: bytes, tenant: str = "") -> str:
    """Name a principal for logs and lists."""
    return f"{role}-{hashlib.sha256(digest).hexdigest()[:8]}{'@' if tenant else ''}{tenant}"


def role_of(name: str) -> str:
    """Read the role from a principal's name: a journal keeps nothing else of it."""
    return name.partition("-")[0]


def tenant_of(name: str) -> str:
    """Read the tenant from a principal's name; "" if it belongs to none."""
    return name.partition("@")[2]


def token_digest(token: str) -> bytes:
    """Digest a token: this is all that is kept of it."""
    return hashlib.sha256(token.encode()).digest()


def _file_stamp(file: Path | None) -> tuple[int, int, int] | None:
    if file is None:
        return None
    try:
        found = file.stat()
    except OSError:
        return (0, 0, 0)
    return found.st_mtime_ns, found.st_size, found.st_ino


class Passes:
    """Tokens for one session each, which an operator hands to an agent. A pass opens no session and ends with its own.

    A session has one pass: a new one replaces the old, so a lost one can be revoked. Only digests are kept.
    """

    def __init__(self, new_pass: Callable[[], str], publish: Callable[[Mapping[str, int]], None]) -> None:
        self._new_pass, self._publish = new_pass, publish
        self._by_digest: dict[bytes, Principal] = {}
        self._of_session: dict[str, bytes] = {}

    def issue(self, session: str, tenant: str = "") -> str:
        """Issue a pass for this session of a tenant, in place of any earlier one."""
        self.end(session)
        token = self._new_pass()
        digest = token_digest(token)
        self._of_session[session] = digest
        self._by_digest[digest] = Principal(principal_name("agent", digest, tenant), "agent", session)
        self._publish({one.hex(): 1 for one in self._by_digest})
        return token

    def principal(self, authorization: str | None) -> Principal | None:
        """Return who sends this ``Authorization`` header, if it is a pass."""
        token = token_from(authorization) if self._by_digest else None
        return None if token is None else self._by_digest.get(token_digest(token))

    def is_valid(self, principal: Principal) -> bool:
        """Whether the pass of a principal who was admitted before is still valid."""
        digest = self._of_session.get(principal.session or "")
        return digest is not None and self._by_digest[digest] == principal

    def end(self, session: str) -> None:
        digest = self._of_session.pop(session, None)
        if digest is not None:
            del self._by_digest[digest]
            self._publish({one.hex(): 1 for one in self._by_digest})


_Bucket = tuple[float, float]  # how many requests were left, and when


class Buckets:
    """A table by name in memory that several processes may have; ``kind`` keeps rates apart. Of many names old ones go.

    Nothing is locked, since that would cost a system call per request: if two processes charge one name within the same
    microsecond, one of the two charges (at most a lot, see ``Toll``) may be lost, and nothing else.
    """

    _ENTRIES, _FIELDS, _TRIES = 1 << 14, 3, 16
    BYTES = _ENTRIES * _FIELDS * 8

    def __init__(self, memory: memoryview, kind: str) -> None:
        self._cells, self._kind = memory.cast("d"), kind  # per entry: the name's hash, left, when

    def _place(self, name: str) -> tuple[int, float]:
        """Return where this name's entry is, or shall be, and its hash, which is that of all forked processes."""
        number = hash((self._kind, name))
        mark, cells, oldest = float(number >> 11 or 1), self._cells, -1  # a float holds 53 bits
        for at in range(number, number + self._TRIES):
            place = at % self._ENTRIES * self._FIELDS
            if cells[place] == mark:
                return place, mark
            oldest = place if oldest < 0 or cells[place + 2] < cells[oldest + 2] else oldest
        return oldest, mark

    def get(self, name: str) -> _Bucket | None:
        place, mark = self._place(name)
        return (self._cells[place + 1], self._cells[place + 2]) if self._cells[place] == mark else None

    def __setitem__(self, name: str, bucket: _Bucket) -> None:
        place, mark = self._place(name)
        self._cells[place + 1], self._cells[place + 2] = bucket
        self._cells[place] = mark


class Rates:
    """Allow each name ``per_s`` requests per second, and ``burst`` at once. Quiet names are forgotten.

    Time is an argument, so that a test needs no clock.
    """

    def __init__(self, per_s: float, burst: float, buckets: Buckets | None = None) -> None:
        self._per_s, self._burst = per_s, float(burst)
        self._buckets = buckets or Buckets(memoryview(bytearray(Buckets.BYTES)), "")

    def wait_s(self, name: str, now_s: float) -> float:
        """Return 0 and count the request if ``name`` may send it now; otherwise in how many seconds it may."""
        left = self._left(name, now_s)
        if left < 1:
            return (1 - left) / self._per_s
        self._buckets[name] = left - 1, now_s
        return 0.0

    def charge(self, name: str, now_s: float, count: float = 1) -> float:
        """Count requests that ``name`` has sent; return for how many seconds it must be silent to keep its rate."""
        left = self._left(name, now_s) - count
        self._buckets[name] = left, now_s
        return max(0.0, -left / self._per_s)

    def spent(self, name: str, now_s: float) -> bool:
        """Whether ``name`` may send nothing now; counts nothing."""
        return self._left(name, now_s) < 1

    def _left(self, name: str, now_s: float) -> float:
        left, at_s = self._buckets.get(name) or (self._burst, now_s)
        return min(self._burst, left + (now_s - at_s) * self._per_s)


class AddressRates:
    """Allow each address ``per_s`` requests per second and ``burst`` at once, and all together ten times as many."""

    def __init__(self, per_s: float, burst: int, buckets: Buckets | None = None) -> None:
        self._each = Rates(per_s, burst, buckets)
        self._all = Rates(10 * per_s, 10 * burst, buckets)  # under a name that no address has

    def wait_s(self, peer: str, now_s: float) -> float:
        return self._each.wait_s(network_of(peer), now_s) or self._all.wait_s("", now_s)

    def spent(self, peer: str, now_s: float) -> bool:
        """Whether this address may send nothing now; counts nothing."""
        return self._each.spent(network_of(peer), now_s)


def network_of(peer: str) -> str:
    """Return what counts as one address: an IPv4 address, or a 64-bit IPv6 network, which one machine may own."""
    return _network_of(peer.rpartition(":")[0] or peer)


@lru_cache(1024)
def _network_of(host: str) -> str:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped is not None else str(ipaddress.IPv6Network((address, 64), strict=False))
    return str(address)


# ── Quotas. An account is a token's principal, a tenant ("@" and its name) or "*", the server; all of them hold. ──
#
# CPU time and memory are measured once per second, and only if there is a limit of them.

_WHOSE = {"": "token", "@": "tenant", "*": "server"}
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
        if settings.max_memory is not None:
            self._of["*"] = replace(settings.quota_each, sessions=None, rate=None, cpu=None, memory=settings.max_memory)
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
        """Yield a principal's accounts, each with the one that its limits are under.

        Its own comes first: what that refuses is not charged to the tenant, whose other tokens would pay for it.
        """
        yield name, ""
        if (tenant := f"@{tenant_of(name)}") in self._of:  # a journal may be of one that is no longer configured
            yield tenant, tenant
        if "*" in self._of:
            yield "*", "*"

    # Requests

    def rate(self, name: str) -> float:
        """Return how many requests per second it may send: the lower of its own rate and its tenant's."""
        return min(self._of[kind].rate or inf for _, kind in self._accounts(name))

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
        quota = self._of.get(f"@{tenant}")
        most = None if quota is None else quota.sessions
        full = most is not None and _of_tenant(tenant, sessions) >= most
        return full or sessions[principal.name] >= self._settings.quota(principal.role)[1]

    def _why_used_up(self, name: str) -> Full | None:
        for account, kind in self._accounts(name):
            whose, quota = _WHOSE[kind[:1]], self._of[kind]
            if owed_s := self._owed_s(account, kind):
                text = f"Your {whose} has used its CPU time, {quota.cpu:g} s per hour. Try again in {owed_s:.0f} s."
                return Full("cpu", text, owed_s)
            if quota.memory and self._used_bytes(account) >= quota.memory * 1e6:
                which = "The server" if kind == "*" else f"Your {whose}"
                return Full("memory", f"{which} uses all of its memory, {quota.memory:g} MB. Close a session.")
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
            whose, quota = _WHOSE[kind[:1]], self._of[kind]
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
