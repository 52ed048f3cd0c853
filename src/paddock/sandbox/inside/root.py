"""A root folder in which only what was named exists. Links in sources are followed before the old root is gone.

``bind_as`` shows the files of one owner as those of another, in one mount only; nothing on the disk changes. So root's
private files become readable to a worker that has a uid of its own, and what it writes belongs to their owner.
"""

# ruff: noqa: PTH102, PTH103, PTH110, PTH112, PTH116, PTH120, PTH123, PTH211
# No pathlib: one more import before the wall is up.

from __future__ import annotations

import ctypes
import os

from paddock.sandbox.inside import LockFailed
from paddock.sandbox.inside.syscalls import syscall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SCRATCH = "/tmp"  # noqa: S108 - the one inside
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_RDONLY = 2, 4, 8, 32, 1
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442  # the same numbers on every architecture
AT_FDCWD, AT_RECURSIVE, AT_EMPTY_PATH = -100, 0x8000, 0x1000
OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC, MOVE_MOUNT_F_EMPTY_PATH = 1, 0o2000000, 4
MOUNT_ATTR_IDMAP = 0x100000
NEW_USER = 0x10000000
SIGKILL = 9
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
RDONLY, NOSUID, NODEV, NOEXEC = 1, 2, 4, 8  # MOUNT_ATTR_*
BASE, OLD, NEW = "/tmp", "/old", "/new"  # noqa: S108 - any folder that every machine has

_libc = ctypes.CDLL(None, use_errno=True)


def limit_scratch(scratch: Mapping[str, int]) -> None:
    """Limit the number of files too, in the scratch folder that bubblewrap has mounted."""
    _mount(None, SCRATCH, None, MS_REMOUNT | MS_NOSUID | MS_NODEV, _tmpfs_options(scratch))


def resolve(mounts: Sequence[Sequence[str]]) -> list[tuple[str, str, str]]:
    """The mounts (source, target, how) with every link in a source followed: later they would lead elsewhere."""
    return [(os.path.realpath(source) if how in ATTRIBUTES else source, target, how) for source, target, how in mounts]


def build_root(
    mounts: Sequence[tuple[str, str, str]], scratch: Mapping[str, int], owners: Mapping[str, int] | None = None
) -> None:
    """Leave this process with a root of its own that holds the resolved mounts and nothing else.

    ``owners``: targets that are shown with the owners that a user namespace gives them, and its descriptor.
    """
    owners = owners or {}
    os.umask(0o022)  # the folders above a mount must be open to the worker
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    _mount("tmpfs", BASE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    os.mkdir(BASE + OLD)
    os.mkdir(BASE + NEW)
    _pivot(BASE, BASE + OLD)
    os.chdir("/")
    _mount("tmpfs", NEW, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    for source, target, how in mounts:
        if how in ATTRIBUTES:
            _bind(OLD + source, NEW + target, ATTRIBUTES[how], owners.get(target))
        else:
            _place(source, NEW + target, how, scratch)
    for target in (NEW, *(NEW + target for _, target, how in mounts if how == "empty")):
        _protect(target, RDONLY | NOSUID | NODEV, 0)
    _unmount(OLD)
    os.chdir(NEW)
    _pivot(".", ".")  # the old root comes to lie over the new one, and is taken off
    _unmount(".")
    os.chdir("/")


# What each kind of bind mount forbids.
ATTRIBUTES = {"ro": RDONLY | NOSUID | NODEV, "rw": NOSUID | NODEV, "dev": NOSUID | NOEXEC}


def _place(source: str, target: str, how: str, scratch: Mapping[str, int]) -> None:
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    if how == "link":
        os.symlink(source, target)
    elif how == "empty":  # over what a mount above it shows, if one does
        os.makedirs(target, mode=0o755, exist_ok=True)
        _mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    elif how == "proc":
        os.mkdir(target)
        _mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY)
    else:
        os.mkdir(target)
        _mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, _tmpfs_options(scratch))


def _bind(source: str, target: str, attributes: int, namespace: int | None) -> None:
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    if os.path.isdir(source):
        os.makedirs(target, mode=0o755, exist_ok=True)
    elif not os.path.exists(target):
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o444))
    if namespace is not None:
        bind_as(source, target, attributes, namespace)
        return
    _mount(source, target, None, MS_BIND | MS_REC)
    _protect(target, attributes, AT_RECURSIVE)


def _tmpfs_options(scratch: Mapping[str, int]) -> str:
    return f"size={scratch['size']},nr_inodes={scratch['inodes']},mode=1777"


def _protect(target: str, attributes: int, flags: int) -> None:
    settings = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)  # to set, to clear, propagation, user namespace
    try:
        syscall(MOUNT_SETATTR, AT_FDCWD, os.fsencode(target), flags, settings, ctypes.sizeof(settings))
    except OSError as error:
        raise LockFailed(f"{target[len(NEW) :]!r} could not be protected: {error}") from error


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    first, second, third, last = (None if one is None else os.fsencode(one) for one in (source, target, kind, options))
    result = _libc.mount(first, second, third, ctypes.c_ulong(flags), last)
    _check(result, f"mounting {source or 'settings'!r} on {target!r}")


def _pivot(new: str, old: str) -> None:
    try:
        syscall(PIVOT_ROOT[os.uname().machine], os.fsencode(new), os.fsencode(old))
    except OSError as error:
        raise LockFailed(f"the root could not be changed to {new!r}: {error}") from error


def _unmount(target: str) -> None:
    _check(_libc.umount2(os.fsencode(target), ctypes.c_int(MNT_DETACH)), f"unmounting {target!r}")


def _check(result: int, what: str) -> None:
    if result != 0:
        raise LockFailed(f"{what}: {os.strerror(ctypes.get_errno())}")


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
    """Map the owner to the worker, and all other numbers below the worker's to themselves."""
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
