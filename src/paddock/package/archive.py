"""The zip around a package: its bytes follow from its entries alone, and a file with any other bytes is refused.

Entries are stored, not compressed, so there is nothing between a file's bytes and its digest, and no bomb. The reader
computes the headers that its own writer would write, and compares: no field is left that two programs could read
differently.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from paddock.errors import InvalidPackage
from paddock.trust.files import open_regular

MAX_ENTRIES = 10_000
MAX_BYTES = 1 << 30
_MAX_NAME = 400
_MAX_DEPTH = 16
CHUNK = 1 << 20

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_VERSION, _UNIX, _DATE = 10, 3 << 8, 0x21  # stored files; permissions as Unix has them; 1980-01-01

# Names that mean the same on every system: ASCII, no separator of another one, nothing hidden.
_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.+@=,()~ -]{0,126}[A-Za-z0-9_+@=()~-])?", re.ASCII)
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.ASCII | re.IGNORECASE)
# What Python runs or believes without being asked to.
_AUTORUN = re.compile(r".*\.(?:pth|pyc|pyo|egg-link)|(?:site|user)customize(?:\..*)?|__pycache__", re.IGNORECASE)


@dataclass(frozen=True)
class Entry:
    """One file of the archive. ``mode``: 0o644 or 0o755."""

    name: str
    mode: int
    size: int
    crc: int

    @property
    def local(self) -> bytes:
        """The bytes before the file's."""
        name = self.name.encode("ascii")
        sizes = self.crc, self.size, self.size, len(name), 0
        return _LOCAL.pack(b"PK\3\4", _VERSION, 0, 0, 0, _DATE, *sizes) + name

    def central(self, offset: int) -> bytes:
        """The entry in the list at the end."""
        name = self.name.encode("ascii")
        sizes = self.crc, self.size, self.size, len(name), 0, 0, 0, 0, (stat.S_IFREG | self.mode) << 16, offset
        return _CENTRAL.pack(b"PK\1\2", _UNIX | _VERSION, _VERSION, 0, 0, 0, _DATE, *sizes) + name


def check_name(name: str) -> None:
    """Refuse a path that could mean another file on some system, or that Python would run by itself."""
    parts = name.split("/")
    if len(name) > _MAX_NAME or len(parts) > _MAX_DEPTH:
        raise InvalidPackage(f"The path {ascii(name)[:80]} is too long or too deep.")
    for part in parts:
        if not _PART.fullmatch(part) or _DEVICE.fullmatch(part):
            raise InvalidPackage(
                f"The path {ascii(name)[:80]} is not portable: use ASCII letters, digits and . _ - + = @ , ( ) ~."
            )
        if _AUTORUN.fullmatch(part):
            raise InvalidPackage(f"{ascii(name)[:80]}: Python would run or believe this file unasked. Leave it out.")


def check_names(names: Iterable[str]) -> None:
    """Refuse names that are one file where case does not count, or of which one is the other's folder."""
    files: set[str] = set()
    folders: set[str] = set()
    for name in names:
        check_name(name)
        plain = name.lower()
        if plain in files:
            raise InvalidPackage(f"{name!r} is there twice, or differs from another path by case alone.")
        files.add(plain)
        at = plain.rfind("/")
        while at > 0 and plain[:at] not in folders:
            folders.add(plain[:at])
            at = plain.rfind("/", 0, at)
    if both := files & folders:
        raise InvalidPackage(f"{min(both)!r} is a file and a folder.")


def write_archive(out: BinaryIO, files: Iterable[tuple[Entry, Iterable[bytes]]]) -> None:
    """Write entries with their bytes, in this order. InvalidPackage if a file is not what its entry says."""
    central = b""
    offset = count = 0
    for entry, chunks in files:
        out.write(entry.local)
        size = crc = 0
        for chunk in chunks:
            out.write(chunk)
            size, crc = size + len(chunk), zlib.crc32(chunk, crc)
        if (size, crc) != (entry.size, entry.crc):
            raise InvalidPackage(f"{entry.name} changed while it was read. Try again.")
        central += entry.central(offset)
        offset += len(entry.local) + size
        count += 1
    if count > MAX_ENTRIES or offset > MAX_BYTES:
        raise InvalidPackage(f"A package has at most {MAX_ENTRIES:,} files and {MAX_BYTES >> 20:,} MiB.")
    out.write(central + _END.pack(b"PK\5\6", 0, 0, count, count, len(central), offset, 0))


class Archive:
    """An open archive whose every byte outside of the files' own has been checked. Close it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self._stream = open_regular(path)
        except ValueError as error:
            raise InvalidPackage(str(error)) from None
        try:
            self.entries, self._places = self._read_entries()
        except BaseException:
            self._stream.close()
            raise

    def close(self) -> None:
        self._stream.close()

    def read(self, name: str) -> bytes:
        """Return a small file whole."""
        return b"".join(self.chunks(name))

    def chunks(self, name: str) -> Iterator[bytes]:
        """Read one file in pieces. InvalidPackage at its end if it was changed."""
        entry, (stream, crc, left) = self.entries[name], (self._stream, 0, self.entries[name].size)
        stream.seek(self._places[name])
        if stream.read(len(entry.local)) != entry.local:
            raise InvalidPackage(f"The package is damaged, or was not written by `paddock pack`: at {name}.")
        while left:
            chunk = stream.read(min(left, CHUNK))
            if not chunk:
                raise InvalidPackage(f"The package ends within {name}.")
            left -= len(chunk)
            crc = zlib.crc32(chunk, crc)
            yield chunk
        if crc != entry.crc:
            raise InvalidPackage(f"{name} was changed: its checksum is another.")

    def _read_entries(self) -> tuple[dict[str, Entry], dict[str, int]]:
        status = os.fstat(self._stream.fileno())
        if not _END.size <= status.st_size <= MAX_BYTES:
            raise InvalidPackage(f"A package has {_END.size} bytes to {MAX_BYTES >> 20:,} MiB; got {status.st_size:,}.")
        self._stream.seek(status.st_size - _END.size)
        end = self._stream.read(_END.size)
        count, length, start = _END.unpack(end)[4:7]
        whole = start + length + _END.size == status.st_size
        if not whole or end != _END.pack(b"PK\5\6", 0, 0, count, count, length, start, 0):
            raise InvalidPackage("This is not a package: its end is not that of a file that `paddock pack` wrote.")
        if not 0 < count <= MAX_ENTRIES or length > count * (_CENTRAL.size + _MAX_NAME):
            raise InvalidPackage(f"A package has 1 to {MAX_ENTRIES:,} files; this one says {count:,}.")
        self._stream.seek(start)
        return _parse(self._stream.read(length), count, start)


def _parse(listed: bytes, count: int, end: int) -> tuple[dict[str, Entry], dict[str, int]]:
    """Return the entries and where each begins. They follow each other without a gap, up to ``end``."""
    entries: dict[str, Entry] = {}
    places: dict[str, int] = {}
    at = offset = 0
    for _ in range(count):
        if at + _CENTRAL.size > len(listed):
            raise InvalidPackage("The package's list of files ends too early.")
        fields = _CENTRAL.unpack_from(listed, at)
        crc, size, length, attributes = fields[7], fields[8], fields[10], fields[15]
        raw = listed[at + _CENTRAL.size : at + _CENTRAL.size + length]
        mode = attributes >> 16 & 0o7777
        if not raw.isascii() or mode not in (0o644, 0o755):
            raise InvalidPackage(f"{ascii(raw)[1:80]}: expected an ASCII name, and a file of mode 0644 or 0755.")
        entry = Entry(raw.decode(), mode, size, crc)
        if offset + len(entry.local) + size > end:
            raise InvalidPackage(f"{ascii(entry.name)[:80]} is larger than what is left of the package.")
        if listed[at : at + _CENTRAL.size + length] != entry.central(offset):
            raise InvalidPackage(
                f"{ascii(entry.name)[:80]}: expected a stored regular file right after the one before, without comment "
                f"or extra field, as `paddock pack` writes it."
            )
        if entry.name in entries:
            raise InvalidPackage(f"{entry.name!r} is there twice.")
        entries[entry.name], places[entry.name] = entry, offset
        at += _CENTRAL.size + length
        offset += len(entry.local) + size
    if at != len(listed) or offset != end:
        raise InvalidPackage("The package's list of files does not cover it from the first byte to the last.")
    check_names(entries)
    return entries, places
