"""JournalFile: a journal on a disk. An entry that can't be written whole is taken back, so the file stays readable."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

from paddock.errors import PlanError, StorageFull
from paddock.server.journal import MAGIC, SYNCED_AT_ONCE, Entry, Header, Readable, Recovered, Sync, packed, recover


class JournalFile:
    """The journal at ``path``, opened for more. Make one with ``create`` or ``reopen``; it is closed by its owner.

    After a StorageFull nothing more is written: what is there is a whole beginning, and a hole would be a lie.
    """

    def __init__(self, path: Path, fd: int, sync: Sync, length: int, crc: int) -> None:
        self.path, self.sync_policy = path, sync
        self._fd, self._length, self._crc = fd, length, crc
        self._failed: StorageFull | None = None
        self._dirty = False

    @classmethod
    def create(cls, path: Path, header: Header, sync: Sync = "reply") -> JournalFile:
        """A new journal, only for this user. FileExistsError if there is one."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        try:
            fd = os.open(path, flags, 0o600)
        except FileExistsError:
            raise
        except OSError as error:
            raise _full(path, error) from error
        journal = cls(path, fd, sync, 0, 0)
        try:
            first, crc = packed(header, 0)
            journal._write(MAGIC + first, crc, synced=sync != "never")
            if sync != "never":
                _sync_folder(path.parent)
        except (StorageFull, OSError) as error:
            journal.remove()
            raise error if isinstance(error, StorageFull) else _full(path, error) from error
        return journal

    @classmethod
    def reopen(cls, path: Path, sync: Sync = "reply") -> tuple[JournalFile, Recovered] | None:
        """A journal that a server left behind, cut after its last whole entry. None if it has not even a header."""
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        try:
            with open(fd, "rb", closefd=False) as file:
                found = recover(cast(Readable, file))
            if found is None:
                os.close(fd)
                return None
            os.ftruncate(fd, found.length)
        except BaseException:
            os.close(fd)
            raise
        return cls(path, fd, sync, found.length, found.crc), found

    def read(self) -> Recovered:
        """All that was written so far."""
        with self.path.open("rb") as file:
            found = recover(cast(Readable, file))
        assert found is not None  # create wrote the header
        return found

    def append(self, entry: Entry) -> None:
        """Write an entry, and all before it to the disk if the policy says so. StorageFull: it is not in the file."""
        if self._failed is not None:
            raise self._failed
        data, crc = packed(entry, self._crc)
        self._write(data, crc, synced=isinstance(entry, SYNCED_AT_ONCE[self.sync_policy]))

    def sync(self) -> None:
        """Bring what was written to the disk; the owner calls it now and then with the policy "batch"."""
        if self._dirty and self._failed is None and self._fd != -1:
            try:
                os.fdatasync(self._fd)
            except OSError as error:  # what of it is on the disk nobody can tell any more, so it is not tried again
                self._failed = _full(self.path, error)
                raise self._failed from error
            self._dirty = False

    def unsynced(self) -> Callable[[], None] | None:
        """What brings all that was written to the disk, for another thread: it may block, and OSError says it failed.

        None if there is nothing to do. It has a descriptor of its own, so this journal may be closed meanwhile.
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
            with suppress(OSError):  # if even this fails, the half entry is a torn end to every reader
                os.ftruncate(self._fd, self._length)
            self._failed = _full(self.path, error)
            raise self._failed from error
        self._length, self._crc, self._dirty = self._length + len(data), crc, True
        if synced:
            self.sync()

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        if self._fd != -1:
            os.close(self._fd)
            self._fd = -1

    def remove(self) -> None:
        """The session is over: close and delete."""
        self.close()
        self.path.unlink(missing_ok=True)


def lock_folder(folder: Path) -> int:
    """Keep this folder's journals to this process until the descriptor is closed. PlanError if another has them."""
    import fcntl

    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise PlanError(
            f"--journal {folder} is used by another server. Give each server a folder of its own."
        ) from None
    return fd


def _full(path: Path, error: OSError) -> StorageFull:
    return StorageFull(f"The journal {path} can't be written: {error.strerror}. Free space in {path.parent}.")


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
