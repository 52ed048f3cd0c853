"""The template: a process that has imported what every worker needs, and forks a worker for each request.

It imports no environment and reads no order: whatever it knew, all later workers would find in their memory.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from typing import NoReturn

from paddock.sandbox.inside import LockFailed, finder, landlock, lock, root  # noqa: F401 - for the workers
from paddock.sandbox.inside.boot import carry_out
from paddock.sandbox.inside.namespaces import NEW_PID, unshare
from paddock.sandbox.inside.seccomp import OPTIONS, filter_of
from paddock.sandbox.inside.syscalls import PR_SET_DUMPABLE, PR_SET_PDEATHSIG, name_process, prctl, several_threads

FAILED, STARTED, STDIO, PLAIN, RETIRE = b"F", b"S", b"I", b"P", b"R"
MOST_DESCRIPTORS = 16  # that come with a request: control, output, and those of the worker
TEMPLATE_NAME = b"paddock-tmpl"  # as ``ps`` shows it
_WORKER_PID = 2  # in a pid namespace of its own
_HIGH = 64  # above those that the worker uses under fixed numbers

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Serve the socket that the first argument names, until it is closed. The second one holds the settings, as JSON.

    ``parent``: the process to end with. ``apart``: workers get a pid namespace each; ``user``: in a user namespace,
    which an ordinary user needs for that. ``modules``: what to import, and to ``prepare``.
    ``idle_s``: end after so long without a worker.
    """
    link, settings = socket.socket(fileno=int(sys.argv[1])), json.loads(sys.argv[2])
    try:
        name_process(TEMPLATE_NAME)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != settings["parent"]:
            os._exit(1)
        if settings["apart"]:
            _enter_pid_namespace(user=settings["user"])
        for name in settings["modules"]:
            prepare = getattr(importlib.import_module(name), "prepare", None)
            if prepare is not None:
                prepare()
        # The filter of a policy that grants nothing, which most workers will need.
        usual = {**dict.fromkeys(OPTIONS, False), "truncate": landlock.version() >= 3, "memory_files": True}
        filter_of(usual, machine=os.uname().machine, own_pid=_WORKER_PID)
        prctl(PR_SET_DUMPABLE, 0)
        if several_threads():
            raise LockFailed("something that it imported has started a thread")
    except Exception as error:  # whoever asks for a worker learns why there is none
        link.send(FAILED + f"{type(error).__name__}: {error}".encode(errors="replace")[:500])
        os._exit(1)
    gc.collect()
    gc.freeze()  # a collection in a worker would copy every page that is shared with the others
    _Template(link, apart=settings["apart"], idle_s=settings["idle_s"]).run()


def _enter_pid_namespace(*, user: bool) -> None:
    """Go on as the first process of a pid namespace: when it ends, the kernel ends all workers."""
    unshare(NEW_PID, user=user)
    template = os.fork()
    if template:
        os.closerange(3, 1 << 20)
        os.waitpid(template, 0)
        os._exit(0)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # if that came too late, the closed socket ends this process


class _Template:
    def __init__(self, link: socket.socket, *, apart: bool, idle_s: float) -> None:
        self._link, self._idle_s, self._pid = link, idle_s, os.getpid()
        self._own_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC) if apart else None
        self._workers: dict[int, tuple[int, int]] = {}  # from pidfd to pid and the control socket
        self._retired = False

    def run(self) -> NoReturn:
        """Fork workers and report how they ended."""
        events = select.epoll()
        events.register(self._link.fileno(), select.EPOLLIN)
        while self._workers or not self._retired:
            ready = events.poll(None if self._workers else self._idle_s)
            if not ready and not self._workers:
                os._exit(0)
            for fd, _ in ready:
                if fd != self._link.fileno():
                    events.unregister(fd)
                    self._reap(fd)
                    continue
                request, fds, flags, _ = socket.recv_fds(self._link, 1, MOST_DESCRIPTORS)
                if not request:
                    os._exit(0)  # the workers end with this namespace, or by their death signal
                if request == RETIRE:
                    self._retired = True
                    continue
                try:
                    if flags & socket.MSG_CTRUNC:
                        raise OSError(errno.EMFILE, "this process can't hold more descriptors")
                    worker = self._fork(fds)
                except OSError as error:  # the other workers live on
                    with suppress(OSError):  # the launcher is gone
                        if fds:
                            with socket.socket(fileno=fds[0]) as control:
                                control.send(FAILED + str(error.errno).encode())
                        else:
                            self._link.send(FAILED + os.strerror(error.errno or 0).encode())
                else:
                    if worker is None:
                        self._workers.clear()  # the environment's code could read it in this frame
                        _become_worker(fds, stdio=request == STDIO, template=self._pid)
                    events.register(worker, select.EPOLLIN)
                for one in fds[1:]:
                    os.close(one)
        os._exit(0)

    def _fork(self, fds: list[int]) -> int | None:
        """The pidfd of a new worker; None in the worker itself."""
        if self._own_namespace is not None and _libc.unshare(ctypes.c_int(NEW_PID)):
            raise OSError(ctypes.get_errno(), "no pid namespace could be made")
        pid = -1
        try:
            pid = os.fork()
        finally:
            # Back, or the next worker would be in the namespace of this one.
            if self._own_namespace is not None and pid and _libc.setns(self._own_namespace, ctypes.c_int(NEW_PID)):
                os._exit(1)
        if pid == 0:
            return None
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:  # it can't be watched, so it must not run
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self._workers[pidfd] = pid, fds[0]
        control = socket.socket(fileno=fds[0])
        try:  # noqa: SIM105
            socket.send_fds(control, [STARTED], [pidfd])
        except OSError:
            pass  # nobody waits for it any more: it will get no order, and end
        control.detach()
        return pidfd

    def _reap(self, pidfd: int) -> None:
        pid, control = self._workers.pop(pidfd)
        _, status, used = os.wait4(pid, 0)
        os.close(pidfd)
        with socket.socket(fileno=control) as link:
            try:  # noqa: SIM105
                link.send(b" %d %f" % (os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime))
            except OSError:
                pass  # the launcher is gone


def _become_worker(fds: list[int], *, stdio: bool, template: int) -> NoReturn:
    """Take on the descriptors of the worker, forget those of the template, and carry out the order that comes."""
    os.setsid()
    name_process(b"paddock-worker")
    control, output, *given = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH) for fd in fds]
    null = os.open(os.devnull, os.O_RDONLY)
    first = [given[0], given[0], output] if stdio else [null, output, output]
    for number, fd in enumerate([*first, *given, control]):
        os.dup2(fd, number)
    last = 3 + len(given)
    os.closerange(last + 1, 1 << 20)
    # Else all forks would draw the same numbers.
    if "random" in sys.modules:
        sys.modules["random"].seed()
    if "numpy.random" in sys.modules:  # not by its `seed`, which would copy twice as many pages and take twice as long
        stream = sys.modules["numpy.random"]
        stream.set_bit_generator(stream.MT19937())
    carry_out(last, template=template)
    # Not to the end of the interpreter: taking it apart would copy every page that it shares with the others.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
