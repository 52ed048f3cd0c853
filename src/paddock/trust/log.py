"""The log of this user: what was installed, granted, registered and overridden, one line each. Lines are only added.

Each line has the SHA-256 of the line before it, so one that was changed, taken out or put in is noticed. Lines taken
from the end are not, unless the hash of the last one, the head, was written down elsewhere.
"""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from paddock.errors import InvalidJournal, StorageFull
from paddock.spaces.json_data import JsonLimits, NotJson
from paddock.trust.envelope import canonical_json, read_canonical
from paddock.trust.files import FULL, data_folder, lock_file

Event: TypeAlias = Literal["install", "uninstall", "grant", "withdraw", "trust", "registration", "override"]
_MAX_LINE = 1 << 16
_LIMITS = JsonLimits(text=_MAX_LINE, nesting=8)
_FIRST = "0" * 64  # stands for the line before the first one
_KEYS = {"number", "at", "user", "event", "facts", "previous"}


class Entry(NamedTuple):
    """One line. ``digest`` is its own hash, which the next one names; that of the last line is the head."""

    number: int
    at: str
    user: str
    event: str
    facts: dict[str, Any]
    digest: str


def log_path() -> Path:
    """Where the log is; it need not exist."""
    return data_folder() / "log.jsonl"


def add_to_log(event: Event, **facts: Any) -> None:
    """Add a line, and return once the disk has it. StorageFull if it can't be written: the log is as it was."""
    with logging((event, facts)):
        pass


@contextmanager
def logging(*events: tuple[Event, dict[str, Any]]) -> Iterator[None]:
    """Add a line for each before the block, which does what they say. If it raises, they are taken back."""
    path = log_path()
    with lock_file(path.with_suffix(".lock")):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            end, last = _find_last(file, path)
            before, previous = (0, _FIRST) if last is None else (last.number, last.digest)
            lines = b""
            for number, (event, facts) in enumerate(events, start=before + 1):
                line = canonical_json(
                    {
                        "number": number,
                        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                        "user": _user(),
                        "event": event,
                        "facts": facts,
                        "previous": previous,
                    }
                )
                if len(line) > _MAX_LINE:
                    raise ValueError(f"a line of the log with {len(line)} bytes; at most {_MAX_LINE} are read")
                lines, previous = lines + line + b"\n", sha256(line).hexdigest()
            file.truncate(end)  # what an earlier write that failed has left
            file.seek(end)
            try:
                if file.write(lines) != len(lines):
                    raise OSError(FULL[0], os.strerror(FULL[0]))
                os.fsync(descriptor)
            except OSError as error:
                file.truncate(end)
                raise StorageFull(f"{path} can't be written: {error.strerror}. Nothing was changed.") from error
            try:
                yield
            except BaseException:
                file.truncate(end)
                raise


def note(event: Event, about: str, **facts: Any) -> None:
    """Add a line about something that is only of use here, unless the newest such line says the same already.

    A log that can't be read or written stops nothing: `paddock log` says what is wrong with it.
    """
    with suppress(OSError, ValueError, ImportError):  # no home, no locks, a broken line
        path, facts = log_path(), {"id": about, **facts}
        if _NOTED.get((path, event, about)) == facts:
            return
        newest: dict[str, Any] = {}
        for entry in read_log():
            if entry.event == event and entry.facts.get("id") == about:
                newest = entry.facts
        if newest != facts:
            add_to_log(event, **facts)
        _NOTED[path, event, about] = facts


_NOTED: dict[tuple[Path, str, str], dict[str, Any]] = {}


def read_log() -> Iterator[Entry]:
    """Yield all entries, the oldest first. InvalidJournal names the line where the chain is broken."""
    path, previous, number = log_path(), _FIRST, 0
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        while line := file.readline(_MAX_LINE + 2):
            number += 1
            if not line.endswith(b"\n") and len(line) <= _MAX_LINE + 1:
                return  # a write that broke off: nobody was told that it was there
            entry = _parse(line, path, number)
            if entry.number != number or json.loads(line)["previous"] != previous:
                raise InvalidJournal(f"{path}: line {number} does not follow the line before it. The log was changed.")
            previous = entry.digest
            yield entry


def _parse(line: bytes, path: Path, number: int | str) -> Entry:
    try:
        plain = read_canonical(line.rstrip(b"\n"), _LIMITS)
        if not isinstance(plain, dict) or plain.keys() != _KEYS or not isinstance(plain["facts"], dict):
            raise NotJson("it has not the fields of an entry")
    except NotJson as error:
        raise InvalidJournal(
            f"{path}: line {number} is not an entry of the log: {error}. The log was changed."
        ) from None
    digest = sha256(line.rstrip(b"\n")).hexdigest()
    return Entry(plain["number"], plain["at"], plain["user"], plain["event"], plain["facts"], digest)


def _find_last(file: Any, path: Path) -> tuple[int, Entry | None]:
    """Return where the last whole line ends, and that line."""
    size = file.seek(0, os.SEEK_END)
    start = max(0, size - 2 * _MAX_LINE)
    file.seek(start)
    tail = file.read(size - start)
    whole = tail[: tail.rfind(b"\n") + 1]
    if not whole:
        return 0, None
    return start + len(whole), _parse(whole.splitlines(keepends=True)[-1], path, "the last")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in some containers
        return str(os.getuid())
