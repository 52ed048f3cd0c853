"""Show the files of one owner as those of another, in one mount only. Nothing on the disk changes.

Root's private files become readable to a worker that has a uid of its own, and what it writes belongs to their owner.
"""

# ruff: noqa: PTH116, PTH123
# No pathlib: one more import before the wall is up.

from __future__ import annotations

import ctypes
import os

from paddock.sandbox.inside.failed import LockFailed
from paddock.sandbox.inside.syscalls import syscall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442  # the same numbers on every architecture
AT_FDCWD, AT_RECURSIVE, AT_EMPTY_PATH = -100, 0x8000, 0x1000
OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC, MOVE_MOUNT_F_EMPTY_PATH = 1, 0o2000000, 4
MOUNT_ATTR_IDMAP = 0x100000
NEW_USER = 0x10000000
SIGKILL = 9

_libc = ctypes.CDLL(None, use_errno=True)


def namespaces_of(sources: Iterable[str], uid: int, gid: int) -> dict[tuple[int, int], int]:
    """For each owner among ``sources`` a user namespace, as a descriptor, in which its files are the worker's."""
    owners = {owner_of(source) for source in sources}
    return {owner: _namespace(_mapping(owner[0], uid), _mapping(owner[1], gid)) for owner in owners}


def owner_of(source: str) -> tuple[int, int]:
    """The uid and gid of the file or folder."""
    about = os.stat(source)
    return about.st_uid, about.st_gid


def bind_as(source: str, target: str, attributes: int, namespace: int) -> None:
    """Mount ``source`` on ``target`` with the owners that ``namespace`` gives it."""
    tree = -1
    settings = (ctypes.c_uint64 * 4)(attributes | MOUNT_ATTR_IDMAP, 0, 0, namespace)
    try:
        flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE
        tree = syscall(OPEN_TREE, AT_FDCWD, os.fsencode(source), flags)
        syscall(MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH | AT_RECURSIVE, settings, ctypes.sizeof(settings))
        syscall(MOVE_MOUNT, tree, b"", AT_FDCWD, os.fsencode(target), MOVE_MOUNT_F_EMPTY_PATH)
    except OSError as error:
        raise LockFailed(
            f"{source!r} is private to its owner, and its file system can't show it as the worker's ({error}): "
            "let others read it (chmod -R o+rX), or run as its owner"
        ) from error
    finally:
        if tree >= 0:
            os.close(tree)


def _mapping(owner: int, worker: int) -> str:
    """All below the worker's number as they are, but the owner, who is the worker."""
    lines = [f"{owner} {worker} 1"]
    if owner > 0:
        lines.append(f"0 0 {min(owner, worker)}")
    if owner + 1 < worker:
        lines.append(f"{owner + 1} {owner + 1} {worker - owner - 1}")
    return "\n".join(lines)


def _namespace(uids: str, gids: str) -> int:
    """A user namespace lives as long as somebody holds it: a process at first, then a descriptor."""
    ready, says = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(says, b"0" if _libc.unshare(ctypes.c_int(NEW_USER)) == 0 else b"1")
        os.close(says)
        while True:
            _libc.pause()
    os.close(says)
    try:
        if os.read(ready, 1) != b"0":
            raise LockFailed("no user namespace could be made to show private files by")
        for file, text in (("uid_map", uids), ("gid_map", gids)):
            with open(f"/proc/{pid}/{file}", "w") as maps:
                maps.write(text)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise LockFailed(f"owners could not be mapped: {error}") from error
    finally:
        os.close(ready)
        os.kill(pid, SIGKILL)
        os.waitpid(pid, 0)
