"""Attacks on the wall from behind it, each refused if the wall holds. They do no harm where they succeed."""

from __future__ import annotations

import ctypes
import os
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

NEW_USER = 0x10000000
EFAULT = 14
CONTROL = 3


def main(folder: str, port: int, parent: int) -> None:
    """Try each, and send one line for each to the trusted side: its name, and why it was refused or nothing."""
    attacks: dict[str, Callable[[], object]] = {
        "read a file": lambda: _read(f"{folder}/canary"),
        "write a file": lambda: _write(f"{folder}/written"),
        "connect to this machine": lambda: _connect(port),
        "signal the parent": lambda: os.kill(parent, 0),
        "start a process": _fork,
        "run a program": lambda: _run(sys.executable),
        "make a user namespace": _namespace,
        "read the parent's secrets": lambda: _read(f"/proc/{parent}/environ"),
        "listen on a port": _listen,
    }
    lines = []
    for name, attack in attacks.items():
        try:
            attack()
        except OSError as error:
            lines.append(f"{name}\t{error.strerror or error}")
        else:
            lines.append(f"{name}\t")
    os.write(CONTROL, "\n".join(lines).encode())


def _read(path: str) -> None:
    os.close(os.open(path, os.O_RDONLY))


def _write(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT))


def _connect(port: int) -> None:
    with socket.socket() as connection:
        connection.settimeout(2)
        connection.connect(("127.0.0.1", port))


def _listen() -> None:
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))  # noqa: S104 - the attack
        listener.listen()


def _fork() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _run(program: str) -> None:
    """With arguments that can't be read: where running it is allowed, this fails with EFAULT, and the probe goes on."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.execve(os.fsencode(program), ctypes.c_void_p(1), None)
    if ctypes.get_errno() != EFAULT:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _namespace() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(ctypes.c_int(NEW_USER)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
