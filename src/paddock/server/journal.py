"""A session's journal: entries in a file that only grows, enough to rebuild a deterministic session and to prove it.

A reader would get wrong: an entry is written when a request is answered, not when it arrives. What was not answered
dies with its worker, and the client sends it again.

The file is ``PDKJRNL1``, then entries: bytes of the payload (u32, little-endian), crc32 of these four bytes, crc32 of
the payload, payload (MessagePack). Each crc goes on from the one before it, so an entry fits in one place only.
A last entry that is incomplete or broken was torn by a crash and is left out; a broken one before others is a change.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias
from zlib import crc32

import msgspec

from paddock.errors import InvalidJournal
from paddock.server.chain import digest, extended

MAGIC = b"PDKJRNL1"
_PREFIX = struct.Struct("<III")
_LENGTH = struct.Struct("<I")
_REST_BYTES = 1 << 16


class Header(msgspec.Struct, tag="header", array_like=True, frozen=True):
    """The first entry: what was made. ``spec``: digest of the spec that the kwargs were checked against."""

    session: str
    target: str
    kwargs: dict[str, Any]
    spec: bytes
    deterministic: bool

    @property
    def origin(self) -> bytes:
        """Where the chain begins."""
        return digest(_ENCODER.encode(self))


class Attached(msgspec.Struct, tag="attached", array_like=True, frozen=True):
    """A connection has the session. Tokens are digests: the journal lets nobody in."""

    epoch: int
    token: bytes
    spent: bytes
    holder: str
    attempt: int


class Carried(msgspec.Struct, tag="carried", array_like=True, frozen=True):
    """Request ``count`` (from 1) was answered: its frame, the digest of the reply and the chain's head after it."""

    count: int
    request: bytes
    reply: bytes
    chain: bytes


class Closed(msgspec.Struct, tag="closed", array_like=True, frozen=True):
    """Nothing is to be rebuilt: the session is over, or with a ``cause`` its environment is lost."""

    cause: str = ""


Entry: TypeAlias = "Header | Attached | Carried | Closed"
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Entry] = msgspec.msgpack.Decoder(Header | Attached | Carried | Closed)

Sync: TypeAlias = Literal["never", "reply", "batch"]
# Which entries are on the disk before anything that follows from them leaves the server. With "batch" and "never" a
# crash of the machine may cost the newest ones; then their sessions are lost, which the client's `last` shows.
SYNCED_AT_ONCE: dict[Sync, tuple[type, ...]] = {
    "never": (),
    "reply": (Header, Attached, Carried, Closed),
    "batch": (Header,),
}


class Readable(Protocol):
    """A file to read from."""

    def read(self, size: int, /) -> bytes: ...


def packed(entry: Entry, crc: int) -> tuple[bytes, int]:
    """The entry's bytes, behind one that ended with this crc (0 for the first), and the crc that it ends with."""
    payload = _ENCODER.encode(entry)
    length = _LENGTH.pack(len(payload))
    crc_of_length = crc32(length, crc)
    crc = crc32(payload, crc_of_length)
    return _PREFIX.pack(len(payload), crc_of_length, crc) + payload, crc


def entries(file: Readable) -> Iterator[tuple[Entry, int, int]]:
    """Each whole entry, where it ends and its crc. InvalidJournal for anything but a torn end."""
    magic = file.read(len(MAGIC))
    if magic != MAGIC:
        if MAGIC.startswith(magic.rstrip(b"\0")) and not _has_more(file):
            return
        raise InvalidJournal(f"No journal: it begins with {magic!r}, expected {MAGIC!r}.")
    end, crc = len(MAGIC), 0
    while True:
        prefix = file.read(_PREFIX.size)
        if len(prefix) < _PREFIX.size:
            return
        length, crc_of_length, crc_at_end = _PREFIX.unpack(prefix)
        if crc32(prefix[:4], crc) != crc_of_length:
            if not prefix.endswith(b"\0") or _has_more(file):
                raise _changed(end)
            return  # a prefix of which only the beginning was written: the file was longer already
        payload = file.read(length)
        crc = crc32(payload, crc_of_length)
        if len(payload) < length:
            return
        if crc != crc_at_end:
            if _has_more(file):
                raise _changed(end)
            return
        try:
            entry = _DECODER.decode(payload)
        except msgspec.MsgspecError as error:
            raise InvalidJournal(f"The entry at byte {end} is whole, but none of this version: {error}.") from None
        end += _PREFIX.size + length
        yield entry, end, crc


def _has_more(file: Readable) -> bool:
    """Whether anything but zeros follows; after a crash a file may be longer than what was written."""
    while rest := file.read(_REST_BYTES):
        if rest.strip(b"\0"):
            return True
    return False


def _changed(at: int) -> InvalidJournal:
    return InvalidJournal(f"The entry at byte {at} was changed after it was written; others follow it.")


@dataclass
class Recovered:
    """What a journal tells: the session as it was when the last whole entry was written."""

    header: Header
    attached: Attached | None = None
    frames: list[bytes] = field(default_factory=list)  # of the requests that were answered, in order
    chain: bytes = b""
    closed: bool = False  # forget it
    lost: str = ""  # why its environment is gone
    length: int = 0  # bytes of whole entries: where to go on writing
    crc: int = 0

    @property
    def count(self) -> int:
        """How many requests were answered."""
        return len(self.frames)


def recover(file: Readable) -> Recovered | None:
    """The session in this journal; None if it ended before its header did. InvalidJournal if it was changed."""
    found: Recovered | None = None
    for entry, end, crc in entries(file):
        if found is None:
            if not isinstance(entry, Header):
                raise InvalidJournal(f"The first entry is a {type(entry).__name__}, expected a Header.")
            found = Recovered(entry, chain=entry.origin)
        elif isinstance(entry, Carried):
            _add(found, entry)
        elif isinstance(entry, Attached):
            found.attached = entry
        elif isinstance(entry, Closed):
            found.closed, found.lost = not entry.cause, entry.cause
        else:
            raise InvalidJournal("A second Header.")
        found.length, found.crc = end, crc
    return found


def _add(found: Recovered, entry: Carried) -> None:
    chain = extended(found.chain, digest(entry.request), entry.reply)
    if entry.count != found.count + 1 or entry.chain != chain:
        raise InvalidJournal(f"Request {entry.count} does not continue the chain after request {found.count}.")
    found.frames.append(entry.request)
    found.chain = chain
