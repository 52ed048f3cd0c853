"""Gateway: spread connections over servers, as a pure state machine. Each method is an event and returns commands.

A session's id ends with the mark of its server, so a gateway has no table of sessions: any gateway with the same
servers finds each of them. Only a session that was moved to another server before its first step is remembered, by the
gateway that moved it. Nothing here reads a clock, a socket or a random number.
"""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from paddock.errors import BadFrame, Unreachable
from paddock.hosting.codec import HANDSHAKE, PREFIX_BYTES, decode_frame, number_of
from paddock.hosting.failures import error_classes
from paddock.hosting.messages import PEER_LIMITS, Call, Failed, Hello, Make, Reset, Resume, Waiting, Welcome
from paddock.hosting.remote_session import frame_of
from paddock.server.journal import digest
from paddock.server.processes import MARK_CHARACTERS

_AGAIN = frozenset((404, 502, 503, 507))  # another server may accept what this one refused with such a status
_MOVES = 3  # of one session
_FRAMES, _FRAMES_BYTES = 8, 1 << 20  # that are kept of a young session, to be repeated elsewhere
_MOVED = 10_000  # moved sessions that are remembered
_LOST = "The server of this session does not answer. Try again later."


class Dial(msgspec.Struct, frozen=True):
    """Connect this flow to a server, in place of any before, and ask for its websocket: ``reached``, ``unreached``."""

    flow: int
    server: int


class Accept(msgspec.Struct, frozen=True):
    """Pass the server's 101 to the client. ``native``: report its messages, and those of the server."""

    flow: int
    native: bool


class Refuse(msgspec.Struct, frozen=True):
    """Answer the client's request for a websocket with the last server's refusal; with a 503 if there was none."""

    flow: int


class ToServer(msgspec.Struct, frozen=True):
    """Send a message to the flow's server."""

    flow: int
    frame: bytes


class ToClient(msgspec.Struct, frozen=True):
    """Send a message to the client."""

    flow: int
    frame: bytes


class Splice(msgspec.Struct, frozen=True):
    """Copy bytes both ways from now on, without a look at them, until either end goes."""

    flow: int


class Drop(msgspec.Struct, frozen=True):
    """Close what is open of a flow, after what was sent is out. It is forgotten: report nothing more of it."""

    flow: int


Command: TypeAlias = "Dial | Accept | Refuse | ToServer | ToClient | Splice | Drop"


class _Phase(enum.Enum):
    ASKING = enum.auto()  # no server has accepted the websocket yet
    HELLO = enum.auto()  # one has, and the client's first message is to come
    OPENING = enum.auto()  # a new session: until the Welcome
    RESUMING = enum.auto()
    YOUNG = enum.auto()  # a session without a step: it may still be moved
    MOVING = enum.auto()  # its server was lost; until another one's Welcome
    CHECKING = enum.auto()  # until that one has given the answers that the client has
    SPLICED = enum.auto()


_MOVABLE = (_Phase.YOUNG, _Phase.CHECKING)


class _Flow(msgspec.Struct):
    """One connection of a client, and the server's that goes with it."""

    native: bool
    phase: _Phase = _Phase.ASKING
    server: int | None = None
    reached: bool = False  # that server has accepted the websocket; until then nothing is sent to it
    fixed: bool = False  # its session is on this server, so no other will do
    tried: set[int] = msgspec.field(default_factory=set)
    hello: bytes = b""  # to send once a server has accepted
    session: str = ""  # as the client knows it
    token: str = ""
    frames: list[bytes] = msgspec.field(default_factory=list)  # of a young session
    late: list[bytes] = msgspec.field(default_factory=list)  # that came while it was being moved
    replies: dict[int, bytes] = msgspec.field(default_factory=dict)  # digests of those that the client has, by number
    unchecked: set[int] = msgspec.field(default_factory=set)  # of these, what a new server has not given yet
    moves: int = 0
    now: tuple[str, str] = ("", "")  # the session that it was moved to, and that one's token


class _Moved(msgspec.Struct, frozen=True):
    """Where a session is now. ``spent``: the token that the client got from its first server.

    Before its first step the client is made to resume, and learns the new session's name from the Welcome. So if this
    gateway is lost instead, it resumes the first session, and never has both step.
    """

    session: str
    spent: str
    token: str


class Server(msgspec.Struct):
    """A server as this gateway knows it. ``load``: connections through this gateway."""

    name: str
    drained: bool = False  # by the operator: no new sessions
    ready: bool = False
    mark: str | None = None
    load: int = 0


class Gateway:
    """``servers``: their names. Those in ``drained`` get no new sessions, only what belongs to their old ones."""

    def __init__(self, servers: Sequence[str], *, drained: Iterable[str] = ()) -> None:
        out = frozenset(drained)
        self.servers = [Server(name, drained=name in out) for name in servers]
        self._marks: dict[str, int] = {}
        self._flows: dict[int, _Flow] = {}
        self._moved: OrderedDict[str, _Moved] = OrderedDict()
        self.counts: Counter[str] = Counter()  # what happened, for metrics

    # Servers

    def checked(self, server: int, *, ready: bool, mark: str | None = None) -> None:
        """A health check came back. ``mark``: what the server's session ids end with; None if it did not answer."""
        one = self.servers[server]
        one.ready = ready
        if mark is not None and mark != one.mark:
            if one.mark is not None and self._marks.get(one.mark) == server:
                del self._marks[one.mark]
            one.mark, self._marks[mark] = mark, server

    def holder(self, session: str) -> int | None:
        """Return which server has the session with this id, or the pass that begins with it."""
        return self._marks.get(session[32 - MARK_CHARACTERS : 32])

    def choose(self, tried: Iterable[int] = ()) -> int | None:
        """Return the server for something new: of those that are ready the one with the least load."""
        loads = [(one.load, at) for at, one in enumerate(self.servers) if one.ready and not one.drained]
        return min((one for one in loads if one[1] not in tried), default=(0, None))[1]

    @property
    def knows_all(self) -> bool:
        """Whether every server has told its mark: a session that none of them has is gone."""
        return all(one.mark is not None for one in self.servers)

    @property
    def flows(self) -> int:
        """How many connections there are."""
        return len(self._flows)

    # Connections

    def arrive(self, flow: int, *, native: bool, session: str | None = None) -> list[Command]:
        """A client asks for a websocket. ``native``: of paddock's own protocol. ``session``: that it names already."""
        one = self._flows[flow] = _Flow(native)
        holder = None if session is None else self.holder(session)
        one.fixed = holder is not None
        return self._dial(flow, one, self.choose() if holder is None else holder)

    def _dial(self, flow: int, one: _Flow, server: int | None) -> list[Command]:
        if server is None:
            return self._give_up(flow, one)
        self._leave(one)
        one.server, one.reached = server, False
        one.tried.add(server)
        self.servers[server].load += 1
        return [Dial(flow, server)]

    def _leave(self, one: _Flow) -> None:
        if one.server is not None:
            self.servers[one.server].load -= 1
            one.server = None

    def _next(self, flow: int, one: _Flow) -> list[Command]:
        """Try another server: nothing was done yet that can't be done there."""
        self.counts["retried"] += not one.fixed
        return self._dial(flow, one, None if one.fixed else self.choose(one.tried))

    def _give_up(self, flow: int, one: _Flow) -> list[Command]:
        """No server will do. A client that has its session tries again, as after any broken connection."""
        phase = one.phase
        self.counts["refused"] += 1
        self._forget(flow)
        if phase is _Phase.ASKING:
            return [Refuse(flow)]
        if phase in (_Phase.OPENING, _Phase.RESUMING):
            return [ToClient(flow, frame_of(Failed(Unreachable.code, _LOST), HANDSHAKE)), Drop(flow)]
        return [Drop(flow)]

    def _forget(self, flow: int) -> None:
        one = self._flows.pop(flow, None)
        if one is not None:
            self._leave(one)

    def reached(self, flow: int, status: int) -> list[Command]:
        """The flow's server answered the request for a websocket."""
        one = self._flows.get(flow)
        if one is None:
            return []
        if status != 101:
            if one.phase is not _Phase.ASKING or (
                status in _AGAIN and not one.fixed and self.choose(one.tried) is not None
            ):
                return self._next(flow, one)
            return self._give_up(flow, one)
        one.reached = True
        if one.phase is not _Phase.ASKING:
            return [ToServer(flow, one.hello)] if one.hello else []
        one.phase = _Phase.HELLO if one.native else _Phase.SPLICED
        self.counts["connected"] += 1
        return [Accept(flow, one.native)] if one.native else [Accept(flow, False), Splice(flow)]

    def unreached(self, flow: int) -> list[Command]:
        """The flow's server can't be reached: it gets nothing new until a health check succeeds."""
        one = self._flows.get(flow)
        if one is None or one.server is None:
            return []
        self.servers[one.server].ready = False
        return self._next(flow, one)

    def client_gone(self, flow: int) -> list[Command]:
        """The client's connection has ended."""
        if flow not in self._flows:
            return []
        self._forget(flow)
        return [Drop(flow)]

    def server_gone(self, flow: int) -> list[Command]:
        """The server's connection has ended, or the server is about to end it."""
        one = self._flows.get(flow)
        if one is None:
            return []
        if one.phase in _MOVABLE and one.moves < _MOVES:
            one.moves += 1
            one.phase, one.hello = _Phase.MOVING, frame_of(Hello(None), HANDSHAKE)
            one.tried = set() if one.server is None else {one.server}
            return self._dial(flow, one, self.choose(one.tried))
        if one.phase in (_Phase.HELLO, _Phase.OPENING, _Phase.MOVING) and not one.fixed:
            return self._next(flow, one)
        self._forget(flow)
        return [Drop(flow)]

    def may_move(self, flow: int) -> bool:
        """Whether the flow's server may still be replaced by another, so that its Close need not reach the client."""
        one = self._flows.get(flow)
        return one is not None and not one.fixed and one.phase in (*_MOVABLE, _Phase.HELLO, _Phase.MOVING)

    # Messages, until a flow is spliced

    def client_frame(self, flow: int, data: bytes) -> list[Command]:
        """A message of a native client arrived."""
        one = self._flows.get(flow)
        if one is None:
            return []
        if one.phase is _Phase.HELLO:
            return self._hello(flow, one, data)
        if one.phase in (_Phase.MOVING, _Phase.CHECKING) and len(one.late) < 2 * _FRAMES:
            one.late.append(data)
            return []
        if one.phase is not _Phase.YOUNG:  # a client says nothing between its Hello and the Welcome
            self._forget(flow)
            return [Drop(flow)]
        if not _repeatable(data) or len(one.frames) == _FRAMES or _size(one.frames) + len(data) > _FRAMES_BYTES:
            return self._first_step(flow, one, data)
        one.frames.append(data)
        return [ToServer(flow, data)]

    def _first_step(self, flow: int, one: _Flow, data: bytes) -> list[Command]:
        if one.now[0]:
            self._forget(flow)
            return [Drop(flow)]  # the client resumes where the session is now, and sends this again
        return [ToServer(flow, data), *self.splice(flow)]

    def splice(self, flow: int) -> list[Command]:
        """The session has begun to step, or its messages are too large to be looked at: it stays where it is."""
        one = self._flows.get(flow)
        if one is None:
            return []
        if one.phase is not _Phase.YOUNG:
            self._forget(flow)
            return [Drop(flow)]
        one.phase = _Phase.SPLICED
        one.frames, one.replies = [], {}
        return [Splice(flow)]

    def _hello(self, flow: int, one: _Flow, data: bytes) -> list[Command]:
        try:
            _, hello = decode_frame(data, limits=PEER_LIMITS)
        except BadFrame:
            hello = None
        if not isinstance(hello, Hello) or hello.resume is None:  # the server says what is wrong with another message
            one.phase, one.hello = _Phase.OPENING, data
            return [ToServer(flow, data)] if one.reached else []
        resume = hello.resume
        moved = self._moved.get(resume.session)
        one.phase, one.session, one.hello, one.fixed = _Phase.RESUMING, resume.session, data, True
        if moved is not None:
            token = moved.token if resume.token == moved.spent else resume.token
            resume = Resume(moved.session, token, resume.last, resume.holder, resume.attempt)
            one.hello = frame_of(Hello(resume), HANDSHAKE)
        holder = self.holder(resume.session)
        if holder is None and not self.knows_all:
            return self._give_up(flow, one)  # perhaps on a server that has not been up since this gateway began
        if holder is None or holder == one.server:
            return [ToServer(flow, one.hello)] if one.reached else []
        return self._dial(flow, one, holder)

    def server_frame(self, flow: int, data: bytes) -> list[Command]:
        """A message of the flow's server arrived."""
        one = self._flows.get(flow)
        if one is None:
            return []
        if one.phase in _MOVABLE:
            return self._reply(flow, one, data)
        try:
            number, message = decode_frame(data)
        except BadFrame:
            number, message = -1, None
        if number != HANDSHAKE or not isinstance(message, (Waiting, Welcome, Failed)):
            self._forget(flow)
            return [Drop(flow)]
        if isinstance(message, Welcome):
            return self._welcome(flow, one, message, data)
        if isinstance(message, Waiting):
            return [] if one.phase is _Phase.MOVING else [ToClient(flow, data)]
        if one.phase is _Phase.MOVING or (one.phase is _Phase.OPENING and self._other_may_accept(one, message)):
            return self._next(flow, one)
        return [ToClient(flow, data)]

    def _other_may_accept(self, one: _Flow, failed: Failed) -> bool:
        known = error_classes().get(failed.code)
        return known is not None and known.retryable and self.choose(one.tried) is not None

    def _welcome(self, flow: int, one: _Flow, welcome: Welcome, data: bytes) -> list[Command]:
        if one.phase is _Phase.RESUMING:
            one.phase = _Phase.SPLICED
            if welcome.session != one.session and one.session in self._moved:
                data = frame_of(msgspec.structs.replace(welcome, was=one.session), HANDSHAKE)
            return [ToClient(flow, data), Splice(flow)]
        if one.phase is _Phase.OPENING:
            self.counts["opened"] += 1
            one.phase, one.session, one.token = _Phase.YOUNG, welcome.session, welcome.token
            return [ToClient(flow, data)]
        one.phase, one.now, one.unchecked = _Phase.CHECKING, (welcome.session, welcome.token), set(one.replies)
        return [*(ToServer(flow, frame) for frame in one.frames), *self._settle(flow, one)]

    def _settle(self, flow: int, one: _Flow) -> list[Command]:
        """Once the new server has given every answer that the client has, the session is there."""
        if one.unchecked:
            return []
        self.counts["moved"] += 1
        self._moved[one.session] = _Moved(one.now[0], one.token, one.now[1])
        if len(self._moved) > _MOVED:
            self._moved.popitem(last=False)
        one.phase = _Phase.YOUNG
        late, one.late = one.late, []
        return [command for frame in late for command in self.client_frame(flow, frame)]

    def _reply(self, flow: int, one: _Flow, data: bytes) -> list[Command]:
        number = number_of(data) if len(data) >= PREFIX_BYTES else HANDSHAKE
        if number == HANDSHAKE and one.phase is _Phase.YOUNG:  # it says what is wrong with what was not a request
            return [ToClient(flow, data)]
        before, reply = one.replies.get(number), digest(data)
        if before is None and number != HANDSHAKE:
            one.replies[number] = reply
            return [ToClient(flow, data)]
        if before == reply:  # repeated by the server that the session was moved to
            one.unchecked.discard(number)
            return self._settle(flow, one) if one.phase is _Phase.CHECKING else []
        # The client has another answer than this environment gave: it must not go on with this one.
        self.counts["lost"] += 1
        self._forget(flow)
        return [Drop(flow)]


def _repeatable(data: bytes) -> bool:
    """Whether a request may be carried out again in another session, since it takes no step."""
    try:
        _, request = decode_frame(data, limits=PEER_LIMITS)
    except BadFrame:
        return False
    return isinstance(request, (Make, Reset)) or (isinstance(request, Call) and request.name == "reset")


def _size(frames: list[bytes]) -> int:
    return sum(map(len, frames))
