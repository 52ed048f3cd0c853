"""Remove a folder that a stranger has filled: however deep or large it is, this neither recurses nor takes for ever.

Run as a program, this file removes its folder in the background, so that nobody waits for a large one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress

_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)

_AT_ONCE_S = 0.05
_LATER_S = 600.0


def remove_soon(folder: str) -> None:
    """Remove a small tree now, and have a large one removed by a process that goes on when this one ends."""
    if not remove_tree(folder, within_s=_AT_ONCE_S):
        with suppress(OSError):  # the next program that starts removes what is left
            subprocess.run(  # noqa: S603 - this very file
                [os.path.realpath(sys.executable), "-I", "-S", __file__, folder],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
                check=False,
            )


def remove_tree(folder: str, *, within_s: float = 10.0) -> bool:
    """Remove what can be removed in time; return whether all of it is gone. Never raises, and follows no link."""
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
    """Remove what is in ``place`` now, or move it up; return how much that was.

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
                    _allow_access(place, entry.name)
                    os.rename(entry.name, os.urandom(16).hex(), src_dir_fd=place, dst_dir_fd=top)
                done += 1
    return done


def _remove_folder(name: str, top: int, ends_s: float) -> int:
    _allow_access(top, name)
    folder = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=top)
    try:
        done = _pass(folder, top, ends_s)
    finally:
        os.close(folder)
    with suppress(OSError):  # entries may be skipped while others are removed: then the next pass finds them
        os.rmdir(name, dir_fd=top)
        done += 1
    return done


def _allow_access(parent: int, name: str) -> None:
    """A folder may have been made without any permissions, even for its owner."""
    with suppress(OSError):
        folder = os.open(name, os.O_PATH | _FOLDER, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{folder}", 0o700)  # noqa: PTH101 - a descriptor in disguise
        finally:
            os.close(folder)


if __name__ == "__main__" and os.fork() == 0:  # whoever started this waits for the parent only
    remove_tree(sys.argv[1], within_s=_LATER_S)
