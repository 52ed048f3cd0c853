"""SharedWorker: one process behind a wall for the sessions of many peers; each gets a socket of its own to it.

For paddock's own environments, which nobody has to be protected from. A reader would get wrong: the sessions share the
policy's memory and CPU time, and a request that takes too long in one of them costs all of them their environments.
"""

from __future__ import annotations

import itertools
import select
import socket
import threading
from collections.abc import Callable
from typing import Any

from paddock.making.inside_shared import ID_BYTES

_LET_GO_S = 1.0  # for the worker to close one session's environments; one that takes longer is stuck


class SharedWorker:
    """Sessions in the worker that ``launch`` starts. One that has ended is replaced when the next session begins."""

    def __init__(self, launch: Callable[[], tuple[socket.socket, Any]]) -> None:
        self._launch = launch
        self._lock = threading.Lock()
        self._now: _Process | None = None

    def start(self) -> tuple[socket.socket, Share]:
        """A session's socket, and its share of the process. Blocks for some milliseconds if that must be started."""
        with self._lock:
            while True:
                if self._now is None or self._now.over.is_set():
                    self._now = _Process(*self._launch())
                share = self._now.admit()
                if share is not None:
                    return share

    def close(self) -> None:
        """End the process and all sessions in it."""
        with self._lock:
            if self._now is not None:
                self._now.end()
                self._now = None


class _Process:
    """The process, and a thread that hears which sessions are over, and takes in what is printed."""

    def __init__(self, control: socket.socket, child: Any) -> None:
        self.child, self._control = child, control
        self.over = threading.Event()
        self._numbers = itertools.count(1)
        self._held: dict[bytes, threading.Event] = {}
        self._ending = threading.Lock()
        self._fds = control.fileno(), child.output_fd, child.fd
        threading.Thread(target=self._listen, name="paddock-shared-worker", daemon=True).start()

    def admit(self) -> tuple[socket.socket, Share] | None:
        """Another session; None if the process has ended."""
        near, far = socket.socketpair()
        with far:
            number, let_go = next(self._numbers).to_bytes(ID_BYTES, "little"), threading.Event()
            self._held[number] = let_go
            try:
                socket.send_fds(self._control, [number], [far.fileno()])
            except OSError:
                near.close()
                self.end()
                return None
        return near, Share(self, let_go)

    def _listen(self) -> None:
        control_fd, output_fd, child_fd = self._fds
        poll = select.poll()
        for fd in self._fds:
            poll.register(fd, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poll.poll()]
            if child_fd in ready or self.over.is_set():
                break
            if output_fd in ready and not self.child.drain():
                poll.unregister(output_fd)
            if control_fd in ready and not self._hear():
                break
        self.end()

    def _hear(self) -> bool:
        try:
            said = self._control.recv(ID_BYTES, socket.MSG_WAITALL)
        except OSError:
            return False
        let_go = self._held.pop(said, None)
        if let_go is not None:
            let_go.set()
        return bool(said)

    def end(self) -> None:
        """End it; safe from any thread, and twice."""
        with self._ending:
            if not self.over.is_set():
                self.over.set()
                self.child.kill()
                self._control.close()
                for let_go in list(self._held.values()):
                    let_go.set()


class Share:
    """A session's part of the process, as WorkerLink sees a child of its own. The session's socket tells of the end."""

    fd: int | None = None
    output_fd: int | None = None

    def __init__(self, process: _Process, let_go: threading.Event) -> None:
        self._process, self._let_go = process, let_go
        self.pid = int(process.child.pid)

    @property
    def cause(self) -> str | None:
        """Why the process ended; None while it runs."""
        return str(self._process.child.cause) if self._process.over.is_set() else None

    @property
    def output(self) -> str:
        """What the process printed is not this session's alone, so nobody is shown it."""
        return ""

    def drain(self) -> bool:
        """Nothing comes here."""
        return False

    def wait(self, timeout: float) -> bool:
        """Whether the process has ended, or let this session go, within so long."""
        return self._let_go.wait(timeout)

    def kill(self) -> None:
        """End the session there; its socket is closed by now. A process that does not notice is ended as a whole."""
        if not self._let_go.wait(_LET_GO_S):
            self._process.end()
