"""Who is asking: tokens and the roles behind them. Only digests are kept, so no token can be printed or logged."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal, get_args

from paddock.errors import PlanError

Role = Literal["operator", "agent", "observer"]

audit = logging.getLogger("paddock.audit")

_LEAST_LENGTH = 16  # characters; 16 of base64 are 96 bits
_FILE_BYTES = 1 << 20


@dataclass(frozen=True)
class Principal:
    """Someone who was let in. ``name`` is derived from the token and says nothing about it.

    ``session``: the one session that this principal may use, who was handed it; it opens none.
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
    """The tokens that are valid here. With ``file``, a changed file counts from the next request on.

    While the file can't be read, nobody is let in, but the tokens of before are not withdrawn: one typo must not end
    every session.
    """

    def __init__(self, entries: Iterable[_Entry], file: Path | None = None) -> None:
        self._entries, self._file = tuple(entries), file
        self._stamp, self._readable = _stamp(file), True

    @classmethod
    def fresh(cls) -> tuple[Tokens, str]:
        """A new operator token, and the only place where it can be read."""
        token = secrets.token_urlsafe(32).lstrip("-")  # a command line would take it for an option
        return cls([_entry("operator", token, None)]), token

    @classmethod
    def of(cls, token: str) -> Tokens:
        """One operator token, chosen by who runs the server."""
        if len(token) < _LEAST_LENGTH or token.split() != [token]:
            raise PlanError(f"A token has {_LEAST_LENGTH} characters or more, and no spaces.")
        return cls([_entry("operator", token, None)])

    @classmethod
    def from_file(cls, file: Path) -> Tokens:
        """One token a line: ``role token``, or ``token`` alone for an operator; then, if it ends, an ISO time."""
        return cls(_read(file), file)

    def principal(self, authorization: str | None, *, now: datetime | None = None) -> Principal | None:
        """Who sends this ``Authorization`` header: Bearer, or Basic with the token as password."""
        token = token_in(authorization)
        if token is None:
            return None
        self._read_again()
        digest, found = token_digest(token), None
        for entry in self._entries:  # all of them, always: time tells nothing
            if hmac.compare_digest(entry.digest, digest):
                found = entry
        return None if found is None or _over(found, now) or not self._readable else found.principal

    def names(self, *, now: datetime | None = None) -> set[str]:
        """The principals whose tokens are valid now, or were when the file could be read last."""
        if not self._readable:
            self._stamp = None  # it may be readable again and the same as before
        self._read_again()
        return {entry.principal.name for entry in self._entries if not _over(entry, now)}

    def _read_again(self) -> None:
        stamp = _stamp(self._file)
        if self._file is not None and stamp != self._stamp:
            try:
                self._entries, readable = tuple(_read(self._file)), True
            except (OSError, PlanError) as error:
                readable = False
                if self._readable:
                    audit.error("nobody is let in until the token file can be read; sessions go on: %s", error)
            if readable and not self._readable:
                audit.warning("the token file can be read again")
            self._stamp, self._readable = stamp, readable


def _over(entry: _Entry, now: datetime | None) -> bool:
    return entry.ends is not None and (now or datetime.now(timezone.utc)) >= entry.ends


def token_in(authorization: str | None) -> str | None:
    """What an ``Authorization`` header has to show."""
    kind, _, value = (authorization or "").partition(" ")
    value = value.strip()
    if kind.lower() == "bearer" and value:
        return value
    if kind.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2] or None
        except ValueError:  # no base64, or no text in it
            return None
    return None


def _read(file: Path) -> list[_Entry]:
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
        role = words.pop(0) if words[0] in get_args(Role) and len(words) > 1 else "operator"
        if wrong := _mistake(words):
            raise PlanError(
                f"{file}, line {number}: {wrong}. Expected 'role token' or 'token', then at most an end as an ISO "
                f"time. Roles are {', '.join(get_args(Role))}; a token has {_LEAST_LENGTH} characters or more."
            )
        entries.append(_entry(role, words[0], _time(words[1], file, number) if len(words) == 2 else None))
    if not entries:
        raise PlanError(f"{file} has no token. Write a line as 'operator {'x' * 3}…', with 16 characters or more.")
    return entries


def _mistake(words: list[str]) -> str:
    """What is wrong with a line after its role. Nothing of it is repeated: any of its words may be a token."""
    if words[0] in get_args(Role):
        return "there is a role without a token"
    if len(words[0]) < _LEAST_LENGTH:
        if len(words) > 1 and len(words[1]) >= _LEAST_LENGTH and _as_time(words[1]) is None:
            return "the first of its words is no role, and too short for a token"
        return f"the token has {len(words[0])} characters, too few"
    if len(words) > 2:
        return "there is more than the token and its end"
    return ""


def _as_time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None


def _time(text: str, file: Path, number: int) -> datetime:
    if (time := _as_time(text)) is None:
        # Not repeated: it may be a token, and this goes to a log.
        raise PlanError(f"{file}, line {number}: what follows the token is no ISO time, as 2027-01-31T00:00:00Z.")
    return time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)


def _entry(role: str, token: str, ends: datetime | None) -> _Entry:
    digest = token_digest(token)
    return _Entry(digest, Principal(named(role, digest), role), ends)  # type: ignore[arg-type]


def named(role: str, digest: bytes) -> str:
    """What a principal is called in logs and lists."""
    return f"{role}-{hashlib.sha256(digest).hexdigest()[:8]}"


def role_of(name: str) -> str:
    """The role of a principal, from what it is called; a journal has nothing else of it."""
    return name.partition("-")[0]


def token_digest(token: str) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).digest()


def _stamp(file: Path | None) -> tuple[int, int, int] | None:
    if file is None:
        return None
    try:
        found = file.stat()
    except OSError:
        return (0, 0, 0)
    return found.st_mtime_ns, found.st_size, found.st_ino
