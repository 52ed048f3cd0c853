"""The descriptors between this process and one that it starts. Made here at once; what nobody took is closed."""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import weakref
from contextlib import ExitStack, suppress

_HIGH = 64  # above those that the worker will use under fixed numbers
# Held while descriptors are made and while this process forks: a copy in a forked process would keep an end open.
_FORKING = threading.RLock()
_OPEN: weakref.WeakSet[Plumbing] = weakref.WeakSet()
_INFO_S = 10.0  # how long bubblewrap may take until it has forked


class Plumbing:
    """Descriptors of one launch: the control socket, the output, bubblewrap's report, the lifeline."""

    def __init__(self, socket_fd: int, extra_fds: tuple[int, ...]) -> None:
        self._far, self._near = ExitStack(), ExitStack()
        with _FORKING:
            self._make(socket_fd, extra_fds)
            _OPEN.add(self)

    def _make(self, socket_fd: int, extra_fds: tuple[int, ...]) -> None:
        try:
            self._given = [self._lift(fd) for fd in (socket_fd, *extra_fds)]
            self._control, control = socket.socketpair()
            self._near.callback(self._control.close)
            self._control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self.config_fd = self._lift(control.detach(), owned=True)
            self._lifeline, watched = socket.socketpair()
            self._near.callback(self._lifeline.close)
            self.lifeline_fd = self._lift(watched.detach(), owned=True)
            self._output, self.output_fd = self._pipe()
            self._info, self.info_fd = self._pipe()
            # For bubblewrap itself: if it reported to nobody it would end, and its child would wait for it for ever.
            self._held = self._lift(self._info)
        except BaseException:
            self.__exit__()
            raise

    def _lift(self, fd: int, *, owned: bool = False) -> int:
        import fcntl

        try:
            high: int = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        finally:
            if owned:
                os.close(fd)
        self._far.callback(os.close, high)
        return high

    def _pipe(self) -> tuple[int, int]:
        reads, writes = os.pipe()
        self._near.callback(_close, reads)
        return reads, self._lift(writes, owned=True)

    def passed(self, *, info: bool, lifeline: bool) -> tuple[int, ...]:
        """Those that the child inherits, under the numbers that they have here."""
        more = ((self.info_fd, self._held) if info else ()) + ((self.lifeline_fd,) if lifeline else ())
        return (*self._given, self.config_fd, *more)

    def prologue(self, *, stdio: bool, info: bool, hello: bool) -> str:
        """Python for the worker's first line: descriptors to their fixed numbers, and a byte that tells its pid."""
        lines = ["import os"]
        for number, fd in enumerate(self._given, 3):
            lines += [f"os.dup2({fd},{number})", f"os.close({fd})"]
        if info:
            lines += [f"os.close({self._held})"]
        if stdio:
            lines += ["os.dup2(3,0)", "os.dup2(3,1)"]
        if hello:
            lines += [f"os.write({self.config_fd},b'!')"]
        return ";".join(lines) + "\n"

    def close_far_ends(self) -> None:
        """Only by their closing does either side notice that the other is gone."""
        self._far.close()

    def read_info(self) -> int | None:
        """The pid of bubblewrap's first process inside; None if it ended before there was one."""
        said = b""
        poller = select.poll()
        poller.register(self._info, select.POLLIN)
        while poller.poll(_INFO_S * 1000) and (piece := os.read(self._info, 4096)):
            said += piece
            with suppress(ValueError):
                return int(json.loads(said)["child-pid"])
        return None

    def take_output(self) -> int:
        """The end to read from, which the caller closes."""
        return os.dup(self._output)

    def take_control(self) -> socket.socket:
        """The socket to the boot, which the caller closes."""
        return self._control.dup()

    def take_lifeline(self) -> socket.socket:
        """The end whose closing ends the worker."""
        return self._lifeline.dup()

    def __enter__(self) -> Plumbing:
        return self

    def __exit__(self, *_: object) -> None:
        _OPEN.discard(self)
        self._far.close()
        self._near.close()


def _close(fd: int) -> None:
    with suppress(OSError):
        os.close(fd)


def _forget() -> None:
    for pipes in list(_OPEN):
        pipes.__exit__()
    _FORKING.release()


if hasattr(os, "register_at_fork"):  # else there are no walls either
    os.register_at_fork(before=_FORKING.acquire, after_in_parent=_FORKING.release, after_in_child=_forget)
