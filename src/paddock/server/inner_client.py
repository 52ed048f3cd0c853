"""InnerClient: this server's own hand on a session, for peers who speak another protocol than the seam's."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from paddock.errors import BadFrame, EnvironmentViolation, SessionGone
from paddock.hosting import messages as m
from paddock.hosting.codec import decode_frame, encode
from paddock.hosting.numbering import on_wire
from paddock.hosting.wall import Wall
from paddock.server.live_session import LiveSession

Take = Callable[[m.Reply], Any]


class InnerClient:
    """Requests in, replies to whoever asked, in order. What a worker says is checked before it is passed on."""

    def __init__(self, connection: int, live: LiveSession, on_end: Callable[[str, str], Any]) -> None:
        self._connection, self.live, self._on_end = connection, live, on_end
        self._wall = Wall(live.served.described.observation_space, live.served.rules)
        self._count = 0
        self._asked: deque[tuple[m.Request, Take]] = deque()

    def ask(self, request: m.Request, take: Take) -> None:
        """Carry a request out; ``take`` gets the reply, now or later."""
        self._count += 1
        self._asked.append((request, take))
        frame = b"".join(encode(request, on_wire(self._count)))
        self.live.request(self._connection, frame, final=isinstance(request, m.Close))

    def send(self, frame: bytes) -> None:
        """A frame of the session's: the reply to the oldest request, or its welcome."""
        try:
            number, message = decode_frame(frame, limits=self.live.served.rules.frames)
        except BadFrame:
            self.live.close(BadFrame.code, "The worker broke the protocol.")
            return
        if number == 0 or not self._asked:
            return
        request, take = self._asked.popleft()
        take(self._checked(request, message))

    def _checked(self, request: m.Request, reply: Any) -> m.Reply:
        if isinstance(reply, m.Failed) or not isinstance(reply, m.Done):
            return reply if isinstance(reply, m.Failed) else m.Failed(BadFrame.code, "The worker broke the protocol.")
        try:
            return m.Done(self._value(request, reply.value))
        except EnvironmentViolation as error:
            self.live.close(error.code, "The environment broke its own declarations.")
            return m.Failed(error.code, f"The environment broke its own declarations at {error.path}.")

    def _value(self, request: m.Request, value: Any) -> Any:
        if isinstance(request, m.Step):
            if isinstance(value, list) and len(value) == 1 and isinstance(value[0], m.Failed):
                return value
            return [list(self._wall.step(value))]
        if isinstance(request, m.Reset):
            return list(self._wall.reset(value))
        if isinstance(request, m.State):
            return self._wall.state(value)
        return None if isinstance(request, (m.Make, m.Close)) else self._wall.value(value, "reply")

    def end(self, code: str, reason: str) -> None:
        """The session is over."""
        asked, self._asked = self._asked, deque()
        for _, take in asked:
            take(m.Failed(code or SessionGone.code, reason))
        self._on_end(code, reason)

    def leave(self) -> None:
        """Take leave: the session ends with its one client."""
        self.live.closed(self._connection, done=True)
