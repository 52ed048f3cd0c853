"""A session's journal: an append-only file with enough in it to rebuild a deterministic session and to prove it.

An entry is written when a request is answered, not when it arrives. An unanswered request
dies with its worker, and the client sends it again.

The file is ``PDKJRNL1``, then entries: bytes of the payload (u32, little-endian), crc32 of these four bytes, crc32 of
the payload, payload (MessagePack). Each crc continues the one before it, so an entry fits in one place only.
A last entry that is incomplete or broken was torn by a crash and is ignored; a broken one before others was changed.
"""

from __future__ import annotations

import os
import re
import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias
from zlib import crc32

import msgspec

from paddock.errors import InvalidJournal, PlanError, StorageFull

MAGIC = b"PDKJRNL1"
_PREFIX = struct.Struct("<III")
_LENGTH = struct.Struct("<I")
_REST_BYTES = 1 << 16
_MARK = re.compile(r"[0-9a-f]{8}")


class Header(msgspec.Struct, tag="header", array_like=True, frozen=True):
    """The first entry: what was made. ``spec``: digest of what the environment is made from."""

    session: str
    target: str
    kwargs: dict[str, Any]
    spec: bytes
    deterministic: bool

    @property
    def origin(self) -> bytes:
        return digest(_ENCODER.encode(self))


class Attached(msgspec.Struct, tag="attached", array_like=True, frozen=True):
    """A connection has the session. Tokens are digests: nobody can get in with a journal."""

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
    """Rebuild nothing: the session is over or, with a ``cause``, its environment is lost."""

    cause: str = ""


Entry: TypeAlias = "Header | Attached | Carried | Closed"
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Entry] = msgspec.msgpack.Decoder(Header | Attached | Carried | Closed)

Sync: TypeAlias = Literal["never", "reply", "batch"]
# Which entries are synced to the disk before anything that follows from them leaves the server. With "batch" and
# "never", a crash of the machine may cost the newest ones; then their sessions are lost, as the client's `last` shows.
SYNCED_AT_ONCE: dict[Sync, tuple[type, ...]] = {
    "never": (),
    "reply": (Header, Attached, Carried, Closed),
    "batch": (Header,),
}


def pack_entry(entry: Entry, crc: int) -> tuple[bytes, int]:
    """Return the entry's bytes, to follow one that ended with this crc (0 for the first), and its own crc."""
    payload = _ENCODER.encode(entry)
    length = _LENGTH.pack(len(payload))
    crc_of_length = crc32(length, crc)
    crc = crc32(payload, crc_of_length)
    return _PREFIX.pack(len(payload), crc_of_length, crc) + payload, crc


def read_entries(file: BinaryIO) -> Iterator[tuple[Entry, int, int]]:
    """Yield each whole entry, where it ends and its crc. InvalidJournal for anything but a torn end."""
    magic = file.read(len(MAGIC))
    if magic != MAGIC:
        if MAGIC.startswith(magic.rstrip(b"\0")) and not _has_more(file):
            return
        raise InvalidJournal(f"Not a journal: it begins with {magic!r}, expected {MAGIC!r}.")
    end, crc = len(MAGIC), 0
    while True:
        prefix = file.read(_PREFIX.size)
        if len(prefix) < _PREFIX.size:
            return
        length, crc_of_length, crc_at_end = _PREFIX.unpack(prefix)
        if crc32(prefix[:4], crc) != crc_of_length:
            if not prefix.endswith(b"\0") or _has_more(file):
                raise _changed_entry_error(end)
            return  # only the beginning of the prefix was written; the file had been made longer before
        payload = file.read(length)
        crc = crc32(payload, crc_of_length)
        if len(payload) < length:
            return
        if crc != crc_at_end:
            if _has_more(file):
                raise _changed_entry_error(end)
            return
        try:
            entry = _DECODER.decode(payload)
        except msgspec.MsgspecError as error:
            raise InvalidJournal(f"The entry at byte {end} is whole but not of this version: {error}.") from None
        end += _PREFIX.size + length
        yield entry, end, crc


def _has_more(file: BinaryIO) -> bool:
    """Whether anything but zeros follows: after a crash a file may be longer than what was written."""
    while rest := file.read(_REST_BYTES):
        if rest.strip(b"\0"):
            return True
    return False


def _changed_entry_error(at: int) -> InvalidJournal:
    return InvalidJournal(f"The entry at byte {at} was changed after it was written; others follow it.")


@dataclass
class Recovered:
    """The session as it was when the journal's last whole entry was written."""

    header: Header
    attached: Attached | None = None
    frames: list[bytes] = field(default_factory=list)  # of the answered requests, in order
    chain: bytes = b""
    closed: bool = False  # forget the session
    lost: str = ""  # why its environment is gone
    length: int = 0  # bytes of whole entries: where writing continues
    crc: int = 0

    @property
    def count(self) -> int:
        return len(self.frames)


def recover(file: BinaryIO) -> Recovered | None:
    """Read the session from this journal; None if not even its header is whole. InvalidJournal if it was changed."""
    found: Recovered | None = None
    for entry, end, crc in read_entries(file):
        if found is None:
            if not isinstance(entry, Header):
                raise InvalidJournal(f"The first entry is a {type(entry).__name__}, expected a Header.")
            found = Recovered(entry, chain=entry.origin)
        elif isinstance(entry, Carried):
            chain = extend_chain(found.chain, digest(entry.request), entry.reply)
            if entry.count != found.count + 1 or entry.chain != chain:
                raise InvalidJournal(f"Request {entry.count} does not continue the chain after request {found.count}.")
            found.frames.append(entry.request)
            found.chain = chain
        elif isinstance(entry, Attached):
            found.attached = entry
        elif isinstance(entry, Closed):
            found.closed, found.lost = not entry.cause, entry.cause
        else:
            raise InvalidJournal("A second Header.")
        found.length, found.crc = end, crc
    return found


def digest(frame: bytes | bytearray | memoryview) -> bytes:
    """Return the 32 bytes that stand for a frame."""
    return sha256(frame).digest()


def extend_chain(head: bytes, request: bytes, reply: bytes) -> bytes:
    """Return the next head of the chain over what a session carried out. Equal heads mean equal episodes.

    ``request`` and ``reply`` are digests of whole frames. The first head is the digest of the journal's header, so the
    same requests in another environment have another chain.
    """
    return sha256(head + request + reply).digest()


class Replay:
    """The requests to repeat in a new worker, in this order, and their replies.

    Send ``frames`` (several ahead if you like), pass each reply to ``add``, and the whole to ``Session.rebuilt`` once
    ``complete``. The replies must come as the session would have got them: the same bytes, with the same numbers.
    """

    def __init__(self, origin: bytes, frames: Sequence[bytes], *, window: int) -> None:
        self.frames, self.chain = frames, origin
        self.done = 0
        self.tail: deque[tuple[bytes, bytes]] = deque(maxlen=window)  # digest of a request, its reply

    @property
    def complete(self) -> bool:
        return self.done == len(self.frames)

    def add(self, reply: bytes) -> None:
        request = digest(self.frames[self.done])
        self.chain = extend_chain(self.chain, request, digest(reply))
        self.tail.append((request, reply))
        self.done += 1


class JournalFile:
    """The journal at ``path``, open for writing. Make one with ``create`` or ``reopen``; its owner closes it.

    An entry that can't be written whole is taken back, so the file stays readable. After a StorageFull nothing more is
    written: the file is a whole beginning, and one with a hole would lie.
    """

    def __init__(self, path: Path, fd: int, sync: Sync, length: int, crc: int) -> None:
        self.path, self.sync_policy = path, sync
        self._fd, self._length, self._crc = fd, length, crc
        self._failed: StorageFull | None = None
        self._dirty = False

    @classmethod
    def create(cls, path: Path, header: Header, sync: Sync = "reply") -> JournalFile:
        """Create a journal that only this user can read. FileExistsError if there is one."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        journal: JournalFile | None = None
        try:
            journal = cls(path, os.open(path, flags, 0o600), sync, 0, 0)
            first, crc = pack_entry(header, 0)
            journal._write(MAGIC + first, crc, synced=sync != "never")
            if sync != "never":  # the folder too, or the new file's name may be lost
                folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
        except (StorageFull, OSError) as error:
            if journal is not None:
                journal.remove()
            if isinstance(error, (StorageFull, FileExistsError)):
                raise
            raise _full(path, error) from error
        return journal

    @classmethod
    def reopen(cls, path: Path, sync: Sync = "reply") -> tuple[JournalFile, Recovered] | None:
        """Open a journal that a server left behind, cut after its last whole entry. None if it has no whole header."""
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        try:
            with open(fd, "rb", closefd=False) as file:
                found = recover(file)
            if found is None:
                os.close(fd)
                return None
            os.ftruncate(fd, found.length)
        except BaseException:
            os.close(fd)
            raise
        return cls(path, fd, sync, found.length, found.crc), found

    def read(self) -> Recovered:
        with self.path.open("rb") as file:
            found = recover(file)
        assert found is not None  # create wrote the header
        return found

    def append(self, entry: Entry) -> None:
        """Write an entry, and sync it if the policy says so. StorageFull: the entry is not in the file."""
        if self._failed is not None:
            raise self._failed
        data, crc = pack_entry(entry, self._crc)
        self._write(data, crc, synced=isinstance(entry, SYNCED_AT_ONCE[self.sync_policy]))

    def sync(self) -> None:
        if self._dirty and self._failed is None and self._fd != -1:
            try:
                os.fdatasync(self._fd)
            except OSError as error:  # how much is on the disk is unknown from now on, so it is not tried again
                self._failed = _full(self.path, error)
                raise self._failed from error
            self._dirty = False

    def sync_task(self) -> Callable[[], None] | None:
        """Return a function that syncs what was written, to call in another thread: it blocks, and may raise OSError.

        None if there is nothing to do. It has its own descriptor, so this journal may be closed meanwhile.
        """
        if not self._dirty or self._failed is not None or self._fd == -1:
            return None
        self._dirty, fd = False, os.dup(self._fd)

        def sync() -> None:
            try:
                os.fdatasync(fd)
            finally:
                os.close(fd)

        return sync

    def _write(self, data: bytes, crc: int, *, synced: bool) -> None:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            with suppress(OSError):  # if even this fails, every reader takes the half entry for a torn end
                os.ftruncate(self._fd, self._length)
            self._failed = _full(self.path, error)
            raise self._failed from error
        self._length, self._crc, self._dirty = self._length + len(data), crc, True
        if synced:
            self.sync()

    def close(self) -> None:
        if self._fd != -1:
            os.close(self._fd)
            self._fd = -1

    def remove(self) -> None:
        """Close and delete the file: the session is over."""
        self.close()
        self.path.unlink(missing_ok=True)


def lock_folder(folder: Path) -> int:
    """Lock this folder's journals until the returned descriptor is closed. PlanError if another process has them."""
    import fcntl

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise PlanError(
            f"--journal {folder} is used by another server. Give each server a folder of its own."
        ) from None
    return fd


def server_mark(folder: Path, fresh: str) -> str:
    """Return the mark of the server with these journals, ``fresh`` if it has none yet: the next one has it, too."""
    place, mark = folder / "mark", ""
    with suppress(OSError):  # a disk that is full costs a gateway its sessions, not the server its start
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileNotFoundError):
            mark = place.read_text()
        if not mark:
            place.write_text(fresh)
    return mark if _MARK.fullmatch(mark) else fresh


def _full(path: Path, error: OSError) -> StorageFull:
    return StorageFull(f"The journal {path} can't be written: {error.strerror}. Free space in {path.parent}.")
