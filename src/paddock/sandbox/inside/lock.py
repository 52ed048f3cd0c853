"""Put the wall up around this process, layer by layer, each of which needs the rights that the next one takes away.

There is no way back, and no half a wall: a layer that is refused raises, and the caller must end.
"""

from __future__ import annotations

import ctypes
import os
import resource

from paddock.sandbox.inside import LockFailed
from paddock.sandbox.inside.landlock import confine, version
from paddock.sandbox.inside.seccomp import restrict
from paddock.sandbox.inside.syscalls import (
    ARCHITECTURES,
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    prctl,
    several_threads,
    syscall,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LAYERS = ("identity", "limits", "landlock", "seccomp")
# Files that everyone has and that answer to no ioctl; a device besides them is driven by ioctls that we cannot list.
PLAIN_DEVICES = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")}
SIGKILL = 9
INFINITE = resource.RLIM_INFINITY
CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3: two words of 32 bits for each set
PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 47, 4
EPERM, EINVAL = 1, 22


def lock(config: Mapping[str, Any]) -> None:
    """Apply ``{"identity": …, "limits": …, "landlock": …, "seccomp": …}`` in this order.

    A layer whose value is None is left out, except that privileges always go; without the key "identity" even those
    stay (the tests of single layers need that). ``"death_signal": true`` has this process killed when the thread that
    started it ends: asked for here because a change of identity would undo what was set before.
    """
    unknown = config.keys() - {*LAYERS, "death_signal"}
    if unknown:
        raise LockFailed(f"there is no layer {sorted(unknown)[0]!r}; there are {', '.join(LAYERS)}")
    machine = os.uname().machine
    if machine not in ARCHITECTURES:
        raise LockFailed(f"the wall knows {' and '.join(ARCHITECTURES)}; this machine is {machine}")
    if several_threads():
        raise LockFailed("this process has several threads already, and Landlock would hold only one of them")
    if "identity" in config:
        become(config["identity"])
    if config.get("death_signal"):
        prctl(PR_SET_PDEATHSIG, SIGKILL)
    if config.get("limits") is not None:
        limit(config["limits"])
    landlock = config.get("landlock")
    if landlock is not None:
        confine(landlock)
    if config.get("seccomp") is not None:
        # Before version 3, Landlock lets code truncate what it may not write.
        truncate = landlock is None or version() >= 3
        devices = landlock is not None and any(path not in PLAIN_DEVICES for path in landlock.get("devices", ()))
        restrict(config["seccomp"], machine=machine, more={"truncate": truncate, "devices": devices})


def become(identity: Mapping[str, int] | None) -> None:
    """Take on that uid and gid (None: keep ours), and give up every privilege and every way to gain one.

    The order is what makes it hold: the bounding set goes while the right to drop it is still there.
    """
    try:
        powerful = any(_capabilities())
        bounded = _drop_bounding_set()
        _drop_ambient_set()
        if identity is not None:
            _change_user(identity["uid"], identity["gid"])
        syscall(ARCHITECTURES[os.uname().machine][3], _header(), (ctypes.c_uint32 * 6)())  # capset: none
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        # Others of the same user may neither trace this process nor read its memory; changing the user reset it.
        prctl(PR_SET_DUMPABLE, 0)
    except OSError as error:
        raise LockFailed(f"the identity {identity} could not be taken on: {error}") from error
    # Without capabilities nothing can be done about the bounding set, and with no_new_privs nothing comes of it.
    if powerful and not bounded:
        raise LockFailed("the bounding set of capabilities could not be emptied: CAP_SETPCAP is missing")
    if any(_capabilities()):
        raise LockFailed("capabilities were left over")


def _drop_bounding_set() -> bool:
    """Return whether nothing is left in it."""
    for number in range(64):
        try:
            prctl(PR_CAPBSET_DROP, number)
        except OSError as error:
            if error.errno == EINVAL:  # past the last capability that this kernel has
                return True
            if error.errno == EPERM:
                return False
            raise
    return True


def _drop_ambient_set() -> None:
    try:
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    except OSError as error:
        if error.errno != EINVAL:  # a kernel without such a set, as gVisor's
            raise


def _change_user(uid: int, gid: int) -> None:
    ours = os.getuid(), os.geteuid(), os.getgid(), os.getegid()
    if ours == (uid, uid, gid, gid) and not any(_capabilities()):
        return  # an ordinary user may not even clear the groups
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid) or os.getgroups():
        raise LockFailed(f"uid {uid} and gid {gid} did not take hold")


def _header() -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)


def _capabilities() -> list[int]:
    """Effective, permitted and inheritable, as words of 32 bits."""
    words = (ctypes.c_uint32 * 6)()
    syscall(ARCHITECTURES[os.uname().machine][2], _header(), words)  # capget
    return list(words)


def limit(limits: Mapping[str, float | None]) -> None:
    """Set each limit by the end of its name (``{"NOFILE": 256}``); None leaves one as it is. None is ever raised."""
    for name, value in limits.items():
        if value is None:
            continue
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is None:
            raise LockFailed(f"there is no resource limit {name!r} here")
        try:
            wanted = -int(-value // 1)
            hard = resource.getrlimit(kind)[1]
            soft = wanted if hard == INFINITE else min(wanted, hard)
            # The soft limit of CPU time sends SIGXCPU, which shows the cause. Code that catches it is killed 1 s later.
            top = soft + 1 if name == "CPU" and hard == INFINITE else soft
            resource.setrlimit(kind, (soft, top))
        except (OSError, ValueError, OverflowError) as error:
            raise LockFailed(f"the limit {name}={value!r} was refused: {error}") from error
