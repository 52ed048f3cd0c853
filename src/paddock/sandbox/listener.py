"""Hand the proxy's listener from the inside to the trusted side.

A socket belongs to the network namespace that it was made in, whoever accepts on it: no other way in or out is needed.
"""

from __future__ import annotations

import array
import os
import select
import socket
import stat
from contextlib import suppress

from paddock.errors import SandboxUnavailable

MARK = b"L"  # inside/boot.py sends it with the listener, before the lock
_NAMES = ("http_proxy", "https_proxy", "all_proxy")


def receive_listener(control: socket.socket, timeout_s: float = 10.0) -> socket.socket:
    """The TCP listener that the inside made and sent; not a byte of what it sends later is read."""
    problem = f"did not arrive within {timeout_s:g} s"
    poll = select.poll()
    poll.register(control, select.POLLIN)
    if poll.poll(timeout_s * 1000):
        mark, fds = _receive(control)
        if mark == MARK and len(fds) == 1 and _listens(fds[0]):
            return socket.socket(fileno=fds[0])
        for fd in fds:
            os.close(fd)
        problem = "is no TCP listener" if mark else "was not sent: the worker ended before"
    raise SandboxUnavailable(f"The sandbox's way to its hosts {problem}. Nothing was started; see: paddock doctor")


def variables(port: int) -> dict[str, str]:
    """The environment variables by which programs inside find the proxy on ``port`` of their loopback."""
    url = f"http://127.0.0.1:{port}"
    named = {name: url for lower in _NAMES for name in (lower, lower.upper())}
    # PADDOCK_PROXY is for our own fetch: it asks for https in absolute form, which no other proxy would understand.
    return {**named, "no_proxy": "", "NO_PROXY": "", "PADDOCK_PROXY": url}


def _receive(control: socket.socket) -> tuple[bytes, array.array[int]]:
    """One byte and the descriptors with it, not for children. ``socket.recv_fds`` would not pass that flag on."""
    fds = array.array("i")
    try:
        mark, ancillary, _, _ = control.recvmsg(1, socket.CMSG_SPACE(fds.itemsize), socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return b"", fds
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return mark, fds


def _listens(fd: int) -> bool:
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        return False
    with suppress(OSError), socket.socket(fileno=os.dup(fd)) as sock:
        internet = sock.family in (socket.AF_INET, socket.AF_INET6) and sock.type == socket.SOCK_STREAM
        return internet and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    return False
