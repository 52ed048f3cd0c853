"""The log of this user: what was installed, granted, registered and overridden, one line each. Lines are only added.

Each line has the SHA-256 of the line before it, so one that was changed, taken out or put in is noticed. Lines taken
from the end are not, unless the hash of the last one, the head, was written down elsewhere.
"""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from paddock.errors import InvalidJournal
from paddock.spaces.json_data import JsonLimits, NotJson
from paddock.trust.envelope import canonical_json, read_canonical
from paddock.trust.files import FULL, data_folder, lock_file, noticing_full_disk, replace_file

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
    write_logged((event, facts))


def write_logged(*events: tuple[Event, dict[str, Any]], path: Path | None = None, data: bytes = b"") -> None:
    """Add a line for each event, and then replace ``path``, a file of the data folder: all of it or nothing.

    If this process is killed between the two, whoever next writes or reads the log takes the lines back.
    """
    log = log_path()
    with lock_file(log.with_suffix(".lock")):
        _settle(log)
        descriptor = os.open(log, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            end, last = _find_last(file, log)
            lines = _chain(events, last)
            if path is not None:
                intended = {"end": end, "file": path.name, "sha256": sha256(data).hexdigest()}
                replace_file(_unfinished(log), canonical_json(intended))
            try:
                _append(file, end, lines)
                if path is not None:
                    replace_file(path, data)
            except BaseException:
                file.truncate(end)
                raise
            finally:
                _unfinished(log).unlink(missing_ok=True)


def _chain(events: Iterable[tuple[Event, dict[str, Any]]], last: Entry | None) -> bytes:
    """Return the lines of events, each with the digest of the one before it."""
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
            raise ValueError(f"a line of the log with {len(line):,} bytes; at most {_MAX_LINE:,} are read")
        lines, previous = lines + line + b"\n", sha256(line).hexdigest()
    return lines


def _append(file: Any, end: int, lines: bytes) -> None:
    file.truncate(end)  # what an earlier write that failed has left
    file.seek(end)
    with noticing_full_disk(log_path()):
        if file.write(lines) != len(lines):
            raise OSError(FULL[0], os.strerror(FULL[0]))
        os.fsync(file.fileno())


def _unfinished(log: Path) -> Path:
    """Where it is written which file the last lines are about, until that file is."""
    return log.with_suffix(".unfinished")


def _settle(log: Path) -> None:
    """Take back the lines of a process that was killed before it did what they say. The caller has the lock."""
    for left in log.parent.glob(".new-*"):  # all files here are written under the lock
        left.unlink()
    unfinished = _unfinished(log)
    if not unfinished.exists():
        return
    try:
        intended = read_canonical(unfinished.read_bytes(), _LIMITS)
        file, digest, end = log.parent / intended["file"], intended["sha256"], intended["end"]
        done = file.exists() and sha256(file.read_bytes()).hexdigest() == digest
    except (NotJson, KeyError, TypeError):
        raise InvalidJournal(
            f"{unfinished} is damaged. Compare `paddock list` with the last lines of {log}, and remove it."
        ) from None
    if not done and log.exists():
        os.truncate(log, min(end, log.stat().st_size))
    unfinished.unlink()


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
    if _unfinished(path).exists():
        with lock_file(path.with_suffix(".lock")):
            _settle(path)
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
