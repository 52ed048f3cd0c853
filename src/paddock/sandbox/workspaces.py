"""workspace(): for code behind a wall, a program behind a wall of its own, and the socket between the two.

An environment never starts processes. It asks through its door, and the trusted side starts a sibling if the policy
has room for it. An environment that runs without a wall is its own trusted side.
"""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from paddock.errors import DeadlineExceeded, NotPermitted
from paddock.sandbox.policy import Policy

PACKET_BYTES = 1 << 16
NONE_GRANTED = "The policy grants no workspaces: Policy(workspaces=…, workspace=Policy(…)) would."
_REPLY_BYTES = 1 << 20  # what `communicate` reads unless told otherwise

_walled = False
_door: socket.socket | None = None
_asking = threading.Lock()  # answers come in the order of the questions: one at a time


def lead_through(door: socket.socket | None) -> None:
    """Behind a wall: from now on workspaces are asked for through ``door``, and without one there are none."""
    global _walled, _door
    _walled, _door = True, door


def is_walled() -> bool:
    """Whether this process is behind a wall, and what its workspaces may do is for its policy to say."""
    return _walled


def workspace(argv: Sequence[str], policy: Policy | None = None) -> Workspace:
    """Start ``argv`` as a sibling behind its own wall; its standard input and output are the workspace's socket.

    Without ``policy`` it has all that the environment's policy grants a workspace. ``with`` ends it::

        with workspace(["/usr/bin/python3", "-c", code]) as run:
            printed = run.communicate()
    """
    if not _walled:
        return _started_here(argv, policy)
    if _door is None:
        raise NotPermitted(NONE_GRANTED)
    asked = {"argv": list(argv), "policy": None if policy is None else policy.to_dict()}
    answer, near = _ask(_door, asked)
    if near is None:
        raise NotPermitted(str(answer.get("refused", "The workspace was refused.")))
    return Workspace(near, int(answer["number"]))


class Workspace:
    """A running program. ``socket`` leads to its standard input and output; ``close`` ends it and all it started."""

    def __init__(self, near: socket.socket, number: int, own: Any = None) -> None:
        self.socket, self._number, self._own = near, number, own
        self.ended: str | None = None  # after close: "exit", "signal", "timeout", "memory", …

    def communicate(self, data: bytes = b"", *, timeout_s: float = 30.0, most: int = _REPLY_BYTES) -> bytes:
        """Send ``data`` and the end of it, and return what the program writes until it ends, ``most`` bytes of it."""
        ends_s, said, unsent = time.monotonic() + timeout_s, bytearray(), memoryview(data)
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
            said += piece
            if not piece or len(said) >= most:
                return bytes(said[:most])

    def close(self) -> str:
        """End it, and say how it ended; safe to call twice."""
        if self.ended is None:
            self.socket.close()
            if self._own is not None:
                self.ended = self._own.end(self._number)
            elif _door is not None:
                self.ended = str(_ask(_door, {"end": self._number})[0].get("ended", "ended"))
            else:
                self.ended = "ended"
        return self.ended

    def __enter__(self) -> Workspace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _ask(door: socket.socket, request: dict[str, Any]) -> tuple[dict[str, Any], socket.socket | None]:
    packet = json.dumps(request).encode()
    if len(packet) > PACKET_BYTES:
        raise NotPermitted(f"A request for a workspace has {len(packet)} bytes; at most {PACKET_BYTES} may go through.")
    try:
        with _asking:
            door.send(packet)
            answer, fds, _, _ = socket.recv_fds(door, PACKET_BYTES, 1)
    except (BrokenPipeError, ConnectionResetError):
        answer, fds = b"", []
    if not answer:
        raise NotPermitted("The door to the trusted side is closed.")
    return json.loads(answer), socket.socket(fileno=fds[0]) if fds else None


def _started_here(argv: Sequence[str], policy: Policy | None) -> Workspace:
    from paddock.sandbox.siblings import Siblings

    granted = policy or Policy(programs=(argv[0],), processes=16)
    siblings = Siblings(Policy(workspaces=1, workspace=granted))
    near, number = siblings.start(list(argv), None)
    return Workspace(near, number, siblings)
