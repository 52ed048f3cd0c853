"""InnerClient: this server's own hand on a session, for peers who speak another protocol than the seam's."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from paddock.errors import BadFrame, EnvironmentViolation, PaddockError, SessionGone
from paddock.hosting import messages as m
from paddock.hosting.codec import decode_frame, encode
from paddock.hosting.numbering import on_wire
from paddock.hosting.wall import Wall
from paddock.server.episode import Episode
from paddock.server.live_session import LiveSession

Take = Callable[[m.Reply], Any]
OnEnd = Callable[[str, str], Any]


class InnerClient:
    """Requests in, replies to whoever asked. One is on its way at a time, so that a reply can't be taken for another.

    What a worker says is checked before it is passed on. ``on_end`` is told once, when the session is over.
    """

    def __init__(self, connection: int, live: LiveSession, on_end: OnEnd) -> None:
        self._connection, self.live, self.on_end = connection, live, on_end
        self._wall = Wall(live.served.described.observation_space, live.served.rules)
        self._count = 0
        self._asked: tuple[m.Request, Take] | None = None
        self._waiting: deque[tuple[m.Request, Take]] = deque()
        self._over: m.Failed | None = None
        self._beginning = False
        self.episode = Episode()

    @property
    def waiting(self) -> int:
        """How many requests have no reply yet."""
        return len(self._waiting) + (self._asked is not None)

    def ask(self, request: m.Request, take: Take) -> None:
        """Carry a request out; ``take`` gets the reply, now or later, and always."""
        if self._over is not None:
            take(self._over)
        elif self._asked is not None:
            self._waiting.append((request, take))
        else:
            self._put(request, take)

    def act(self, step: m.Step, take: Take) -> None:
        """As ``ask``; the first step of an environment that nobody has reset begins an episode before it."""
        if self.episode.begun or self._beginning:
            self.ask(step, take)
            return

        def begun(reply: m.Reply) -> None:
            self._beginning = False
            if isinstance(reply, m.Failed):
                take(reply)
            else:
                self.ask(step, take)

        self._beginning = True
        self.ask(m.Reset(0), begun)

    def _put(self, request: m.Request, take: Take) -> None:
        try:
            frame = b"".join(encode(request, on_wire(self._count + 1)))
        except PaddockError as error:  # the peer's data has no form between processes
            take(m.Failed(error.code, str(error)))
            return
        self._count += 1
        self._asked = request, take
        self.live.request(self._connection, frame, final=isinstance(request, m.Close))

    def send(self, frame: bytes) -> None:
        """A frame of the session's: the reply to what was asked, or its welcome."""
        try:
            number, message = decode_frame(frame, limits=self.live.served.rules.frames)
        except BadFrame:
            self.live.close(BadFrame.code, "The worker broke the protocol.")
            return
        if self._asked is None or number != on_wire(self._count):
            return
        (request, take), self._asked = self._asked, None
        reply = self._checked(request, message)
        self.episode.note(request, reply)
        take(reply)
        while self._waiting and self._asked is None:
            self._put(*self._waiting.popleft())

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
        """The session is over; whoever still waits is told so."""
        if self._over is not None:
            return
        self._over = m.Failed(code or SessionGone.code, reason)
        asked = [] if self._asked is None else [self._asked]
        unanswered, self._asked = [*asked, *self._waiting], None
        self._waiting.clear()
        for _, take in unanswered:
            take(self._over)
        self.on_end(code, reason)

    def leave(self) -> None:
        """Take leave: the session ends with its one client."""
        self.live.closed(self._connection, done=True)
        self.end(SessionGone.code, "The session was closed.")
