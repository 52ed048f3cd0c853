"""Attacks on the kernel's rarely used doors. All arguments are invalid: to be refused by the code behind is a hit."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
from typing import Any

from paddock.bench.hostile.attacks.attempt import Hostile, first_that_works
from paddock.bench.hostile.attacks.system_call import NULL, call, reached

# What each call is given. None can do anything: no such command, no such address, no such magic number.
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "io_uring_setup": (0, NULL),
    "bpf": (-1, NULL, 0),
    "keyctl": (0, -3, 0),
    "perf_event_open": (NULL, 0, 0, 0, 0),
    "userfaultfd": (1 | 0x40000000,),
    "kexec_load": (0, 0xFFFF, NULL, 0xFF),
    "init_module": (NULL, 0, NULL),
    "clock_settime": (0, NULL),
    "swapon": (NULL, 0),
    "reboot": (1, 2, 3, NULL),
    "setns": (-1, 0),
    "syslog": (10, NULL, 0),
    "acct": (b"/no-such-folder/accounts",),
    "fanotify_init": (0xFFFFFFFF, 0),
    "quotactl": (0xFFFFFF, NULL, 0, NULL),
    "sethostname": (NULL, -1),
}


class Call(Hostile):
    """Makes the system call ``name``."""

    def attempt(self) -> str:
        return reached(self.told["name"], *_ARGUMENTS[self.told["name"]])


class TypeForUser(Hostile):
    """Types into the terminal that it was started from, for the shell to read (TIOCSTI)."""

    def attempt(self) -> str:
        import fcntl
        import termios

        def type_into(path: str) -> str:
            terminal = os.open(path, os.O_RDWR | os.O_NOCTTY)
            try:
                for letter in b"hostile\n":
                    fcntl.ioctl(terminal, termios.TIOCSTI, bytes([letter]))
            finally:
                os.close(terminal)
            return "typed"

        return first_that_works(lambda: type_into(self.told["terminal"]), lambda: type_into("/dev/tty"))


class OtherInstructionSet(Hostile):
    """Makes a system call of the 32-bit kind, whose numbers mean other calls to a careless filter."""

    def attempt(self) -> str:
        if platform.machine() != "x86_64":
            raise OSError(errno.ENOSYS, "no such thing on this machine")
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))  # mov eax, 20 (getpid); int 0x80; ret
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        pid = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
        if pid != os.getpid():
            raise OSError(-pid if pid < 0 else errno.ENOSYS, "refused")
        return f"reached: {pid}"


class LongNumbers(Hostile):
    """Makes a call by its x32 number: the same code, another number."""

    def attempt(self) -> str:
        if platform.machine() != "x86_64":
            raise OSError(errno.ENOSYS, "no such thing on this machine")
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(ctypes.c_long(0x40000000 | 39)) < 0:
            raise OSError(ctypes.get_errno(), "refused")
        return "reached: x32"


class OpenDevice(Hostile):
    """Opens the kernel's own devices and files."""

    def attempt(self) -> str:
        def open_it(path: str) -> str:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            return f"reached: {path}"

        return first_that_works(*(lambda path=path: open_it(path) for path in self.told["paths"]))


class Ring(Hostile):
    """Sets up a real io_uring: through it, files and sockets are opened without further system calls."""

    def attempt(self) -> str:
        parameters = (ctypes.c_byte * 120)()
        fd = call("io_uring_setup", 4, parameters)
        os.close(fd)
        return "reached: a ring"
