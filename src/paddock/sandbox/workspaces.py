"""workspace(): for code behind a wall, a program behind a wall of its own, and the socket between the two.

An environment never starts processes. It asks the trusted side (``workspace_server``), which starts the program if the
policy allows it. An environment that runs without a wall is its own trusted side.
"""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from paddock.errors import DeadlineExceeded, NotPermitted
from paddock.sandbox.policy import Policy

PACKET_BYTES = 1 << 16
NONE_GRANTED = "The policy grants no workspaces: Policy(workspaces=…, workspace=Policy(…)) would."
_REPLY_BYTES = 1 << 20  # the most that `communicate` reads by default

_walled = False
_server: socket.socket | None = None
_asking = threading.Lock()  # answers come in the order of the requests: one at a time


def use_workspace_socket(server: socket.socket | None) -> None:
    """Behind a wall: ask ``server`` for workspaces from now on. Without one there are none."""
    global _walled, _server
    _walled, _server = True, server


def is_walled() -> bool:
    """Whether this process is behind a wall, so that its policy says what its workspaces may do."""
    return _walled


def has_workspaces() -> bool:
    """Whether this process may start any."""
    return not _walled or _server is not None


def workspace(argv: Sequence[str], policy: Policy | None = None) -> Workspace:
    """Start ``argv`` behind a wall of its own; its standard input and output are the workspace's socket.

    Without ``policy`` it has all that the environment's policy grants a workspace. ``with`` ends it::

        with workspace(["/usr/bin/python3", "-c", code]) as run:
            printed = run.communicate()
    """
    if not _walled:
        from paddock.sandbox.workspace_server import Workspaces

        granted = policy or Policy(programs=(argv[0],), processes=16)
        own = Workspaces(Policy(workspaces=1, workspace=granted))
        return Workspace(*own.start(list(argv), None), own)
    if _server is None:
        raise NotPermitted(NONE_GRANTED)
    request = {"argv": list(argv), "policy": None if policy is None else policy.to_dict()}
    answer, near = _ask(_server, request)
    if near is None:
        raise NotPermitted(str(answer.get("refused", "The workspace was refused.")))
    return Workspace(near, int(answer["number"]))


class Workspace:
    """A running program. ``socket`` leads to its standard input and output; ``close`` ends it and all it started."""

    def __init__(self, near: socket.socket, number: int, own: Any = None) -> None:
        self.socket, self._number, self._own = near, number, own
        self.ended: str | None = None  # after close: "exit", "signal", "timeout", "memory", …

    @property
    def child(self) -> Any:
        """Its Child, where this process started it and nobody else reads what it writes beside; else None."""
        return None if self._own is None or self.ended is not None else self._own.running[self._number][0]

    def communicate(self, data: bytes = b"", *, timeout_s: float = 30.0, most: int = _REPLY_BYTES) -> bytes:
        """Send ``data`` and close that side; return what the program writes until it ends, at most ``most`` bytes."""
        ends_s, output, unsent = time.monotonic() + timeout_s, bytearray(), memoryview(data)
        self.socket.setblocking(False)
        if not data:
            self.socket.shutdown(socket.SHUT_WR)
        while True:
            wants = select.POLLIN | (select.POLLOUT if unsent else 0)
            poll = select.poll()
            poll.register(self.socket, wants)
            if not poll.poll(max(0.0, ends_s - time.monotonic()) * 1000):
                raise DeadlineExceeded(f"The workspace did not end within {timeout_s} s.")
            with suppress(BlockingIOError):
                if unsent:
                    unsent = unsent[self.socket.send(unsent) :]
                    if not unsent:
                        self.socket.shutdown(socket.SHUT_WR)
            try:
                piece = self.socket.recv(PACKET_BYTES)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                piece = b""
            output += piece
            if not piece or len(output) >= most:
                return bytes(output[:most])

    def close(self) -> str:
        """End it, and say how it ended; safe to call twice."""
        if self.ended is None:
            self.socket.close()
            if self._own is not None:
                self.ended = self._own.end(self._number)
            elif _server is not None:
                self.ended = str(_ask(_server, {"end": self._number})[0].get("ended", "ended"))
            else:
                self.ended = "ended"
        return self.ended

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ask(server: socket.socket, request: dict[str, Any]) -> tuple[dict[str, Any], socket.socket | None]:
    packet = json.dumps(request).encode()
    if len(packet) > PACKET_BYTES:
        raise NotPermitted(f"A request for a workspace has {len(packet)} bytes; at most {PACKET_BYTES} may go through.")
    try:
        with _asking:
            server.send(packet)
            answer, fds, _, _ = socket.recv_fds(server, PACKET_BYTES, 1)
    except (BrokenPipeError, ConnectionResetError):
        answer, fds = b"", []
    if not answer:
        raise NotPermitted("The trusted side has closed the connection that workspaces are asked for through.")
    return json.loads(answer), socket.socket(fileno=fds[0]) if fds else None
