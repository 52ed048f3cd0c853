"""Attacks on rarely used parts of the kernel. All arguments are invalid: being refused by the code behind is a hit."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
from collections.abc import Callable, Sequence
from typing import Any

from paddock.bench.hostile.attacks.attempt import NULL, attack, call, first_that_works, open_first, reach_kernel

_ARGUMENTS: dict[str, tuple[Any, ...]] = {}
_PRIVILEGED: dict[str, Any] = {"control_root": True, "needs": "no-privileges"}
_NOT_BUILT = "this kernel may have been built without it, and then answers as a wall does"


def _call(code: str, title: str, name: str, *arguments: Any, **more: Any) -> Callable[[Any], Any]:
    """A system call, with arguments that can do nothing: no such command, no such address, no such magic number."""
    _ARGUMENTS[name] = arguments
    return attack(code, title, "claim", {"name": name}, **more)


@_call("K01", "asks for an io_uring", "io_uring_setup", 0, NULL)
@_call("K02", "loads a program for the kernel (bpf)", "bpf", -1, NULL, 0)
@_call("K03", "reads the session's keys", "keyctl", 0, -3, 0)
@_call("K04", "listens to the processor (perf_event_open)", "perf_event_open", NULL, 0, 0, 0, 0)
@_call("K05", "handles page faults (userfaultfd)", "userfaultfd", 1 | 0x40000000)
@_call("K06", "loads another kernel", "kexec_load", 0, 0xFFFF, NULL, 0xFF, no_control=_NOT_BUILT)
@_call("K07", "loads a module", "init_module", NULL, 0, NULL, no_control=_NOT_BUILT)
@_call("K08", "sets the clock", "clock_settime", 0, NULL)
@_call("K09", "adds swap space", "swapon", NULL, 0, control_root=True)
@_call("K10", "reboots", "reboot", 1, 2, 3, NULL, control_root=True)
@_call("K12", "enters another's namespace", "setns", -1, 0)
@_call("K13", "reads the kernel's messages", "syslog", 10, NULL, 0, control_root=True)
@_call("K14", "writes accounts of all processes", "acct", b"/no-such-folder/accounts", control_root=True)
@_call("K15", "watches all files (fanotify)", "fanotify_init", 0xFFFFFFFF, 0, control_root=True)
@_call("K16", "changes quotas", "quotactl", 0xFFFFFF, NULL, 0, NULL)
@_call("K17", "renames the host", "sethostname", NULL, -1, control_root=True)
# No such type of file system; and the root folders that it has already.
@_call("P12", "mounts", "mount", b"none", b"/", b"no-such-type", 0, NULL, **_PRIVILEGED)
@_call("P13", "changes its root folder", "chroot", b"/", **_PRIVILEGED)
@_call("P14", "swaps its root folder", "pivot_root", b"/", b"/", **_PRIVILEGED)
def make_call(name: str) -> str:
    return reach_kernel(name, *_ARGUMENTS[name])


@attack("K11", "types for the user", "terminal", control_root=True)
def type_for_user(terminal: str) -> str:
    """Types into the terminal that it was started from, for the shell to read (TIOCSTI)."""
    import fcntl
    import termios

    def type_into(path: str) -> str:
        fd = os.open(path, os.O_RDWR | os.O_NOCTTY)
        try:
            for letter in b"hostile\n":
                fcntl.ioctl(fd, termios.TIOCSTI, bytes([letter]))
        finally:
            os.close(fd)
        return "typed"

    return first_that_works(type_into, (terminal, "/dev/tty"))


@attack("K18", "makes 32-bit calls", "claim", expected={"denied", "signal"})
def make_32_bit_call() -> str:
    """Makes a system call of the 32-bit kind, whose numbers mean other calls to a careless filter."""
    if platform.machine() != "x86_64":
        raise OSError(errno.ENOSYS, "no such thing on this machine")
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))  # mov eax, 20 (getpid); int 0x80; ret
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    pid = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    if pid != os.getpid():
        raise OSError(-pid if pid < 0 else errno.ENOSYS, "refused")
    return f"reached: {pid}"


@attack(
    "K19",
    "makes x32 calls",
    "claim",
    expected={"denied", "signal"},
    no_control="most kernels are built without x32, and then answer as a wall does",
)
def make_x32_call() -> str:
    """Makes a call by its x32 number: the same code, another number."""
    if platform.machine() != "x86_64":
        raise OSError(errno.ENOSYS, "no such thing on this machine")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(ctypes.c_long(0x40000000 | 39)) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return "reached: x32"


_DEVICES = ("/dev/kmsg", "/dev/mem", "/dev/kvm", "/dev/fuse", "/proc/kcore", "/dev/net/tun")


@attack("K20", "opens the kernel's devices", "claim", control_root=True)
def open_device(paths: Sequence[str] = _DEVICES) -> str:
    return open_first(paths, os.O_RDONLY | os.O_NONBLOCK)


@attack("K21", "sets up a ring of its own", "claim")
def make_ring() -> str:
    """Sets up a real io_uring: through it, files and sockets are opened without further system calls."""
    os.close(call("io_uring_setup", 4, (ctypes.c_byte * 120)()))
    return "reached: a ring"
