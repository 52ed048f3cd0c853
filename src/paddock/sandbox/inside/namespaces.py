"""Namespaces without a program of their own: this interpreter enters them and goes on as a process inside.

Whoever calls ``enter`` returns as another process; the first one stays outside and ends as that one does.
"""

from __future__ import annotations

import ctypes
import os

from paddock.sandbox.inside.failed import NO_WALL, LockFailed, tell
from paddock.sandbox.inside.mounts import build_root, resolved
from paddock.sandbox.inside.syscalls import PR_SET_DUMPABLE, PR_SET_PDEATHSIG, prctl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

NEW_MOUNTS, NEW_CGROUP, NEW_UTS, NEW_IPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEW_USER, NEW_PID, NEW_NET = 0x10000000, 0x20000000, 0x40000000
SIGKILL = 9
IFF_UP, SIOCSIFFLAGS = 1, 0x8914

_libc = ctypes.CDLL(None, use_errno=True)


def enter(native: Mapping[str, Any]) -> None:
    """Go on behind namespaces, and in a root with nothing but the mounts that ``native`` names."""
    prctl(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != native["parent"]:
        raise LockFailed("the process that started this one is gone")
    mounts = resolved(native["mounts"])
    owners = _owners(
        [(source, target) for source, target, _ in mounts if target in native["private"]], native["worker"]
    )
    _unshare(user=native["user"])
    # One end for each of the two that watch: its closing says that the other is gone, its one message how it ended.
    outer, inner = _pair()
    first = os.fork()
    if first:
        os.close(inner)
        _stay_outside(first, outer)
    os.close(outer)
    prctl(PR_SET_PDEATHSIG, SIGKILL)
    if _is_closed(inner):
        os._exit(1)
    try:
        _name_and_network(native["hostname"])
        build_root(mounts, native["scratch"], owners)
        for descriptor in set(owners.values()):
            os.close(descriptor)
        worker = os.fork()
    except Exception as error:  # told here: whoever catches it would end this process, which nobody hears of
        tell(error)
        os.write(inner, b"%d" % (NO_WALL << 8))
        os._exit(NO_WALL)
    if worker:
        _be_init(worker, inner)
    os.close(inner)


def _owners(private: list[tuple[str, str]], worker: tuple[int, int]) -> dict[str, int]:
    """For each private target the user namespace that makes it the worker's. Before others: /proc still fits."""
    if not private:
        return {}
    from paddock.sandbox.inside.idmap import namespaces_of, owner_of

    namespaces = namespaces_of([source for source, _ in private], *worker)
    return {target: namespaces[owner_of(source)] for source, target in private}


def _unshare(*, user: bool) -> None:
    uid, gid = os.getuid(), os.getgid()
    flags = NEW_MOUNTS | NEW_CGROUP | NEW_UTS | NEW_IPC | NEW_PID | NEW_NET
    if _libc.unshare(ctypes.c_int(flags | (NEW_USER if user else 0))) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise LockFailed(f"no namespaces could be made ({reason}): the kernel's settings or a container forbid it")
    if user:
        _tell("/proc/self/setgroups", "deny")
        _tell("/proc/self/uid_map", f"{uid} {uid} 1")
        _tell("/proc/self/gid_map", f"{gid} {gid} 1")
        # For this namespace only: none may be made inside it.
        _tell("/proc/sys/user/max_user_namespaces", "0")


def _tell(path: str, text: str) -> None:
    try:
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)
    except OSError as error:
        raise LockFailed(f"{path} did not take {text!r}: {error}") from error


def _pair() -> tuple[int, int]:
    import _socket

    return tuple(end.detach() for end in _socket.socketpair())  # type: ignore[return-value]


def _is_closed(end: int) -> bool:
    import select

    return bool(select.select([end], [], [], 0)[0])


def _name_and_network(hostname: str) -> None:
    """The name of this machine inside, and a loopback that works."""
    import _socket
    import fcntl
    import struct

    _libc.sethostname(hostname.encode(), ctypes.c_size_t(len(hostname)))
    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    try:
        fcntl.ioctl(probe.fileno(), SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    except OSError as error:
        raise LockFailed(f"the loopback of the new network did not come up: {error}") from error
    finally:
        probe.close()


def _stay_outside(first: int, link: int) -> NoReturn:
    """End as the worker does: with its code, or by its signal."""
    _keep_only(link)
    try:
        told = os.read(link, 8)
        os.waitpid(first, 0)
    finally:
        status = int(told) if told else SIGKILL
        if os.WIFSIGNALED(status):
            import resource
            import signal

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            number = os.WTERMSIG(status)
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        os._exit(os.waitstatus_to_exitcode(status))


def _be_init(worker: int, link: int) -> NoReturn:
    """Reap what ends; when the worker has, end, and with this process everything in the namespace."""
    try:
        from paddock.sandbox.inside.identity import become

        _keep_only(link)
        become(None)
        prctl(PR_SET_PDEATHSIG, SIGKILL)
        prctl(PR_SET_DUMPABLE, 0)
        while True:
            pid, status = os.wait()
            if pid == worker:
                os.write(link, b"%d" % status)
                break
    finally:
        os._exit(0)


def _keep_only(end: int) -> None:
    os.closerange(3, end)
    os.closerange(end + 1, 1 << 20)
