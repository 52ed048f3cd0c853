"""Start a worker process with one socket to it. However the parent ends, the worker and its children end too."""

from __future__ import annotations

import json
import multiprocessing
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from multiprocessing.process import BaseProcess
from typing import IO, Any, TypeAlias

from paddock.errors import PlanError
from paddock.hosting.frames import wait_for
from paddock.sandbox.child import STACK_PIECE_S, ask_for_stack, how_ended

Launcher = Callable[[], "tuple[socket.socket, Child]"]
Process: TypeAlias = "subprocess.Popen[bytes] | BaseProcess"

# Takes what workers print, for a program that must keep it off its stderr. A forked worker always prints where this
# process does.
PRINTS_TO: ContextVar[Callable[[bytes], object] | None] = ContextVar("prints_to", default=None)

# Sockets of this end, which a forked child must not keep open: their closing tells a worker that its parent is gone.
_NEAR_ENDS: weakref.WeakSet[socket.socket] = weakref.WeakSet()
# Locked while ends are made and while a process forks: no thread may fork between making an end and noting it.
_FORKING = threading.RLock()

_LAST_WORDS_S = 1.0  # from the closing of its descriptors to its end; a core dump takes longer
_STACK_S = 0.3  # how long a worker may take to report its stack
_KILLED_S = 10.0  # wait no longer than this for the kernel to end a process

# Sets the parent's sys.path, so that the worker finds what the parent finds. Nothing may be imported from the current
# folder before that: `-m` would, and `-c` does until the empty entry is gone.
_BOOT = (
    "import sys; sys.path[:] = filter(None, sys.path); import json; sys.path[:] = json.loads(sys.argv[3]); "
    "from paddock.hosting.worker import main; main()"
)


# A process group of its own: Ctrl-C in a terminal does not reach it, and its children end with it. Not a session of its
# own: Linux shares the cores out by session first, so beside busy neighbours a worker waited for its turn at every
# step. Python 3.10 can't start a group in any other way.
_OWN_GROUP: dict[str, Any] = {"process_group": 0} if sys.version_info >= (3, 11) else {"start_new_session": True}


class Child:
    """A worker process and the lifeline whose closing ends it."""

    def __init__(self, process: Process, lifeline: socket.socket) -> None:
        self.process, self._lifeline = process, lifeline
        self._over = False
        self.answered = False  # set by each reply; read by sandbox.cpu, unused for plain workers
        self.cause = "ended"  # "exit" or "signal" if it ended by itself, "closed" if it only closed its connection
        self._owner = os.getpid()
        # Readable when the process has ended; None where the system has no such descriptor.
        self.fd: int | None = None
        with suppress(AttributeError, OSError):
            self.fd = os.pidfd_open(self.pid)
        self._relay: threading.Thread | None = None
        prints_to = PRINTS_TO.get()
        if prints_to is not None and isinstance(process, subprocess.Popen) and process.stdout is not None:
            self._relay = threading.Thread(target=_relay_output, args=(process.stdout, prints_to), daemon=True)
            self._relay.start()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def wait(self, timeout: float) -> bool:
        """Whether the process ends within ``timeout`` seconds. Its pid stays taken until ``kill``."""
        if self._has_ended() or os.getpid() != self._owner:
            return True
        if self.fd is None:  # not on Linux, or no descriptor was left
            return self._join(timeout)
        return wait_for(self.fd, select.POLLIN, timeout)

    def kill(self) -> None:
        """Kill the process and what it started, now. Safe to call twice; in a forked child it does nothing."""
        if not self._over and os.getpid() == self._owner:
            self._over = True
            with suppress(ProcessLookupError, PermissionError):
                if not self._has_ended():
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(self.pid, signal.SIGKILL)
                    os.kill(self.pid, signal.SIGKILL)  # if it has no group of its own yet
                else:
                    # Something else reaped it; multiprocessing does whenever it starts another process. Another process
                    # may have its number now, but a group that has lost its leader is still ours: its members keep the
                    # number from being reused.
                    try:
                        os.kill(self.pid, 0)
                    except ProcessLookupError:
                        os.killpg(self.pid, signal.SIGKILL)
            if self.wait(_KILLED_S):
                self._join(None)
            if isinstance(self.process, BaseProcess):
                self.process._popen.close()  # type: ignore[attr-defined]  # its descriptors, and keep the exit code
            if self.fd is not None:
                os.close(self.fd)
            if self._relay is not None:
                self._relay.join(_LAST_WORDS_S)  # what left the group may keep the pipe open
        self._lifeline.close()

    def stack(self) -> str:
        """The stack of its Python code, the innermost frame first; empty if it does not answer."""
        ask_for_stack(self.pid)
        with suppress(OSError):
            if wait_for(self._lifeline.fileno(), select.POLLIN, _STACK_S):
                time.sleep(STACK_PIECE_S)
                return self._lifeline.recv(1 << 16).decode("utf-8", "replace")
        return ""

    def last_words(self) -> str:
        """How it ended, in words. Call it when the connection is gone: it kills a process that has not ended yet."""
        ended = self.wait(_LAST_WORDS_S)
        self.kill()
        code = self.process.returncode if isinstance(self.process, subprocess.Popen) else self.process.exitcode
        if not ended or code is None:
            self.cause = "closed"
            return "closed its connection"
        self.cause = "signal" if code < 0 else "exit"
        return how_ended(code)

    def _join(self, timeout: float | None) -> bool:
        if isinstance(self.process, subprocess.Popen):
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout)
        else:
            self.process.join(timeout)
        return self._has_ended()

    def _has_ended(self) -> bool:
        if isinstance(self.process, subprocess.Popen):
            return self.process.returncode is not None
        return self.process._popen is None or self.process._popen.returncode is not None  # type: ignore[attr-defined]


def start_fresh() -> tuple[socket.socket, Child]:
    """Start a worker in a new interpreter, which has only sys.path and the environment variables of this one."""

    def start(far: socket.socket, watched: socket.socket) -> Process:
        piped = PRINTS_TO.get() is not None
        return subprocess.Popen(  # noqa: S603 - our own interpreter and arguments
            [sys.executable, "-c", _BOOT, str(far.fileno()), str(watched.fileno()), json.dumps(sys.path)],
            pass_fds=(far.fileno(), watched.fileno()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped else 2,  # what an environment prints is not this program's output
            stderr=subprocess.STDOUT if piped else None,
            **_OWN_GROUP,
        )

    return _start_child(start)


def _relay_output(pipe: IO[bytes], prints_to: Callable[[bytes], object]) -> None:
    with pipe:
        while piece := os.read(pipe.fileno(), 1 << 16):
            prints_to(piece)


def start_by(context: str | None, *, daemon: bool = True) -> Launcher:
    """A launcher by multiprocessing's start method; None is Python's default here, fork on most Linux systems.

    A forked worker has everything that this process has, registered ids among them, as in Gymnasium.
    """
    method = multiprocessing.get_context(context)

    def start(far: socket.socket, watched: socket.socket) -> Process:
        process: BaseProcess = method.Process(  # type: ignore[attr-defined]
            # A daemon to multiprocessing in any case: at exit it would wait for ever for one that is not.
            target=_in_child,
            name="paddock-worker",
            args=(far, watched, daemon),
            daemon=True,
        )
        process.start()
        return process

    return partial(_start_child, start)


def _start_child(start: Callable[[socket.socket, socket.socket], Process]) -> tuple[socket.socket, Child]:
    """Give the child's two ends to ``start`` and close them here: a peer notices only when every copy is closed."""
    near, far, lifeline, watched = _ends()
    try:
        process = start(far, watched)
    except BaseException:
        near.close()
        lifeline.close()
        raise
    finally:
        far.close()
        watched.close()
    return near, Child(process, lifeline)


def _ends() -> tuple[socket.socket, socket.socket, socket.socket, socket.socket]:
    if not hasattr(socket, "AF_UNIX") or sys.platform == "win32":
        raise PlanError(
            "Worker processes need Unix sockets, which this system does not have. Drop isolation='process'."
        )
    with _FORKING:
        near, far = socket.socketpair()
        try:
            lifeline, watched = socket.socketpair()
        except BaseException:
            near.close()
            far.close()
            raise
        _NEAR_ENDS.update((near, lifeline))
    return near, far, lifeline, watched


def _in_child(far: socket.socket, watched: socket.socket, daemon: bool) -> None:
    from paddock.hosting.worker import work

    # One that is not a daemon may start processes by multiprocessing itself.
    multiprocessing.current_process()._config["daemon"] = daemon  # type: ignore[attr-defined]

    with suppress(PermissionError):  # already the leader of a session
        os.setpgid(0, 0)
    work(far, watched)


def _close_near_ends() -> None:
    for end in list(_NEAR_ENDS):
        end.close()
    _FORKING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_FORKING.acquire, after_in_parent=_FORKING.release, after_in_child=_close_near_ends)
