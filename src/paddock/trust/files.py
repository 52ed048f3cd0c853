"""Files that are whole or not there: a crash or a full disk never leaves half of one. And the user's folders."""

from __future__ import annotations

import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from paddock.errors import StorageFull

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def config_folder() -> Path:
    """What the user decides: keys and ``trust.toml``. ``PADDOCK_HOME`` holds this and all other data if it is set."""
    return _home("XDG_CONFIG_HOME", ".config")


def data_folder() -> Path:
    """What paddock remembers: installed packages, trusted keys, grants."""
    return _home("XDG_DATA_HOME", ".local/share")


def _home(variable: str, below: str) -> Path:
    if own := os.environ.get("PADDOCK_HOME"):
        return Path(own).expanduser().absolute()
    return Path(os.environ.get(variable) or home_folder() / below).absolute() / "paddock"


def home_folder() -> Path:
    """The user's home, or a folder that is not there for a user without one, as in some containers."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Hold the only lock on this file, which stays; wait while another process or thread has it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        if sys.platform != "win32":
            import fcntl  # here: this module is imported everywhere

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def noticing_full_disk(what: object) -> Iterator[None]:
    """Raise StorageFull where the disk is full while ``what`` is written."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL or isinstance(error, StorageFull):
            raise
        raise StorageFull(f"{what} can't be written: {error.strerror}. Nothing was changed.") from error


def write_new(path: str | os.PathLike[str], data: bytes, mode: int = 0o600) -> None:
    """Write a file that must not exist yet; FileExistsError if it does, and then it is as it was."""
    with writing(path, mode, new=True) as stream:
        stream.write(data)


def replace_file(path: str | os.PathLike[str], data: bytes, mode: int = 0o600) -> None:
    """Write a file, over one of that name too: a reader gets all of the old one or all of the new."""
    with writing(path, mode) as stream:
        stream.write(data)


@contextmanager
def writing(path: str | os.PathLike[str], mode: int = 0o600, *, new: bool = False) -> Iterator[BinaryIO]:
    """Yield a file beside the place, private until it has its mode, which takes the place if the block does not raise.

    ``new``: FileExistsError if something is there.
    """
    target = Path(path).absolute()
    try:
        descriptor, name = tempfile.mkstemp(prefix=".new-", dir=target.parent)
    except OSError as error:  # in the caller's words: nobody knows that other name
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    try:
        with noticing_full_disk(path), os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            if os.name == "posix":
                os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        if new:
            os.link(name, target, follow_symlinks=False)  # unlike a rename it replaces nothing
        else:
            Path(name).replace(target)
    except FileExistsError:
        raise FileExistsError(errno.EEXIST, "exists already, and is not overwritten", os.fspath(path)) from None
    finally:
        Path(name).unlink(missing_ok=True)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Have the disk keep the folder's entries, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with suppress(OSError):  # what was renamed is there; only a power cut could undo it
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file to be read; ValueError for a folder, a pipe or a device."""
    # Non-blocking: a stranger's path may lead to a pipe that nothing writes to.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{os.fspath(path)} is not a regular file but a folder, a pipe or a device.")
    return os.fdopen(descriptor, "rb")


def read_bounded(path: str | os.PathLike[str], limit_bytes: int) -> bytes:
    """Read a regular file; ValueError if it is another kind of file, or larger than ``limit_bytes``."""
    with open_regular(path) as stream:
        data = stream.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise ValueError(f"{os.fspath(path)} is larger than {limit_bytes:,} bytes.")
    return data
