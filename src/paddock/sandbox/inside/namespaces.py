"""Namespaces without bubblewrap: this interpreter enters them and goes on as a process inside.

``enter`` returns in another process; the first one stays outside and ends as that one does.
"""

from __future__ import annotations

import _socket
import ctypes
import os
import select

from paddock.sandbox.inside import NO_WALL, LockFailed, report_failure
from paddock.sandbox.inside.root import build_root, namespaces_of, owner_of, resolve
from paddock.sandbox.inside.syscalls import PR_SET_DUMPABLE, PR_SET_PDEATHSIG, name_process, prctl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

NEW_MOUNTS, NEW_CGROUP, NEW_UTS, NEW_IPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEW_USER, NEW_PID, NEW_NET = 0x10000000, 0x20000000, 0x40000000
_ALL = NEW_MOUNTS | NEW_CGROUP | NEW_UTS | NEW_IPC | NEW_NET  # what every worker gets, beside a pid namespace
SIGKILL = 9
IFF_UP, SIOCSIFFLAGS = 1, 0x8914

_libc = ctypes.CDLL(None, use_errno=True)


def enter(native: Mapping[str, Any]) -> None:
    """Go on behind namespaces, and in a root with nothing but the mounts that ``native`` names."""
    prctl(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != native["parent"]:
        raise LockFailed("the process that started this one is gone")
    mounts = resolve(native["mounts"])
    # For each private target the user namespace that makes it the worker's. Made first: /proc is still this one's.
    private = [(source, target) for source, target, _ in mounts if target in native["private"]]
    namespaces = namespaces_of([source for source, _ in private], *native["worker"])
    owners = {target: namespaces[owner_of(source)] for source, target in private}
    unshare(_ALL | NEW_PID, user=native["user"])
    if native["user"]:
        forbid_user_namespaces()
    # One end for each of the two that watch: its closing says that the other is gone, its one message how it ended.
    outer, inner = (end.detach() for end in _socket.socketpair())
    first = os.fork()
    if first:
        os.close(inner)
        _stay_outside(first, outer)
    os.close(outer)
    prctl(PR_SET_PDEATHSIG, SIGKILL)
    if select.select([inner], [], [], 0)[0]:  # the outer end is closed
        os._exit(1)
    try:
        _name_and_network(native["hostname"])
        build_root(mounts, native["scratch"], owners)
        for descriptor in set(owners.values()):
            os.close(descriptor)
        worker = os.fork()
    except Exception as error:  # reported here: whoever catches it would end this process, and nobody would notice
        report_failure(error)
        os.write(inner, b"%d" % (NO_WALL << 8))
        os._exit(NO_WALL)
    if worker:
        _be_init(worker, inner)
    os.close(inner)


def enter_as_init(native: Mapping[str, Any]) -> None:
    """Go on behind namespaces, in a fork of this process, which is the first of its pid namespace already.

    The user namespace comes last: the pid namespace is not its own, so it could not mount /proc.
    """
    prctl(PR_SET_DUMPABLE, 1)  # else an ordinary user may not write to its own /proc/self
    unshare(_ALL)
    _name_and_network(native["hostname"])
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # this machine's
    build_root(resolve(native["mounts"]), native["scratch"])
    if native["user"]:
        unshare(0, user=True, proc=proc)
        forbid_user_namespaces(proc)
    os.close(proc)
    worker = os.fork()
    if worker:
        _be_init(worker)


def unshare(flags: int, *, user: bool = False, proc: int | None = None) -> None:
    """Leave namespaces for new ones; with ``user`` a user namespace too, in which this user stays what it is.

    ``proc``: /proc, if it can't be found by its name.
    """
    uid, gid = os.getuid(), os.getgid()
    if _libc.unshare(ctypes.c_int(flags | (NEW_USER if user else 0))) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise LockFailed(f"no namespaces could be made ({reason}): the kernel's settings or a container forbid it")
    if user:
        _write("self/setgroups", "deny", proc)
        _write("self/uid_map", f"{uid} {uid} 1", proc)
        _write("self/gid_map", f"{gid} {gid} 1", proc)


def forbid_user_namespaces(proc: int | None = None) -> None:
    """None may be made inside this one."""
    _write("sys/user/max_user_namespaces", "0", proc)


def _write(path: str, text: str, proc: int | None) -> None:
    try:
        file = os.open(path if proc is not None else f"/proc/{path}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)
    except OSError as error:
        raise LockFailed(f"/proc/{path} did not take {text!r}: {error}") from error


def _name_and_network(hostname: str) -> None:
    """The name of this machine inside, and a loopback that works."""
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
        message = os.read(link, 8)
        os.waitpid(first, 0)
    finally:
        status = int(message) if message else SIGKILL
        if os.WIFSIGNALED(status):
            import resource
            import signal

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            number = os.WTERMSIG(status)
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        os._exit(os.waitstatus_to_exitcode(status))


def _be_init(worker: int, link: int | None = None) -> NoReturn:
    """Reap what ends; when the worker has, end, and with this process everything in the namespace.

    How the worker ended goes to ``link``; without one it is the code of this process, 128 + n for a signal.
    """
    code = 0
    try:
        from paddock.sandbox.inside.lock import become

        name_process(b"paddock-init")
        _keep_only(link if link is not None else 2)
        become(None)
        prctl(PR_SET_PDEATHSIG, SIGKILL)
        prctl(PR_SET_DUMPABLE, 0)
        while True:
            pid, status = os.wait()
            if pid == worker:
                if link is not None:
                    os.write(link, b"%d" % status)
                else:
                    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
                break
    finally:
        os._exit(code)


def _keep_only(end: int) -> None:
    os.closerange(3, end)
    os.closerange(end + 1, 1 << 20)
