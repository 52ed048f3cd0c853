"""Sessions for peers that do not speak the seam's protocol: this server is their client.

``LocalClient`` translates nothing: it sends requests and checks replies. ``HttpSessions`` are opened over HTTP and used
by their id; no connection keeps them alive.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from paddock.errors import BadFrame, EnvironmentViolation, PaddockError, RateLimited, SessionGone, Unreachable
from paddock.hosting import messages as m
from paddock.hosting.codec import decode_frame, encode, number_on_wire
from paddock.hosting.judge import Judge
from paddock.hosting.openenv.http_bodies import openenv_metadata
from paddock.hosting.untrusted import is_open_object
from paddock.server.auth import Passes, Principal, tenant_of
from paddock.server.http import Request, Response
from paddock.server.live_session import LiveSession
from paddock.server.served_env import ServedEnv
from paddock.server.service import Service

SESSION_HEADER = "x-paddock-session"
_MOST_WAITING = 64  # requests of one session

Take = Callable[[m.Reply], Any]
OnEnd = Callable[[str, str], Any]

audit = logging.getLogger("paddock.audit")


class HttpSessions:
    """Sessions by id, each for the principal who opened it. When the server is full, the longest idle one is ended.

    ``on_end`` are called with the id of each session that is over.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._sessions: dict[str, LocalClient] = {}
        self.on_end: list[Callable[[str], None]] = []

    async def open(self, served: ServedEnv, principal: Principal) -> LocalClient:
        """Open a session and make its environment. If it is cancelled meanwhile, nothing is left behind."""
        gone = asyncio.Event()
        opening = asyncio.ensure_future(
            self._service.open(served, principal, journaled=False, wanted=lambda: not gone.is_set())
        )
        try:
            live = await asyncio.shield(opening)
        except asyncio.CancelledError:
            gone.set()
            opening.add_done_callback(_close_session)
            raise
        number, id = self._service.next_connection(), live.session.id
        client = LocalClient(number, live, lambda code, reason: self._forget(id, code, reason))
        self._sessions[id] = client
        live.attach(number, client)
        try:
            reply = await self.ask(client, m.Make(0, {}))
            if isinstance(reply, m.Failed):
                raise Unreachable("The environment could not be made.")
        except BaseException:
            client.leave()
            raise
        return client

    async def ask(self, client: LocalClient, request: m.Request, *, begins: bool = False) -> m.Reply:
        """Return the reply to a request. Until it is there, the session is not evicted.

        ``begins``: a step in an environment that was never reset begins an episode first.
        """
        if client.waiting >= _MOST_WAITING:
            raise RateLimited("Too many requests of this session are waiting.")
        answered: asyncio.Future[m.Reply] = asyncio.get_running_loop().create_future()
        client.live.evictable = False

        def take(reply: m.Reply) -> None:
            if not answered.done():
                answered.set_result(reply)

        if begins and isinstance(request, m.Step):
            client.act(request, take)
        else:
            client.ask(request, take)
        try:
            return await answered
        finally:
            unused = client.on_attached_end is None and not client.pinned and not client.waiting
            client.live.evictable = unused and client.live.session.id in self._sessions

    def find(self, id: str, served: ServedEnv, principal: Principal) -> LocalClient | None:
        """Return the session with this id to whoever opened it or has a pass for it."""
        client = self._sessions.get(id)
        return None if self._service.session(id, principal, served) is None else client

    def attach(self, id: str, served: ServedEnv, principal: Principal, on_end: OnEnd) -> LocalClient | str:
        """Give a websocket sole use of a session, or say why it may not have it."""
        client = self.find(id, served, principal)
        if client is None:
            return f"Unknown session_id: {id[:100]}"
        if client.on_attached_end is not None:
            return f"Session {id} already has an attached WebSocket"
        client.on_attached_end, client.live.evictable = on_end, False
        return client

    def detach(self, client: LocalClient) -> None:
        """Detach a websocket that is gone. The session stays, unless it is waiting to be closed."""
        if client.live.session.id in self._sessions:
            client.on_attached_end, client.live.evictable = None, not client.pinned
            if client.closing:
                client.leave()

    def pin(self, id: str) -> None:
        """Never evict this session: someone else relies on it. It still ends if it is silent for too long."""
        client = self._sessions[id]
        client.pinned, client.live.evictable = True, False

    def close(self, id: str, served: ServedEnv, principal: Principal) -> Literal["closed", "closing", "unknown"]:
        """End a session for whoever opened it; if a websocket is attached, once that goes."""
        client = self.find(id, served, principal)
        if client is None or client.live.principal != principal.name:
            return "unknown"
        if client.on_attached_end is not None:
            client.closing = True
            return "closing"
        client.leave()
        return "closed"

    def _forget(self, id: str, code: str, reason: str) -> None:
        client = self._sessions.pop(id, None)
        for on_end in self.on_end:
            on_end(id)
        if client is not None and client.on_attached_end is not None:
            client.on_attached_end(code, reason)


def _close_session(opening: asyncio.Future[LiveSession]) -> None:
    """Close a session that was opened although nobody waits for it any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close(SessionGone.code, "The client disconnected before the session was ready.")


class Handover:
    """An operator hands an HTTP session to an agent, with a pass for nothing else, and watches its episode.

    Only for HTTP sessions: one with a connection of its own has room for one client.
    """

    def __init__(self, sessions: HttpSessions, passes: Passes) -> None:
        self._sessions, self._passes = sessions, passes
        sessions.on_end.append(passes.end)

    def answer(self, served: ServedEnv, principal: Principal, request: Request) -> Response:
        """Answer a POST with a pass for the session that the header names, a GET with how its episode goes."""
        named = request.headers.get(SESSION_HEADER)
        if named is None:
            return Response.of({"detail": f"The header {SESSION_HEADER} must name a session."}, 400)
        client = self._sessions.find(named, served, principal)
        if client is None:
            raise SessionGone("You have no such session. POST /mcp opens one, and so does POST /reset.")
        id = client.live.session.id
        if request.method != "POST":
            return Response.of({"session": id, **client.episode.summary()})
        self._sessions.pin(id)
        audit.info("handed over %s by %s", id[:8], principal.name)
        token = self._passes.issue(id, tenant_of(principal.name))
        return Response.of({"token": token, "mcp": f"/{quote(served.name, safe='')}/mcp"})


class LocalClient:
    """The server as the client of one session. One request is sent at a time, so that replies can't be mixed up.

    A worker's replies are checked before they are passed on. ``on_end`` is called once, when the session is over.
    """

    def __init__(self, connection: int, live: LiveSession, on_end: OnEnd) -> None:
        self._connection, self.live, self.on_end = connection, live, on_end
        about = live.served.described
        self._wall = Judge(about.observation_space, live.served.rules)
        # Written for OpenEnv: its actions and observations are JSON objects, and stay JSON on their way.
        self._json = openenv_metadata(about.metadata) is not None and is_open_object(about.observation_space)
        self._count = 0
        self._pending: tuple[m.Request, Take] | None = None
        self._waiting: deque[tuple[m.Request, Take]] = deque()
        self._over: m.Failed | None = None
        self._beginning = False
        self.episode = Episode()
        # Of an HTTP session:
        self.on_attached_end: OnEnd | None = None  # of the websocket that is attached to it, if one is
        self.closing = False  # as soon as that websocket goes
        self.pinned = False  # never evicted, however long it is idle

    @property
    def waiting(self) -> int:
        return len(self._waiting) + (self._pending is not None)

    def ask(self, request: m.Request, take: Take) -> None:
        """Send a request; ``take`` always gets a reply, now or later."""
        if self._over is not None:
            take(self._over)
        elif self._pending is not None:
            self._waiting.append((request, take))
        else:
            self._send(request, take)

    def act(self, step: m.Step, take: Take) -> None:
        """Like ``ask``, but the first step of an environment that was never reset begins an episode before it."""
        if self.episode.begun or self._beginning:
            self.ask(step, take)
            return

        def step_on(reply: m.Reply) -> None:
            self._beginning = False
            if isinstance(reply, m.Failed):
                take(reply)
            else:
                self.ask(step, take)

        self._beginning = True
        self.ask(m.Reset(0), step_on)

    def _send(self, request: m.Request, take: Take) -> None:
        try:
            frame = b"".join(encode(self._for_worker(request), number_on_wire(self._count + 1)))
        except PaddockError as error:  # the peer's data can't be sent to another process
            take(m.Failed(error.code, str(error)))
            return
        self._count += 1
        self._pending = request, take
        self.live.request(self._connection, frame, final=isinstance(request, m.Close))

    def _for_worker(self, request: m.Request) -> m.Request | m.StepJson:
        if self._json and type(request) is m.Step and request.actions is not None:
            action = msgspec.json.encode(request.actions[0])
            if len(action) <= m.JSON_BYTES:
                return m.StepJson(action)
        return request

    def send(self, frame: bytes) -> None:
        """Take a frame of the session: the reply to the pending request, or the Welcome."""
        try:
            number, message = decode_frame(frame, limits=self.live.served.rules.frames)
        except BadFrame:
            self.live.close(BadFrame.code, "The worker broke the protocol.")
            return
        if self._pending is None or number != number_on_wire(self._count):
            return
        (request, take), self._pending = self._pending, None
        reply = self._check(request, message)
        self.episode.note(request, reply)
        take(reply)
        while self._waiting and self._pending is None:
            self._send(*self._waiting.popleft())

    def _check(self, request: m.Request, reply: Any) -> m.Reply:
        try:
            if type(reply) is m.Outcome and self._json and type(request) is m.Step:
                return m.Done([list(self._wall.outcome(reply))])
            if isinstance(reply, m.Failed) or not isinstance(reply, m.Done):
                broken = m.Failed(BadFrame.code, "The worker broke the protocol.")
                return reply if isinstance(reply, m.Failed) else broken
            value = reply.value
            if isinstance(request, m.Step):
                failed = isinstance(value, list) and len(value) == 1 and isinstance(value[0], m.Failed)
                return m.Done(value if failed else [list(self._wall.step(value))])
            if isinstance(request, m.Reset):
                return m.Done(list(self._wall.reset(value)))
            if isinstance(request, m.State):
                return m.Done(self._wall.state(value))
            return m.Done(None if isinstance(request, (m.Make, m.Close)) else self._wall.value(value, "reply"))
        except EnvironmentViolation as error:
            self.live.close(error.code, "The environment broke its own declarations.")
            return m.Failed(error.code, f"The environment broke its own declarations at {error.path}.")

    def end(self, code: str, reason: str) -> None:
        """The session is over: answer every request that still waits."""
        if self._over is not None:
            return
        self._over = m.Failed(code or SessionGone.code, reason)
        pending = [] if self._pending is None else [self._pending]
        unanswered, self._pending = [*pending, *self._waiting], None
        self._waiting.clear()
        for _, take in unanswered:
            take(self._over)
        self.on_end(code, reason)

    def leave(self) -> None:
        self.live.closed(self._connection, done=True)
        self.end(SessionGone.code, "The session was closed.")


class Episode:
    """What requests and replies tell of a session's episode. ``first`` is its first observation. Hot: once per step."""

    __slots__ = ("begun", "first", "steps", "terminated", "total", "truncated")

    terminated: bool
    truncated: bool

    def __init__(self) -> None:
        self.begun = False
        self._begin(None)

    def _begin(self, first: Any) -> None:
        self.first, self.steps, self.total = first, 0, 0.0
        self.terminated = self.truncated = False

    def note(self, request: m.Request, reply: m.Reply) -> None:
        if not isinstance(reply, m.Done):
            return
        if type(request) is m.Step:
            value = reply.value[0]
            if type(value) is list:
                _, reward, self.terminated, self.truncated, _ = value
                self.steps += 1
                self.total += float(reward)
        elif type(request) is m.Reset:
            self.begun = True
            self._begin(reply.value[0])

    def summary(self) -> dict[str, Any]:
        return {
            "begun": self.begun,
            "steps": self.steps,
            "return": self.total,
            "terminated": bool(self.terminated),
            "truncated": bool(self.truncated),
        }
