"""Who this process is: another user without groups, no capabilities, no way to gain any.

The order is what makes it hold: the bounding set goes while the right to drop it is still there.
"""

from __future__ import annotations

import ctypes
import os

from paddock.sandbox.inside.failed import LockFailed
from paddock.sandbox.inside.syscalls import (
    ARCHITECTURES,
    PR_CAP_AMBIENT,
    PR_CAP_AMBIENT_CLEAR_ALL,
    PR_CAPBSET_DROP,
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    prctl,
    syscall,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3: two words of 32 bits for each set
EINVAL = 22
EPERM = 1


def become(identity: Mapping[str, int] | None) -> None:
    """Take on that uid and gid (None: stay who we are) and give up every privilege."""
    try:
        powerful = any(_capabilities())
        bounded = _drop_bounding_set()
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
        if identity is not None:
            _change_user(identity["uid"], identity["gid"])
        _give_up_capabilities()
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
    """Whether nothing is left in it."""
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


def _change_user(uid: int, gid: int) -> None:
    if (
        os.geteuid() == uid
        and os.getegid() == gid
        and os.getuid() == uid
        and os.getgid() == gid
        and not any(_capabilities())
    ):
        return  # an ordinary user may not even clear the groups
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid) or os.getgroups():
        raise LockFailed(f"uid {uid} and gid {gid} did not take hold")


def _header() -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)


def _give_up_capabilities() -> None:
    capset = ARCHITECTURES[os.uname().machine][3]
    syscall(capset, _header(), (ctypes.c_uint32 * 6)())


def _capabilities() -> list[int]:
    """Effective, permitted and inheritable, as words of 32 bits."""
    capget = ARCHITECTURES[os.uname().machine][2]
    words = (ctypes.c_uint32 * 6)()
    syscall(capget, _header(), words)
    return list(words)
