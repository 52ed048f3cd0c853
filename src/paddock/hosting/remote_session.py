"""RemoteSession: a client's half of a session on a server, as a state machine that blocking and async channels drive.

It numbers requests, keeps what has no reply and sends exactly that again after a broken connection. Nothing here reads
a clock or a socket: ``now``, from any clock that never goes back, is an argument. Hot: ``submit``, ``handle_event``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from math import inf
from typing import TypeAlias

import msgspec

from paddock import errors as e
from paddock.hosting import codec
from paddock.hosting import messages as m
from paddock.hosting.failures import error_classes, to_error
from paddock.hosting.remote_address import SUBPROTOCOLS, WAITING, OtherWire, RemoteAddress, explain_break, is_final
from paddock.hosting.websocket.events import Binary, Closed, Event, Text

WINDOW = 8  # requests without a reply; what every server takes
HEARTBEAT_S = 15.0
CLOSE_GRACE_S = 5.0  # how long an environment may take to close
_BROKEN_GRACE_S = 1.0  # the same without a connection
_BREAKS = 10  # connections in a row that broke before any reply came: some request breaks them all
_FIRST_ROUND = 1 << 31  # for this many requests a number can only mean the request with that count
_ANSWER = "No server answered within {} s. Is it running?"


class Connect(msgspec.Struct, frozen=True):
    """Connect at the time ``at_s``, as attempt ``attempt``; then call ``connected`` or ``handle_break``."""

    attempt: int
    at_s: float


class Send(msgspec.Struct, frozen=True):
    """Send a frame on the connection of this attempt."""

    attempt: int
    frame: bytes


class Disconnect(msgspec.Struct, frozen=True):
    """Close the connection of this attempt; nothing more from it counts."""

    attempt: int


class AskAlive(msgspec.Struct, frozen=True):
    """Ping the server on the connection of this attempt."""

    attempt: int


Command: TypeAlias = "Connect | Send | Disconnect | AskAlive"  # what a channel carries out


class Place(int):
    """How many are ahead in a server's queue. ``wait_s``: about how long that takes; None if it is not known yet."""

    wait_s: float | None

    def __new__(cls, ahead: int, wait_s: float | None = None) -> Place:
        place = super().__new__(cls, ahead)
        place.wait_s = wait_s
        return place


OnWait: TypeAlias = Callable[[Place], object]


class Patience(msgspec.Struct, frozen=True):
    """How long to keep trying. Times in seconds."""

    first_s: float = 0.05  # before the second attempt; twice as long before each further one
    longest_s: float = 5.0
    begin_s: float = 15.0  # for a first connection: from the start to the Welcome
    resume_s: float = 60.0  # for getting a session back
    # For one attempt to reach the server, or to get a session back: some may be lost on their way. A server that has
    # accepted a new client is there, and perhaps busy: another attempt would cost the client its place.
    handshake_s: float = 5.0


def frame_of(message: m.Message, number: int) -> bytes:
    """A message's frame in one piece."""
    return b"".join(codec.encode(message, number))


def split_frame(beginning: memoryview) -> int:
    """Where the body of a frame begins, so that it gets memory of its own. For ``MessageReader``."""
    try:
        _, head_bytes, _ = codec.decode_prefix(beginning)
    except e.BadFrame:
        return 0
    return codec.PREFIX_BYTES + head_bytes


def _random_jitter() -> float:
    return int.from_bytes(os.urandom(2), "big") / 0xFFFF


class RemoteSession:
    """One session on the server at ``address``. ``heartbeat_s``: silence after which to ping it, None for never.

    The driver calls ``start`` once, carries out the commands that each call returns, and calls ``tick`` at ``due_s``
    and now and then while nothing comes. ``saved``: take over the session of another client, see the property.
    ``on_wait`` is called with its Place while the session is queued. ``wires``: what to speak, of which the
    server chooses ``wire``. ``holder`` is a random name, ``jitter``
    returns random numbers from 0 to 1.
    """

    def __init__(
        self,
        address: RemoteAddress,
        *,
        patience: Patience | None = None,
        heartbeat_s: float | None = HEARTBEAT_S,
        saved: m.Resume | None = None,
        on_wait: OnWait | None = None,
        wires: tuple[str, ...] = SUBPROTOCOLS,
        holder: str | None = None,
        jitter: Callable[[], float] = _random_jitter,
    ) -> None:
        self.address, self.endpoint = address, address.endpoint(subprotocols=(*wires, WAITING))
        self.patience = patience or Patience()
        self._heartbeat_s, self._on_wait = heartbeat_s, on_wait
        self._holder, self._jitter = holder or os.urandom(16).hex(), jitter
        self.wire, self._wires = wires[0], wires
        self._session, self._token = ("", "") if saved is None else (saved.session, saved.token)
        self._newest = 0 if saved is None else saved.last  # how many requests have a number
        self._has_reply_to = self._newest  # the highest count with a reply
        self._takes_over = saved is not None
        self.has_room = saved is None  # whether another request may be submitted before a reply comes
        self._waiting: dict[int, bytes] = {}  # the frames of requests without a reply, by count, oldest first
        self.replies: dict[int, m.StepReply] = {}  # that are here, by number
        self._unwanted: set[int] = set()  # the numbers of requests whose reply is thrown away
        self._attempt = self._failures = self._breaks = 0
        self._connected = False  # the upgrade of this attempt is through
        self.greeted = False  # a Welcome came on the connection of this attempt
        # When to give up this attempt, and the session; never while there is a Welcome.
        self._attempt_ends_s = self._gives_up_s = inf
        self._silent_s: float | None = None  # since when nothing came; None while that is not known
        self._pinged = False
        self._waits_for = _ANSWER  # what a first connection still waits for
        self._refused: e.PaddockError | None = None  # what the server said last instead of welcome
        self._last_problem: BaseException | None = None  # why the last connection ended
        self.over: e.PaddockError | None = None

    @property
    def saved(self) -> m.Resume | None:
        """With this another client can take the session over, once; None before the first Welcome.

        Keep it as secret as the token: anyone who has it has the session.
        """
        if not self._session:
            return None
        # After a take-over, requests that another client sent may still be unanswered.
        last = min(self._has_reply_to, self._last_settled)
        return m.Resume(self._session, self._token, codec.number_on_wire(last), self._holder, self._attempt)

    @property
    def _last_settled(self) -> int:
        """The count up to which this client has nothing to wait for."""
        return next(iter(self._waiting), self._newest + 1) - 1

    @property
    def due_s(self) -> float:
        """When to call ``tick`` at the latest; infinity while there is a connection that has the session."""
        return min(self._gives_up_s, self._attempt_ends_s)

    @property
    def _allowed_s(self) -> float:
        return self.patience.resume_s if self._session else self.patience.begin_s

    def start(self, now: float) -> list[Command]:
        """Begin the session."""
        self._gives_up_s = now + self._allowed_s
        return self._connect(now)

    def _connect(self, at_s: float) -> list[Command]:
        self._attempt += 1
        self.greeted = self._connected = False
        self._attempt_ends_s, self._waits_for = at_s + self.patience.handshake_s, _ANSWER
        return [Connect(self._attempt, at_s)]

    def attempt_s(self, now: float) -> float:
        """How long an attempt that the server has accepted may take, until the Welcome."""
        return self.patience.handshake_s if self._session else self._gives_up_s - now

    def accepted(self, attempt: int) -> None:
        """The server has accepted the connection of this attempt; TLS and the upgrade are still to come.

        The client of a new session makes no further attempt now, but waits as long as it would have tried.
        """
        # Not an answer of the server: that says more than that this attempt was cut short.
        if not isinstance(self._last_problem, e.PaddockError):
            self._last_problem = None
        if attempt == self._attempt and not self._session:
            self._attempt_ends_s = inf
            self._waits_for = "The server accepted the connection, but did not finish the handshake within {} s"

    def connected(self, attempt: int, subprotocol: str | None) -> list[Command]:
        """The connection of this attempt is open, with the subprotocol that the server chose."""
        if attempt != self._attempt or self.over is not None:
            return [Disconnect(attempt)]
        if subprotocol is None:
            text = f"The server at {self.endpoint.display_name} does not speak {' or '.join(self._wires)}."
            return self.end(OtherWire(text, status=101))
        self._silent_s, self._pinged, self._connected, self.wire = None, False, True, subprotocol
        self._waits_for = "The server let this client in, but did not begin a session within {} s"
        return [Send(attempt, frame_of(m.Hello(self.saved), codec.HANDSHAKE))]

    def submit(self, request: m.Request) -> tuple[int, list[Command]]:
        """The request's number, and the commands to carry out. NotTransferable, and no effect, if it can't cross."""
        if self.over is not None:
            raise self.over.with_traceback(None)
        if not self.has_room:
            raise e.NoAsyncCallError(f"{WINDOW} requests have no reply yet. Wait for one first.", "submit")
        count = self._newest + 1
        number = count if count < _FIRST_ROUND else codec.number_on_wire(count)
        frame = b"".join(codec.encode(request, number, limits=m.PEER_LIMITS))
        self._newest = count
        self._waiting[count] = frame
        self.has_room = len(self._waiting) < WINDOW
        return number, [Send(self._attempt, frame)] if self.greeted else []

    def reply(self, number: int) -> m.StepReply | None:
        """The reply to a request, once, if it is here. Raises if there will never be one."""
        reply = self.replies.pop(number, None)
        if reply is None and self.over is not None:
            raise self.over.with_traceback(None)
        return reply

    def is_settled(self, number: int) -> bool:
        """Whether ``reply`` would return a reply, or raise."""
        return number in self.replies or self.over is not None

    def forget(self, number: int) -> None:
        """Stop waiting for this reply: it is thrown away when it comes. The request is still sent again if need be."""
        if self.replies.pop(number, None) is None:
            self._unwanted.add(number)

    def check(self) -> None:
        """Raise what ended the session, if something has."""
        if self.over is not None:
            raise self.over.with_traceback(None)

    def overdue(self, limit_s: float) -> e.DeadlineExceeded:
        """The error for a reply that did not come within so many seconds. It explains a lost connection."""
        text = f"No answer within {limit_s} s."
        if not self.greeted:
            problem = self._last_problem
            why = (getattr(problem, "strerror", None) or problem) if problem is not None else "the connection broke"
            text = f"{text} The server can't be reached: {why}."
        return e.DeadlineExceeded(text)

    def handle_event(self, attempt: int, event: Event, now: float) -> list[Command]:
        """An event other than Closed came on the connection of this attempt. ``reply`` has the replies."""
        if attempt != self._attempt or self.over is not None:
            return []
        self._silent_s = None
        if type(event) is not Binary:
            if type(event) is Text:
                return self.end(e.BadFrame(f"The server at {self.endpoint.display_name} sent text, expected frames."))
            return []
        data = event.data
        if len(data) < codec.PREFIX_BYTES:
            return self.end(e.BadFrame(f"The server sent {len(data)} bytes, which are not a frame."))
        if not self.greeted:
            return self._handshake(data, now)
        count = number = codec.NUMBER.unpack_from(data, codec.NUMBER_AT)[0]
        if self._newest >= _FIRST_ROUND:
            count = codec.nearest_count(number, self._newest)
        if self._waiting.pop(count, None) is None:
            return []  # the request has its reply already
        self.has_room, self._failures, self._breaks = True, 0, 0
        if count > self._has_reply_to:
            self._has_reply_to = count
        if number in self._unwanted:
            self._unwanted.discard(number)
            return []
        try:
            self.replies[number] = _decode(event)
        except e.BadFrame as error:
            return self.end(e.BadFrame(f"The server at {self.endpoint.display_name} broke the protocol: {error}."))
        return []

    def _handshake(self, frame: bytes | bytearray, now: float) -> list[Command]:
        try:
            number, reply = codec.decode_frame(frame)
        except e.BadFrame as error:
            return self.end(error)
        if number == codec.HANDSHAKE and isinstance(reply, m.Waiting) and not self._session:
            lasts = "" if reply.wait_s is None else f", for about {reply.wait_s:.0f} s more"
            queue = f"{reply.ahead} others were ahead in its queue{lasts}"
            self._waits_for = f"The server did not begin a session within {{}} s: {queue}"
            if self._on_wait is not None:
                self._on_wait(Place(reply.ahead, reply.wait_s))
            return []
        if number != codec.HANDSHAKE or not isinstance(reply, (m.Welcome, m.Failed)):
            return self.end(e.BadFrame(f"A {type(reply).__name__} answered the Hello, expected a Welcome."))
        if isinstance(reply, m.Welcome):
            return self._handle_welcome(reply)
        self._refused, known = to_error(reply), error_classes().get(reply.code)
        if known is not None and not known.retryable:
            return self.end(self._refused)
        return [Disconnect(self._attempt), *self._try_again(now)]

    def _handle_welcome(self, welcome: m.Welcome) -> list[Command]:
        last = codec.nearest_count(welcome.last, self._newest)
        if self._session and self._session not in (welcome.session, welcome.was):
            return self.end(e.SessionGone("The server answered with another session than the requested one."))
        if last < self._last_settled:
            before = codec.number_on_wire(self._last_settled)
            text = f"The server knows {welcome.last} requests of this session, but it had taken {before}."
            return self.end(e.WorkerLost(f"{text} Begin a new session."))
        if self._takes_over:
            self._newest, self._takes_over, self.has_room = last, False, True
        self._session, self._token = welcome.session, welcome.token
        self.greeted, self._attempt_ends_s, self._gives_up_s = True, inf, inf
        if not self._waiting:
            self._failures = 0
        return [Send(self._attempt, frame) for frame in self._waiting.values()]

    def handle_break(self, attempt: int, problem: BaseException | Closed, now: float) -> list[Command]:
        """The connection of this attempt ended, or could not be made."""
        if attempt != self._attempt or self.over is not None:
            return []
        error = explain_break(problem, self.endpoint, first=not self._session)
        if error is not None and is_final(error):
            return self.end(error)
        if not (isinstance(problem, TimeoutError) and isinstance(self._last_problem, e.PaddockError)):
            self._last_problem = error if error is not None or isinstance(problem, Closed) else problem
        if self.greeted:
            self._breaks += 1
            if self._breaks >= _BREAKS:
                return self.end(e.Unreachable(f"The connection broke {_BREAKS} times in a row before any reply came."))
        return self._try_again(now)

    def _try_again(self, now: float) -> list[Command]:
        self._gives_up_s = min(self._gives_up_s, now + self._allowed_s)
        if now >= self._gives_up_s:
            return self.end(self._unreachable())
        delay_s = min(self.patience.longest_s, self.patience.first_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return self._connect(now + delay_s * (0.5 + 0.5 * self._jitter()))

    def tick(self, now: float) -> list[Command]:
        """Time has passed: give up what takes too long, and ping a silent server."""
        if self.over is not None:
            return []
        attempt = self._attempt
        if now >= self._gives_up_s:
            return self.end(self._unreachable())
        if now >= self._attempt_ends_s:
            return [Disconnect(attempt), *self._try_again(now)]
        if self._heartbeat_s is None or not self._connected:
            return []
        if self._silent_s is None:
            self._silent_s, self._pinged = now, False
        elif now - self._silent_s >= 2 * self._heartbeat_s:
            return [Disconnect(attempt), *self.handle_break(attempt, TimeoutError("the server does not answer"), now)]
        elif now - self._silent_s >= self._heartbeat_s and not self._pinged:
            self._pinged = True
            return [AskAlive(attempt)]
        return []

    def _unreachable(self) -> e.PaddockError:
        """The error to give up with: what the server said last, if it said something."""
        if self._session:
            text = f"The server could not be reached for {self._allowed_s:g} s; it drops its sessions by then."
            return e.SessionGone(text)
        text, last = self._waits_for.format(f"{self._allowed_s:g}"), self._last_problem
        if self._waits_for is not _ANSWER:
            text += ". Allow a busy one more time with connect_s. Does it speak http or https, as the URL says?"
        error = self._refused or e.Unreachable(text)
        if isinstance(last, e.PaddockError):
            return last if isinstance(error, e.Unreachable) or last.code == error.code else error
        if isinstance(last, OSError) and isinstance(error, e.Unreachable):
            return e.Unreachable(f"{error} ({last.strerror or last})")
        return error

    def leave_by_s(self, now: float, ends_s: float) -> float:
        """Until when to wait for the reply to Close: not for long without a connection, the server may be gone."""
        return ends_s if self.greeted else min(ends_s, now + _BROKEN_GRACE_S)

    def end(self, error: e.PaddockError) -> list[Command]:
        """End the session for this client, now; requests without a reply and later ones fail with ``error``."""
        if self.over is not None:
            return []
        self.over, self.greeted, self._attempt_ends_s, self._gives_up_s = error, False, inf, inf
        return [Disconnect(self._attempt)]

    def kill(self, reason: str | None, cause: str | None) -> e.WorkerLost:
        """End the session because the environment is given up; returns what later calls will raise."""
        if isinstance(self.over, e.WorkerLost):
            return self.over
        text = f"The environment at {self.address} {reason or 'was given up'}."
        lost = e.WorkerLost(text, cause=cause or "ended")
        self.end(lost)
        return lost


def _decode(event: Binary) -> m.StepReply:
    data, rest = event.data, event.rest
    _, head_bytes, body_bytes = codec.decode_prefix(data)
    at = codec.PREFIX_BYTES + head_bytes
    if rest is None:
        head, body = data[codec.PREFIX_BYTES : at], bytearray(data[at:])
    else:  # any writable buffer serves as a bytearray
        head, body = data[codec.PREFIX_BYTES :], rest  # type: ignore[assignment]
    if len(head) != head_bytes or len(body) != body_bytes:
        raise e.BadFrame(f"a body of {body_bytes} bytes was announced, got {len(body)}")
    message = codec.decode(head, body)
    if not isinstance(message, (m.Rows, m.Done, m.Failed)):
        raise e.BadFrame(f"a {type(message).__name__} is not a reply")
    return message
