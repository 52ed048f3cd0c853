"""ResumingClient: a client's half of a session, as a pure state machine that blocking and async channels drive.

It numbers requests, keeps what has no reply and sends exactly that again after a broken connection; a reply is matched
by its number and never taken for another's. A reader would get wrong: a request whose deadline has passed is still the
server's next one, so it is sent again too, and its late reply thrown away.

Nothing here reads a clock, a socket or a random number: ``now`` (any clock that never goes back), ``jitter`` (0 to 1)
and ``holder`` (a random name) are given.
"""

from __future__ import annotations

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
from paddock.hosting.codec import PREFIX_BYTES, decode_frame, encode
from paddock.hosting.failure import to_error
from paddock.hosting.messages import Failed, Hello, Message, Resume, Waiting, Welcome
from paddock.hosting.numbering import HANDSHAKE, nearest, number_of, on_wire

WINDOW = 8  # requests without a reply; what every server takes
_FIRST_ROUND = 1 << 31  # requests, while a number that is not the count of one that waits can't be near one
_ANSWER = "No server answered within {} s. Is it running?"
_FINAL = {code: cls for cls, code, retryable, _ in table() if not retryable}


class Connect(msgspec.Struct, frozen=True):
    """Connect at the time ``at_s``, as attempt ``attempt``; then tell ``connected`` or ``disconnected``."""

    attempt: int
    at_s: float


class Send(msgspec.Struct, frozen=True):
    """Send a frame on the connection of this attempt."""

    attempt: int
    frame: bytes


class Disconnect(msgspec.Struct, frozen=True):
    """Close the connection of this attempt; nothing more of it counts."""

    attempt: int


class Answer(msgspec.Struct, frozen=True):
    """The reply to a request."""

    number: int
    frame: bytes


class TimedOut(msgspec.Struct, frozen=True):
    """Nobody waits any more for the reply to this request."""

    number: int


class Queued(msgspec.Struct, frozen=True):
    """The server starts the session when its turn comes; so many others are before it."""

    ahead: int


class GiveUp(msgspec.Struct, frozen=True):
    """The session is over for this client. Every request without a reply, and every later one, fails with this."""

    error: PaddockError


Action: TypeAlias = "Connect | Send | Disconnect | Answer | TimedOut | Queued | GiveUp"


class Patience(msgspec.Struct, frozen=True):
    """How long to go on trying. Times in seconds."""

    first_s: float = 0.05  # before the second attempt; twice as long before each further one
    longest_s: float = 5.0
    begin_s: float = 15.0  # for a first connection: from the start to the Welcome
    resume_s: float = 60.0  # for getting a session back
    # For one attempt to reach the server, or to get a session back: some of them may be lost on their way. A server
    # that has accepted a new client is there, and perhaps busy: coming again would cost the client its place.
    handshake_s: float = 5.0


class _Waiting(msgspec.Struct):
    """A request without a reply."""

    frame: bytes
    deadline_s: float | None
    wanted: bool = True


class ResumingClient:
    """One session with a server. ``saved``: take over a session that another client left (see ``saved``).

    The driver calls ``start`` once, carries out the actions that each call returns, and calls ``tick`` at ``due_s``.
    """

    def __init__(
        self, holder: str, *, patience: Patience | None = None, window: int = WINDOW, saved: Resume | None = None
    ) -> None:
        self._patience, self._window = patience or Patience(), window
        self._refused: PaddockError | None = None  # what the server said last instead of welcome
        self._holder = holder
        self._session, self._token = ("", "") if saved is None else (saved.session, saved.token)
        self._newest = 0 if saved is None else saved.last  # how many requests were numbered
        self.next_number = on_wire(self._newest + 1)  # the number that the next request must be encoded with
        self._has_reply_to = self._newest  # the highest count with a reply
        self._takes_over = saved is not None
        self._waiting: dict[int, _Waiting] = {}  # by count, oldest first
        self._attempt = 0
        self._failures = 0
        self._waits_for = _ANSWER  # what a first connection has not got yet
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
        last = min(self._has_reply_to, self._settled)
        return Resume(self._session, self._token, on_wire(last), self._holder, self._attempt)

    @property
    def _settled(self) -> int:
        """The count up to which this client has nothing to wait for."""
        return next(iter(self._waiting), self._newest + 1) - 1

    @property
    def due_s(self) -> float | None:
        """When ``tick`` has something to do, unless another event comes before."""
        if self.over is not None:
            return None
        dues = [asked.deadline_s for asked in self._waiting.values() if asked.wanted and asked.deadline_s is not None]
        if self._down_s is not None:
            dues.append(self._down_s + self._allowed_s)
        if self._connecting_s is not None:
            dues.append(self._connecting_s + self._patience.handshake_s)
        return min(dues, default=None)

    @property
    def _allowed_s(self) -> float:
        return self._patience.resume_s if self._session else self._patience.begin_s

    def start(self, now: float) -> list[Action]:
        """Begin the session."""
        self._down_s = now
        return self._connect(now)

    def _connect(self, at_s: float) -> list[Action]:
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

        A new session's client does not come again now, but waits as long as it would try.
        """
        if attempt == self._attempt and not self._session:
            self._connecting_s = None
            self._waits_for = "The server accepted the connection, but did not finish the handshake within {} s"

    def connected(self, attempt: int) -> list[Action]:
        """The connection of this attempt is there."""
        if attempt != self._attempt or self.over is not None:
            return [Disconnect(attempt)]
        self._waits_for = "The server let this client in, but began no session within {} s"
        hello = Hello(self.saved)
        return [Send(attempt, b"".join(encode(hello, HANDSHAKE)))]

    def disconnected(self, attempt: int, now: float, jitter: float, *, code: str = "") -> list[Action]:
        """A connection broke, or could not be made. ``code``: the one that the server closed it with, if it did."""
        if attempt != self._attempt or self.over is not None:
            return []
        if code in _FINAL:
            return self._give_up(to_error(Failed(code, "The server ended the connection.")))
        return self._try_again(now, jitter)

    def _try_again(self, now: float, jitter: float) -> list[Action]:
        if self._down_s is None:
            self._down_s = now
        if now >= self._down_s + self._allowed_s:
            return self._give_up(self._unreachable())
        delay_s = min(self._patience.longest_s, self._patience.first_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return self._connect(now + delay_s * (0.5 + 0.5 * jitter))

    def submit(self, frame: bytes, *, deadline_s: float | None = None) -> list[Action]:
        """A request, encoded with ``next_number``; ``deadline_s``: the time until which its reply is of use."""
        if self.over is not None:
            raise self.over
        if len(self._waiting) >= self._window or self._takes_over:
            raise NoAsyncCallError(f"{self._window} requests have no reply yet. Wait for one first.", "submit")
        if number_of(frame) != self.next_number:
            raise BadFrame(f"A request with the number {number_of(frame)}, expected {self.next_number}.")
        self._newest = count = self._newest + 1
        self.next_number = on_wire(count + 1)
        self._waiting[count] = _Waiting(frame, deadline_s)
        return [Send(self._attempt, frame)] if self._greeted else []

    def received(self, attempt: int, frame: bytes, now: float, jitter: float) -> list[Action]:
        """A frame came on the connection of this attempt."""
        if attempt != self._attempt or self.over is not None:
            return []
        if len(frame) < PREFIX_BYTES:
            return self._give_up(BadFrame(f"The server sent {len(frame)} bytes, which are no frame."))
        if not self._greeted:
            return self._handshake(frame, now, jitter)
        count = number = number_of(frame)
        if self._newest >= _FIRST_ROUND:
            count = nearest(number, self._newest)
        asked = self._waiting.pop(count, None)
        if asked is None:
            return []  # of a request that has its reply already
        self._failures = 0
        if count > self._has_reply_to:
            self._has_reply_to = count
        return [Answer(number, frame)] if asked.wanted else []

    def _handshake(self, frame: bytes, now: float, jitter: float) -> list[Action]:
        try:
            number, reply = decode_frame(frame)
        except BadFrame as error:
            return self._give_up(error)
        if number == HANDSHAKE and isinstance(reply, Waiting) and not self._session:
            self._waits_for = f"The server began no session within {{}} s: {reply.ahead} others were ahead in its queue"
            return [Queued(reply.ahead)]
        if number != HANDSHAKE or not isinstance(reply, (Welcome, Failed)):
            return self._give_up(BadFrame(f"A {type(reply).__name__} answered the Hello, expected a Welcome."))
        if isinstance(reply, Failed):
            if reply.code in _FINAL:
                return self._give_up(to_error(reply))
            self._refused = to_error(reply)
            return [Disconnect(self._attempt), *self._try_again(now, jitter)]
        return self._welcomed(reply)

    def _welcomed(self, welcome: Welcome) -> list[Action]:
        last = nearest(welcome.last, self._newest)
        if self._session and welcome.session != self._session:
            return self._give_up(SessionGone("The server answered with another session than the one asked for."))
        if last < self._settled:
            text = f"The server knows {welcome.last} requests of this session, it had taken {on_wire(self._settled)}."
            return self._give_up(WorkerLost(f"{text} Begin a new session."))
        if self._takes_over:
            self._newest, self._takes_over = last, False
            self.next_number = on_wire(last + 1)
        self._session, self._token = welcome.session, welcome.token
        self._greeted, self._connecting_s, self._down_s = True, None, None
        if not self._waiting:
            self._failures = 0
        return [Send(self._attempt, asked.frame) for asked in self._waiting.values()]

    def tick(self, now: float, jitter: float) -> list[Action]:
        """Time has passed. Call it when ``due_s`` is reached; earlier does no harm."""
        if self.over is not None:
            return []
        actions: list[Action] = []
        for count, asked in self._waiting.items():
            if asked.wanted and asked.deadline_s is not None and now >= asked.deadline_s:
                asked.wanted = False
                actions.append(TimedOut(on_wire(count)))
        if self._down_s is not None and now >= self._down_s + self._allowed_s:
            return actions + self._give_up(self._unreachable())
        if self._connecting_s is not None and now >= self._connecting_s + self._patience.handshake_s:
            actions += [Disconnect(self._attempt), *self._try_again(now, jitter)]
        return actions

    def close(self) -> list[Action]:
        """End the session for this client; safe to call twice."""
        if self.over is not None:
            return []
        self.over = ClosedEnvironmentError("This session is closed. Begin a new one.")
        return [Disconnect(self._attempt)]

    def _unreachable(self) -> PaddockError:
        if self._session:
            return SessionGone(
                f"The server could not be reached for {self._allowed_s:g} s; its sessions are gone then."
            )
        if self._refused is not None:  # it answered, each time that it takes nobody now
            return self._refused
        text = self._waits_for.format(f"{self._allowed_s:g}")
        return Unreachable(text if self._waits_for is _ANSWER else f"{text}. It is busy: allow more with connect_s.")

    def _give_up(self, error: PaddockError) -> list[Action]:
        self.over = error
        self._greeted = False
        return [Disconnect(self._attempt), GiveUp(error)]


def frame_of(message: Message, number: int) -> bytes:
    """A message as one piece, which is what ``submit`` keeps."""
    return b"".join(encode(message, number))
