"""Behind the wall: one worker for the sessions of many peers. Only for environments that are paddock's own code.

Each session has a socket of its own, which comes over the control socket, and a Host of its own. They take turns: a
step that never ends holds up all of them, and whoever ends this worker for it ends all of them.
"""

from __future__ import annotations

import os
import select
import signal
import socket
from contextlib import suppress

from paddock.errors import BadFrame
from paddock.hosting.discreet import discreetly_failed
from paddock.hosting.host import Host
from paddock.hosting.messages import Close
from paddock.hosting.serve import Conversation
from paddock.making.inside import build_described
from paddock.sandbox.workspaces import lead_through

_CONTROL_FD = 3
ID_BYTES = 4  # with each socket comes its number, and goes back when its session is over


def main() -> None:
    """Serve until the other side closes the control socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["PADDOCK_CACHE"] = "none"
    lead_through(None)
    with socket.socket(fileno=_CONTROL_FD) as control:
        _Shared(control).run()


class _Shared:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._poll = select.epoll()
        self._poll.register(control.fileno(), select.EPOLLIN)
        self._held: dict[int, tuple[bytes, socket.socket, Conversation]] = {}

    def run(self) -> None:
        control, held, wait = self._control.fileno(), self._held, self._poll.poll
        while True:
            for fd, _ in wait():
                if fd != control:
                    self._go_on(fd, held[fd][2])
                elif not self._begin():
                    return

    def _begin(self) -> bool:
        """Take a new session in; False if there will be none any more."""
        number, fds, _, _ = socket.recv_fds(self._control, ID_BYTES, 1)
        if not number or not fds:
            return False
        far = socket.socket(fileno=fds[0])
        host = Host(build_described, alone=True, failed=discreetly_failed)
        self._held[far.fileno()] = number, far, Conversation(far, host)
        self._poll.register(far.fileno(), select.EPOLLIN)
        return True

    def _go_on(self, fd: int, conversation: Conversation) -> None:
        """Answer one request of a session, then it is the next one's turn."""
        try:
            went_on = conversation.go_on()
            while went_on and not conversation.is_empty:  # poll does not know of what was read already
                went_on = conversation.go_on()
        except (EOFError, OSError, BadFrame):
            went_on = False
        if went_on is False:
            self._end(fd)

    def _end(self, fd: int) -> None:
        number, far, conversation = self._held.pop(fd)
        self._poll.unregister(fd)
        conversation.host.handle(Close())
        far.close()
        with suppress(OSError):
            self._control.sendall(number)
