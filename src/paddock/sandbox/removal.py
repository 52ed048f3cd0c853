"""Remove a folder that a stranger has filled: however deep or large it is, this neither recurses nor takes for ever."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress

_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def remove_tree(folder: str, *, within_s: float = 10.0) -> bool:
    """Whether all of it is gone. It never raises, and no link leads it elsewhere; what time did not reach is left."""
    ends_s = time.monotonic() + within_s
    with suppress(OSError):
        top = os.open(folder, os.O_RDONLY | _FOLDER)
        try:
            while _pass(top, top, ends_s) and time.monotonic() < ends_s:
                pass
        finally:
            os.close(top)
        os.rmdir(folder)  # noqa: PTH106 - beside its relatives that take descriptors
        return True
    return not os.path.lexists(folder)


def _pass(place: int, top: int, ends_s: float) -> int:
    """Remove what is in ``place`` now, or move it up; how much that was.

    What lies in a folder's folder is moved to ``top``, so two descriptors are enough for any depth.
    """
    done = 0
    with os.scandir(place) as entries:
        for entry in entries:
            if time.monotonic() >= ends_s:
                break
            with suppress(OSError):
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=place)
                elif place == top:
                    done += _remove_folder(entry.name, top, ends_s)
                    continue
                else:
                    _open_up(place, entry.name)
                    os.rename(entry.name, secrets.token_hex(16), src_dir_fd=place, dst_dir_fd=top)
                done += 1
    return done


def _remove_folder(name: str, top: int, ends_s: float) -> int:
    _open_up(top, name)
    folder = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=top)
    try:
        done = _pass(folder, top, ends_s)
    finally:
        os.close(folder)
    with suppress(OSError):  # entries may be skipped while others are removed: then the next pass finds them
        os.rmdir(name, dir_fd=top)
        done += 1
    return done


def _open_up(parent: int, name: str) -> None:
    """A folder may have been made without any permissions, even for its owner."""
    with suppress(OSError):
        folder = os.open(name, os.O_PATH | _FOLDER, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{folder}", 0o700)  # noqa: PTH101 - a descriptor in disguise
        finally:
            os.close(folder)
