"""Templates: processes that fork workers in milliseconds. One serves one tenant only.

Forks of one template share its memory layout and its hash seed. So none serves two tenants, and each is replaced after
a number of workers or some time; ``Policy(fresh=True)`` starts an interpreter of its own.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import select
import socket
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.errors import SandboxUnavailable
from paddock.sandbox.plan import Exec, Plan, first_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Spawn = Callable[..., subprocess.Popen[bytes]]

_MOST = 16  # templates of this process; the least recently used one makes room for the next
_FORKS = 1_000  # of one template
_AGE_S = 1800.0
_IDLE_S = 60.0  # without a worker for so long, it ends
_BOOT = "import sys; sys.path[:] = {path!r}; from paddock.sandbox.inside.template import main; main()"
# Libraries that compute would start threads when they are imported, and a process with threads can't be forked safely.
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


class NoTemplate(Exception):
    """No worker can be forked here: start an interpreter instead."""


@dataclass
class Forked:
    """A worker that a template forked, with its number here. ``fd`` is readable when it has ended."""

    pid: int
    fd: int
    returncode: int | None = None


def fork_worker(chosen: Plan, fds: Sequence[int], control: socket.socket, *, tenant: str, spawn: Spawn) -> Forked:
    """Have a template fork a worker with these descriptors: those of control and output, then the worker's own."""
    for _ in range(2):  # a template that has ended is replaced once
        template = _take(chosen, tenant, spawn)
        try:
            stdio = isinstance(chosen.program, Exec) and chosen.program.stdio
            return template.fork(fds, control, stdio=stdio, timeout_s=chosen.policy.start_s)
        except ConnectionError:
            _drop(template)
    raise NoTemplate("the template ended twice")


class Template:
    """A running template. It ends with this process, when idle for long, or once retired and without a worker."""

    def __init__(self, chosen: Plan, modules: Sequence[str], spawn: Spawn) -> None:
        apart = chosen.backend is not None
        settings: dict[str, object] = {"parent": os.getpid(), "apart": apart, "user": apart and not chosen.machine.root}
        settings |= {"modules": modules, "idle_s": _IDLE_S}
        self.link, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.began_s, self.forks = time.monotonic(), 0
        with far:
            boot = _BOOT.format(path=list(chosen.world.path))
            argv = [chosen.world.executable, "-I", "-S", "-c", boot, str(far.fileno()), json.dumps(settings)]
            env = {**first_variables("/"), **dict.fromkeys(_ONE_THREAD, "1")}
            self.process = spawn(argv, fds=(far.fileno(),), output=subprocess.DEVNULL, env=env)

    def fork(self, fds: Sequence[int], control: socket.socket, *, stdio: bool, timeout_s: float) -> Forked:
        """Ask for a worker. ConnectionError: the template has ended. NoTemplate: it can't be made here."""
        from paddock.sandbox.inside.template import PLAIN, STDIO

        self.forks += 1
        try:
            link = self.link.dup()  # this thread's own: another one may find first that the template has ended
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            raise ConnectionResetError(errno.ECONNRESET, "the template has ended") from None
        with link:
            socket.send_fds(link, [STDIO if stdio else PLAIN], list(fds))
            return self._receive(link, control, timeout_s)

    def _receive(self, link: socket.socket, control: socket.socket, timeout_s: float) -> Forked:
        from paddock.sandbox.inside.template import FAILED, STARTED

        # Not by EOF: this process has the far end of the control socket too.
        poller = select.poll()
        poller.register(control, select.POLLIN)
        poller.register(link, select.POLLIN)
        ready = [fd for fd, _ in poller.poll(timeout_s * 1000)]
        if control.fileno() in ready:
            word, received, _, _ = socket.recv_fds(control, 1, 16)  # room for the credentials that come along
            if word == STARTED:
                if not received:  # the worker ends: it gets no order
                    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
                try:  # its number as it is known here
                    lines = Path(f"/proc/self/fdinfo/{received[0]}").read_text().splitlines()
                    return Forked(int(dict(line.partition(":")[::2] for line in lines)["Pid"]), received[0])
                except BaseException:
                    os.close(received[0])
                    raise
            if word == FAILED:
                number = int(control.recv(8))
                raise OSError(number, os.strerror(number))
        if link.fileno() in ready:
            try:
                reason = link.recv(512, socket.MSG_DONTWAIT)
            except BlockingIOError:  # another thread took it
                reason = FAILED + b"another worker could not be forked"
            if reason.startswith(FAILED):
                raise NoTemplate(reason[1:].decode(errors="replace"))
            raise ConnectionResetError(errno.ECONNRESET, "the template has ended")
        self.began_s = float("-inf")  # worn: the next worker gets another one
        raise SandboxUnavailable(f"The worker's template did not answer within {timeout_s:g} s. See: paddock doctor.")

    @property
    def is_worn(self) -> bool:
        """Whether another one should take its place: it has forked enough, is old, or has ended."""
        old = time.monotonic() - self.began_s > _AGE_S
        return old or self.forks >= _FORKS or self.process.poll() is not None

    def close(self) -> None:
        """End it, and its workers with it."""
        self.link.close()
        self.process.kill()
        self.process.wait()


_templates: dict[tuple[object, ...], Template] = {}  # the one that was used last is the last one
_retired: list[Template] = []
_lock = threading.Lock()


def _take(chosen: Plan, tenant: str, spawn: Spawn) -> Template:
    program, modules = chosen.program, []
    if not isinstance(program, Exec):
        modules = [program.entry.partition(":")[0], *([program.preload] if program.preload else [])]
    root = Path("/").stat()
    # A process that gives up its rights, or changes its root, must not get workers that still have them.
    identity = os.geteuid(), os.getegid(), *os.getgroups(), root.st_dev, root.st_ino
    key = tenant, chosen.tier, identity, *modules
    with _lock:
        for one in [one for one in _retired if one.process.poll() is not None]:
            _retired.remove(one)
            one.close()
        template = _templates.pop(key, None)
        if template is not None and template.is_worn:
            _retire(template)
            template = None
        if template is None:
            template = Template(chosen, modules, spawn)
            if len(_templates) >= _MOST:
                _retire(_templates.pop(next(iter(_templates))))
        _templates[key] = template
        return template


def _retire(template: Template) -> None:
    """Let it end once its last worker has."""
    from paddock.sandbox.inside.template import RETIRE

    if template.process.poll() is None:
        with suppress(OSError):
            template.link.send(RETIRE)
        _retired.append(template)
    else:
        template.close()


def _drop(template: Template) -> None:
    with _lock:
        for key in [key for key, one in _templates.items() if one is template]:
            del _templates[key]
    template.close()


@atexit.register
def _close_all() -> None:
    for one in (*_templates.values(), *_retired):
        one.close()


def _forget_after_fork() -> None:
    """The templates are the parent's; a copy of a link would keep one alive when the parent is gone."""
    global _lock
    _lock = threading.Lock()
    for one in (*_templates.values(), *_retired):
        one.link.close()
        one.process.returncode = 0  # not this process's child
    _templates.clear()
    _retired.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
