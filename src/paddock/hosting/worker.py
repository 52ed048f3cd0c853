"""The worker process of tier ``process``: a Host behind a socket. It trusts its parent, which does not trust it."""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
from typing import Any

from paddock.errors import InvalidLanes
from paddock.hosting.factories import loads
from paddock.hosting.host import Host
from paddock.hosting.serve import serve
from paddock.sandbox.child import STACK_SIGNAL


def main() -> None:
    """For ``python -c``: the arguments are the descriptors of the socket and of the lifeline."""
    os.environ["PADDOCK_WORKER"] = "1"  # for those who do less in a worker: kernels/installed.py
    work(socket.socket(fileno=int(sys.argv[1])), socket.socket(fileno=int(sys.argv[2])))


def work(far: socket.socket, watched: socket.socket) -> None:
    """Serve requests until the parent closes its end."""
    _die_with(watched)
    signal.set_wakeup_fd(-1)  # a forked worker's signals are none of its parent's event loop
    # Ctrl-C is for the parent, which closes its workers in order. The others would stop a process that is not in the
    # terminal's foreground when it reads or writes there.
    for number in (signal.SIGINT, signal.SIGTTIN, signal.SIGTTOU):
        signal.signal(number, signal.SIG_IGN)
    faulthandler.register(STACK_SIGNAL, file=watched, all_threads=False)  # for whoever asks where it stands
    with far, watched:
        serve(far, Host(_build, alone=True), unpickler=loads)


def _die_with(watched: socket.socket) -> None:
    """Let the kernel kill this process group when the other end of ``watched`` is closed.

    By a signal, so it works in a busy loop and while C code holds the GIL; on Linux by SIGKILL, which no environment
    can block. Not PR_SET_PDEATHSIG: that one fires when the *thread* that started the worker ends.
    """
    import fcntl

    signal.signal(signal.SIGIO, signal.SIG_DFL)  # ends the process too
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGIO])
    owner = -os.getpgrp() if os.getpgrp() == os.getpid() else os.getpid()
    fcntl.fcntl(watched, fcntl.F_SETOWN, owner)
    if sys.platform == "linux":
        fcntl.fcntl(watched, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(watched, fcntl.F_SETFL, fcntl.fcntl(watched, fcntl.F_GETFL) | os.O_ASYNC)
    watched.setblocking(False)
    try:
        if watched.recv(1) == b"":  # the parent was gone before anyone watched
            os._exit(1)
    except BlockingIOError:
        pass


def _build(what: dict[str, Any]) -> Any:
    factory = what.get("factory")
    if not callable(factory):
        kind = type(factory).__name__
        raise InvalidLanes(
            f"A {kind} is no function that makes an environment. Pass `lambda: make(...)`, not its result."
        )
    return factory()
