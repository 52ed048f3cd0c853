"""A client's half of a remote session, as pure state machines that blocking and async channels drive.

ResumingClient numbers requests, keeps what has no reply and sends exactly that again after a broken connection.
RemoteSession adds what a channel needs: requests to bytes, bytes to replies, errors that a user can act on, and whether
a silent server is still there. Nothing here reads a clock, a socket or a random number: ``now`` (any clock that never
goes back), ``jitter`` (0 to 1) and ``holder`` (a random name) are arguments. Hot: ``submit`` and ``received``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import msgspec

from paddock.errors import (
    BadFrame,
    ClosedEnvironmentError,
    NoAsyncCallError,
    PaddockError,
    SessionGone,
    Unreachable,
    WorkerLost,
    table,
)
from paddock.hosting.codec import (
    HANDSHAKE,
    PREFIX_BYTES,
    decode,
    decode_frame,
    decode_prefix,
    encode,
    nearest_count,
    number_of,
    number_on_wire,
)
from paddock.hosting.failures import to_error
from paddock.hosting.messages import (
    LIMITS,
    PEER_LIMITS,
    Done,
    Failed,
    Hello,
    Limits,
    Message,
    Request,
    Resume,
    Rows,
    StepReply,
    Waiting,
    Welcome,
)
from paddock.hosting.remote_address import SUBPROTOCOLS, WAITING, OtherWire, explain_break, final_error, is_final
from paddock.hosting.websocket.endpoint import Endpoint
from paddock.hosting.websocket.events import Binary, Closed, Event, Text

WINDOW = 8  # requests without a reply; what every server takes
_FIRST_ROUND = 1 << 31  # for this many requests a number can only mean the request with that count
_ANSWER = "No server answered within {} s. Is it running?"
_FINAL = {code: cls for cls, code, retryable, _ in table() if not retryable}


class Connect(msgspec.Struct, frozen=True):
    """Connect at the time ``at_s``, as attempt ``attempt``; then call ``connected`` or ``disconnected``."""

    attempt: int
    at_s: float


class Send(msgspec.Struct, frozen=True):
    """Send a frame on the connection of this attempt."""

    attempt: int
    frame: bytes


class Disconnect(msgspec.Struct, frozen=True):
    """Close the connection of this attempt; nothing more from it counts."""

    attempt: int


class Answer(msgspec.Struct, frozen=True):
    """The reply to a request."""

    number: int
    frame: bytes


class TimedOut(msgspec.Struct, frozen=True):
    """The deadline of this request is over; its reply will be thrown away."""

    number: int


class Queued(msgspec.Struct, frozen=True):
    """The server has queued the session; ``ahead`` others are before it."""

    ahead: int


class GiveUp(msgspec.Struct, frozen=True):
    """The session is over for this client. Every request without a reply, and every later one, fails with ``error``."""

    error: PaddockError


ClientCommand: TypeAlias = "Connect | Send | Disconnect | Answer | TimedOut | Queued | GiveUp"


class Patience(msgspec.Struct, frozen=True):
    """How long to keep trying. Times in seconds."""

    first_s: float = 0.05  # before the second attempt; twice as long before each further one
    longest_s: float = 5.0
    begin_s: float = 15.0  # for a first connection: from the start to the Welcome
    resume_s: float = 60.0  # for getting a session back
    # For one attempt to reach the server, or to get a session back: some may be lost on their way. A server that has
    # accepted a new client is there, and perhaps busy: another attempt would cost the client its place.
    handshake_s: float = 5.0


class _Unanswered(msgspec.Struct):
    """A request without a reply."""

    frame: bytes
    deadline_s: float | None
    wanted: bool = True


class ResumingClient:
    """One session with a server. ``saved``: take over a session that another client left (see ``saved``).

    The driver calls ``start`` once, carries out the commands that each call returns, and calls ``tick`` at ``due_s``. A
    reply is matched by its number and never taken for another request's. A request whose
    deadline has passed is still the server's next one, so it is sent again too, and its late reply thrown away.
    """

    def __init__(
        self, holder: str, *, patience: Patience | None = None, window: int = WINDOW, saved: Resume | None = None
    ) -> None:
        self._patience, self._window = patience or Patience(), window
        self._refused: PaddockError | None = None  # what the server said last instead of welcome
        self._holder = holder
        self._session, self._token = ("", "") if saved is None else (saved.session, saved.token)
        self._newest = 0 if saved is None else saved.last  # how many requests have a number
        self.next_number = number_on_wire(self._newest + 1)  # the number that the next request must be encoded with
        self._has_reply_to = self._newest  # the highest count with a reply
        self._takes_over = saved is not None
        self._waiting: dict[int, _Unanswered] = {}  # by count, oldest first
        self._attempt = 0
        self._failures = 0
        self._waits_for = _ANSWER  # what a first connection still waits for
        self._greeted = False  # a Welcome came on the connection of this attempt
        self._connecting_s: float | None = None  # when this attempt began
        self._down_s: float | None = None  # since when there is no connection with a Welcome
        self.over: PaddockError | None = None

    @property
    def has_room(self) -> bool:
        """Whether another request may be submitted before a reply comes."""
        return len(self._waiting) < self._window and not self._takes_over

    @property
    def greeted(self) -> bool:
        """Whether there is a connection that has the session."""
        return self._greeted

    @property
    def saved(self) -> Resume | None:
        """What another client needs to take the session over; None before the first Welcome."""
        if not self._session:
            return None
        # After a take-over, requests that another client sent may still be unanswered.
        last = min(self._has_reply_to, self._last_settled)
        return Resume(self._session, self._token, number_on_wire(last), self._holder, self._attempt)

    @property
    def _last_settled(self) -> int:
        """The count up to which this client has nothing to wait for."""
        return next(iter(self._waiting), self._newest + 1) - 1

    @property
    def due_s(self) -> float | None:
        """When to call ``tick``, unless another event comes first."""
        if self.over is not None:
            return None
        dues = [one.deadline_s for one in self._waiting.values() if one.wanted and one.deadline_s is not None]
        if self._down_s is not None:
            dues.append(self._down_s + self._allowed_s)
        if self._connecting_s is not None:
            dues.append(self._connecting_s + self._patience.handshake_s)
        return min(dues, default=None)

    @property
    def _allowed_s(self) -> float:
        return self._patience.resume_s if self._session else self._patience.begin_s

    def start(self, now: float) -> list[ClientCommand]:
        """Begin the session."""
        self._down_s = now
        return self._connect(now)

    def _connect(self, at_s: float) -> list[ClientCommand]:
        self._attempt += 1
        self._greeted, self._connecting_s, self._waits_for = False, at_s, _ANSWER
        return [Connect(self._attempt, at_s)]

    def attempt_s(self, now: float) -> float:
        """How long an attempt that the server has accepted may take, until the Welcome."""
        if self._session or self._down_s is None:
            return self._patience.handshake_s
        return self._down_s + self._allowed_s - now

    def accepted(self, attempt: int) -> None:
        """The server has accepted the connection of this attempt; TLS and the upgrade are still to come.

        The client of a new session makes no further attempt now, but waits as long as it would have tried.
        """
        if attempt == self._attempt and not self._session:
            self._connecting_s = None
            self._waits_for = "The server accepted the connection, but did not finish the handshake within {} s"

    def connected(self, attempt: int) -> list[ClientCommand]:
        """The connection of this attempt is open."""
        if attempt != self._attempt or self.over is not None:
            return [Disconnect(attempt)]
        self._waits_for = "The server let this client in, but did not begin a session within {} s"
        hello = Hello(self.saved)
        return [Send(attempt, b"".join(encode(hello, HANDSHAKE)))]

    def disconnected(self, attempt: int, now: float, jitter: float, *, code: str = "") -> list[ClientCommand]:
        """A connection broke, or could not be made. ``code``: the one that the server closed it with, if it did."""
        if attempt != self._attempt or self.over is not None:
            return []
        if code in _FINAL:
            return self._give_up(to_error(Failed(code, "The server ended the connection.")))
        return self._try_again(now, jitter)

    def _try_again(self, now: float, jitter: float) -> list[ClientCommand]:
        if self._down_s is None:
            self._down_s = now
        if now >= self._down_s + self._allowed_s:
            return self._give_up(self._unreachable())
        delay_s = min(self._patience.longest_s, self._patience.first_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return self._connect(now + delay_s * (0.5 + 0.5 * jitter))

    def submit(self, frame: bytes, *, deadline_s: float | None = None) -> list[ClientCommand]:
        """Submit a request, encoded with ``next_number``. ``deadline_s``: until when its reply is wanted."""
        if self.over is not None:
            raise self.over
        if len(self._waiting) >= self._window or self._takes_over:
            raise NoAsyncCallError(f"{self._window} requests have no reply yet. Wait for one first.", "submit")
        if number_of(frame) != self.next_number:
            raise BadFrame(f"A request with the number {number_of(frame)}, expected {self.next_number}.")
        self._newest = count = self._newest + 1
        self.next_number = number_on_wire(count + 1)
        self._waiting[count] = _Unanswered(frame, deadline_s)
        return [Send(self._attempt, frame)] if self._greeted else []

    def received(self, attempt: int, frame: bytes, now: float, jitter: float) -> list[ClientCommand]:
        """A frame came on the connection of this attempt."""
        if attempt != self._attempt or self.over is not None:
            return []
        if len(frame) < PREFIX_BYTES:
            return self._give_up(BadFrame(f"The server sent {len(frame)} bytes, which are not a frame."))
        if not self._greeted:
            return self._handshake(frame, now, jitter)
        count = number = number_of(frame)
        if self._newest >= _FIRST_ROUND:
            count = nearest_count(number, self._newest)
        pending = self._waiting.pop(count, None)
        if pending is None:
            return []  # the request has its reply already
        self._failures = 0
        if count > self._has_reply_to:
            self._has_reply_to = count
        return [Answer(number, frame)] if pending.wanted else []

    def _handshake(self, frame: bytes, now: float, jitter: float) -> list[ClientCommand]:
        try:
            number, reply = decode_frame(frame)
        except BadFrame as error:
            return self._give_up(error)
        if number == HANDSHAKE and isinstance(reply, Waiting) and not self._session:
            queue = f"{reply.ahead} others were ahead in its queue"
            self._waits_for = f"The server did not begin a session within {{}} s: {queue}"
            return [Queued(reply.ahead)]
        if number != HANDSHAKE or not isinstance(reply, (Welcome, Failed)):
            return self._give_up(BadFrame(f"A {type(reply).__name__} answered the Hello, expected a Welcome."))
        if isinstance(reply, Failed):
            if reply.code in _FINAL:
                return self._give_up(to_error(reply))
            self._refused = to_error(reply)
            return [Disconnect(self._attempt), *self._try_again(now, jitter)]
        return self._handle_welcome(reply)

    def _handle_welcome(self, welcome: Welcome) -> list[ClientCommand]:
        last = nearest_count(welcome.last, self._newest)
        if self._session and welcome.session != self._session:
            return self._give_up(SessionGone("The server answered with another session than the requested one."))
        if last < self._last_settled:
            before = number_on_wire(self._last_settled)
            text = f"The server knows {welcome.last} requests of this session, but it had taken {before}."
            return self._give_up(WorkerLost(f"{text} Begin a new session."))
        if self._takes_over:
            self._newest, self._takes_over = last, False
            self.next_number = number_on_wire(last + 1)
        self._session, self._token = welcome.session, welcome.token
        self._greeted, self._connecting_s, self._down_s = True, None, None
        if not self._waiting:
            self._failures = 0
        return [Send(self._attempt, pending.frame) for pending in self._waiting.values()]

    def tick(self, now: float, jitter: float) -> list[ClientCommand]:
        """Time has passed. Call it when ``due_s`` is reached; earlier does no harm."""
        if self.over is not None:
            return []
        commands: list[ClientCommand] = []
        for count, pending in self._waiting.items():
            if pending.wanted and pending.deadline_s is not None and now >= pending.deadline_s:
                pending.wanted = False
                commands.append(TimedOut(number_on_wire(count)))
        if self._down_s is not None and now >= self._down_s + self._allowed_s:
            return commands + self._give_up(self._unreachable())
        if self._connecting_s is not None and now >= self._connecting_s + self._patience.handshake_s:
            commands += [Disconnect(self._attempt), *self._try_again(now, jitter)]
        return commands

    def close(self) -> list[ClientCommand]:
        """End the session for this client; safe to call twice."""
        if self.over is not None:
            return []
        self.over = ClosedEnvironmentError("This session is closed. Begin a new one.")
        return [Disconnect(self._attempt)]

    def _unreachable(self) -> PaddockError:
        if self._session:
            return SessionGone(
                f"The server could not be reached for {self._allowed_s:g} s; it drops its sessions by then."
            )
        if self._refused is not None:  # it answered each time that it takes no clients now
            return self._refused
        text = self._waits_for.format(f"{self._allowed_s:g}")
        return Unreachable(
            text
            if self._waits_for is _ANSWER
            else f"{text}. Allow a busy one more time with connect_s. Does it speak http or https, as the URL says?"
        )

    def _give_up(self, error: PaddockError) -> list[ClientCommand]:
        self.over = error
        self._greeted = False
        return [Disconnect(self._attempt), GiveUp(error)]


def frame_of(message: Message, number: int) -> bytes:
    """A message's frame in one piece, as ``submit`` takes it."""
    return b"".join(encode(message, number))


HEARTBEAT_S = 15.0
CLOSE_GRACE_S = 5.0  # how long an environment may take to close
_BROKEN_GRACE_S = 1.0  # the same without a connection
_BREAKS = 10  # connections in a row that broke before any reply came: some request breaks them all


class AskAlive(msgspec.Struct, frozen=True):
    """Ping the server on the connection of this attempt."""

    attempt: int


OnWait: TypeAlias = Callable[[int], object]  # how many are ahead in a server's queue
Command: TypeAlias = "Connect | Send | Disconnect | AskAlive"  # what a channel carries out


def split_frame(beginning: memoryview) -> int:
    """Where the body of a frame begins, so that it gets memory of its own. For ``MessageReader``."""
    try:
        _, head_bytes, _ = decode_prefix(beginning[:PREFIX_BYTES])
    except BadFrame:
        return 0
    return PREFIX_BYTES + head_bytes


class RemoteSession:
    """One session on the server at ``endpoint``. ``heartbeat_s``: silence after which to ping it, None for never.

    ``on_wait`` is called with how many are ahead while the session is queued.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        holder: str,
        *,
        patience: Patience | None = None,
        heartbeat_s: float | None = HEARTBEAT_S,
        limits: Limits = LIMITS,
        saved: Resume | None = None,
        on_wait: OnWait | None = None,
    ) -> None:
        self._on_wait, self.limits = on_wait, limits
        self.endpoint = replace(endpoint, subprotocols=(*endpoint.subprotocols, WAITING))
        self._client = ResumingClient(holder, patience=patience, saved=saved)
        self._heartbeat_s = heartbeat_s
        self._attempt = 0
        self._silent_s: float | None = None  # since when nothing came; None while that is not known
        self._pinged = False
        self._connected = False  # the upgrade of this attempt is through
        self._breaks = 0
        self._last_problem: BaseException | None = None
        self._replies: dict[int, StepReply] = {}
        self._unwanted: set[int] = set()
        self.over: PaddockError | None = None

    @property
    def has_room(self) -> bool:
        """Whether another request may be submitted before a reply comes."""
        return self._client.has_room

    @property
    def greeted(self) -> bool:
        """Whether there is a connection that has the session."""
        return self._client.greeted

    @property
    def outage(self) -> str:
        """A sentence on why there is no connection, to go after another one; nothing if there is one."""
        if self._client.greeted:
            return ""
        problem = self._last_problem
        why = (getattr(problem, "strerror", None) or problem) if problem is not None else "the connection broke"
        return f" The server can't be reached: {why}."

    @property
    def due_s(self) -> float | None:
        """When to call ``tick`` at the latest."""
        return self._client.due_s

    @property
    def saved(self) -> Resume | None:
        """What another client needs to take the session over. Keep it secret: anyone who has it has the session."""
        return self._client.saved

    def start(self, now: float) -> list[Command]:
        """Begin the session."""
        return self._for_driver(self._client.start(now))

    def submit(self, request: Request) -> tuple[int, list[Command]]:
        """The request's number, and the commands to carry out. NotTransferable, and no effect, if it can't cross."""
        if self.over is not None:
            raise self.over.with_traceback(None)
        number = self._client.next_number
        frame = b"".join(encode(request, number, limits=PEER_LIMITS))
        # The only command is a Send.
        return number, self._client.submit(frame)  # type: ignore[return-value]

    def reply(self, number: int) -> StepReply | None:
        """The reply to a request, once, if it is here. Raises if there will never be one."""
        reply = self._replies.pop(number, None)
        if reply is None and self.over is not None:
            raise self.over.with_traceback(None)
        return reply

    def is_settled(self, number: int) -> bool:
        """Whether ``reply`` would return a reply, or raise."""
        return number in self._replies or self.over is not None

    def forget(self, number: int) -> None:
        """Stop waiting for this reply: it is thrown away when it comes."""
        if self._replies.pop(number, None) is None:
            self._unwanted.add(number)

    def attempt_s(self, now: float) -> float:
        """How long an attempt may take once the server has accepted it."""
        return self._client.attempt_s(now)

    def accepted(self, attempt: int) -> None:
        """The server has accepted the connection of this attempt; TLS and the upgrade are still to come."""
        if not isinstance(self._last_problem, PaddockError):  # an answer says more than that this attempt was cut short
            self._last_problem = None
        self._client.accepted(attempt)

    def connected(self, attempt: int, subprotocol: str | None) -> list[Command]:
        """The connection of this attempt is open, with the subprotocol that the server chose."""
        if subprotocol is None:
            text = f"The server at {self.endpoint.display_name} speaks neither {' nor '.join(SUBPROTOCOLS)}."
            return self._end(OtherWire(text, status=101))
        self._silent_s, self._pinged, self._connected = None, False, True
        return self._for_driver(self._client.connected(attempt))

    def handle_event(self, attempt: int, event: Event, now: float, jitter: float) -> list[Command]:
        """An event came on the connection of this attempt."""
        self._silent_s = None
        if type(event) is Binary:
            return self._handle_binary(attempt, event, now, jitter)
        if type(event) is Closed:
            return self.handle_break(attempt, event, now, jitter)
        if type(event) is Text:
            return self._end(BadFrame(f"The server at {self.endpoint.display_name} sent text, expected frames."))
        return []

    def _handle_binary(self, attempt: int, event: Binary, now: float, jitter: float) -> list[Command]:
        commands = self._client.received(attempt, event.data, now, jitter)  # type: ignore[arg-type]  # it is only read
        if len(commands) == 1 and type(command := commands[0]) is Answer:
            self._breaks, number = 0, command.number
            if number in self._unwanted:
                self._unwanted.discard(number)
                return []
            try:
                self._replies[number] = self._decode(event)
            except BadFrame as error:
                return self._end(BadFrame(f"The server at {self.endpoint.display_name} broke the protocol: {error}."))
            return []
        return self._for_driver(commands)

    def _decode(self, event: Binary) -> StepReply:
        data, rest = event.data, event.rest
        if rest is None:
            message: Message = decode_frame(data, limits=self.limits)[1]
        else:
            _, head_bytes, body_bytes = decode_prefix(data[:PREFIX_BYTES], limits=self.limits)
            if len(data) != PREFIX_BYTES + head_bytes or len(rest) != body_bytes:
                raise BadFrame(f"a frame with a body of {body_bytes} bytes was announced, got {len(rest)}")
            # Any writable buffer serves as a bytearray there.
            message = decode(data[PREFIX_BYTES:], rest, limits=self.limits)  # type: ignore[arg-type]
        if not isinstance(message, (Rows, Done, Failed)):
            raise BadFrame(f"a {type(message).__name__} is not a reply")
        return message

    def handle_break(self, attempt: int, problem: BaseException | Closed, now: float, jitter: float) -> list[Command]:
        """The connection of this attempt ended, or could not be made."""
        if attempt != self._attempt or self.over is not None:
            return []
        error = explain_break(problem, self.endpoint, first=self._client.saved is None)
        if error is not None and is_final(error):
            return self._end(error)
        if not (isinstance(problem, TimeoutError) and isinstance(self._last_problem, PaddockError)):
            self._last_problem = error if error is not None or isinstance(problem, Closed) else problem
        if self._client.greeted:
            self._breaks += 1
            if self._breaks >= _BREAKS:
                text = f"The connection broke {_BREAKS} times in a row before any reply came."
                return self._end(Unreachable(text))
        return self._for_driver(self._client.disconnected(attempt, now, jitter))

    def silent(self, now: float, jitter: float) -> list[Command]:
        """Nothing came for a while: ping the server, and give up a connection on which a ping is not answered."""
        if self._heartbeat_s is None or not self._connected:
            return []
        if self._silent_s is None:
            self._silent_s, self._pinged = now, False
        elif now - self._silent_s >= 2 * self._heartbeat_s:
            attempt = self._attempt
            problem = TimeoutError("the server does not answer")
            return [Disconnect(attempt), *self.handle_break(attempt, problem, now, jitter)]
        elif now - self._silent_s >= self._heartbeat_s and not self._pinged:
            self._pinged = True
            return [AskAlive(self._attempt)]
        return []

    def leave_by_s(self, now: float, ends_s: float) -> float:
        """Until when to wait for the reply to Close: not for long without a connection, the server may be gone."""
        return ends_s if self._client.greeted else min(ends_s, now + _BROKEN_GRACE_S)

    def tick(self, now: float, jitter: float) -> list[Command]:
        """Time has passed."""
        return self._for_driver(self._client.tick(now, jitter))

    def end(self, error: PaddockError) -> list[Command]:
        """End the session for this client, now; later requests fail with ``error``."""
        return self._end(error) if self.over is None else []

    def _end(self, error: PaddockError) -> list[Command]:
        self.over = error
        return [command for command in self._client.close() if type(command) is Disconnect]

    def _for_driver(self, commands: Sequence[ClientCommand]) -> list[Command]:
        """The commands that a driver carries out; the session keeps what the others say."""
        for_driver: list[Command] = []
        for command in commands:
            if type(command) is Send or type(command) is Disconnect:
                for_driver.append(command)
            elif type(command) is Connect:
                self._attempt, self._connected = command.attempt, False
                for_driver.append(command)
            elif type(command) is Queued and self._on_wait is not None:
                self._on_wait(command.ahead)
            elif type(command) is GiveUp:
                self.over = final_error(command.error, self._last_problem)
        return for_driver
