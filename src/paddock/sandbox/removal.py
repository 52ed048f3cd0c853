"""Remove a folder that a stranger has filled: however deep or large it is, this neither recurses nor takes for ever.

Nobody has to wait for a large one: ``remove_soon`` goes on in a thread.
"""

from __future__ import annotations

import atexit
import os
import secrets
import threading
import time
from contextlib import suppress

_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)

_AT_ONCE_S = 0.05
_LATER_S = 600.0
_AT_EXIT_S = 5.0
_removals: set[threading.Thread] = set()


def remove_soon(folder: str) -> None:
    """Remove a small tree now and a large one in a thread.

    Python's exit waits a while for that thread; what is left then is removed by the next program that starts.
    """
    if remove_tree(folder, within_s=_AT_ONCE_S):
        return

    def remove() -> None:
        remove_tree(folder, within_s=_LATER_S)
        _removals.discard(thread)

    thread = threading.Thread(target=remove, name="paddock-removal", daemon=True)
    _removals.add(thread)
    try:
        thread.start()
    except RuntimeError:  # this process is ending, or may have no more threads
        _removals.discard(thread)
        remove_tree(folder, within_s=_AT_EXIT_S)


def _finish() -> None:
    ends_s = time.monotonic() + _AT_EXIT_S
    for thread in list(_removals):
        thread.join(max(0.0, ends_s - time.monotonic()))


atexit.register(_finish)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_removals.clear)  # a forked process has none of its parent's threads


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
