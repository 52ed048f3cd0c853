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

_libc = ctypes.CDLL(None, use_errno=True)


def main(folder: str, port: int, parent: int) -> None:
    """Try each, and send one line for each to the trusted side: its name, and why it was refused or nothing."""
    attacks: dict[str, Callable[[], object]] = {
        "read a file": lambda: os.close(os.open(f"{folder}/canary", os.O_RDONLY)),
        "write a file": lambda: os.close(os.open(f"{folder}/written", os.O_WRONLY | os.O_CREAT)),
        "connect to this machine": lambda: _connect(port),
        "signal the parent": lambda: os.kill(parent, 0),
        "start a process": _fork,
        "run a program": lambda: _run(sys.executable),
        "make a user namespace": _namespace,
        "read the parent's secrets": lambda: os.close(os.open(f"/proc/{parent}/environ", os.O_RDONLY)),
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
    _check(_libc.execve(os.fsencode(program), ctypes.c_void_p(1), None), fine=EFAULT)


def _namespace() -> None:
    _check(_libc.unshare(ctypes.c_int(NEW_USER)))


def _check(result: int, fine: int = 0) -> None:
    number = ctypes.get_errno()
    if result != 0 and number != fine:
        raise OSError(number, os.strerror(number))
