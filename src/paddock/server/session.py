"""Session: what a server promises one client, as a pure state machine. Each method is an event and returns commands.

A request is carried out at most once and its reply never changes; after a loss every answer says so. Nothing here
reads a clock, a socket or a random number. Requests are counted without end inside but
numbered with 32 bits on the wire (``numbering``), and whatever comes from any connection but the newest is ignored.
Hot: ``request`` and ``worker_replied`` run once per step.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, replace
from hmac import compare_digest
from math import inf
from typing import TypeAlias

import msgspec

from paddock.errors import (
    ClosedEnvironmentError,
    DeadlineExceeded,
    Draining,
    IdempotencyConflict,
    OutOfOrder,
    SessionGone,
    Superseded,
    WorkerLost,
)
from paddock.hosting.codec import HANDSHAKE, nearest_count, number_of, number_on_wire
from paddock.hosting.messages import Failed, Resume, Welcome
from paddock.hosting.remote_session import frame_of
from paddock.server.journal import Attached, Carried, Closed, Entry, Recovered, Replay, digest, extend_chain

# How a worker can be lost, in one word.
OVERDUE = "overdue"  # a request took longer than its deadline; its answer says so
CAUSES = frozenset(("exit", "signal", "memory", "cpu", "protocol", "closed", "ended", "violation", "timeout", OVERDUE))
CAUSES |= {"replay", "restart"}  # a rebuild led to another chain; a server went down with the environment


@dataclass(frozen=True)
class SessionLimits:
    """How much is kept for a session, and for how long. Times in seconds.

    A lost worker can be rebuilt if the session is both ``journaled`` and ``deterministic``.
    """

    window: int = 8  # how many requests may be unanswered, and how many replies are kept
    window_bytes: int = 1 << 24  # for the kept replies; the newest is kept however large it is
    grace_s: float = 60.0  # from a broken connection to the end of the session
    deadline_s: float | None = None  # for one request
    start_s: float | None = None  # for the first one, if it may take longer: its worker must start, and make
    rebuild_s: float = 60.0  # for repeating a journal
    rebuilds: int = 2  # in a row, without an answer in between; a request is repeated in one of them at most
    journaled: bool = False
    deterministic: bool = False
    resumable: bool = True  # if not, its client is in this server and sends each request once: see ``take``

    def allowed_s(self, done: int) -> float:
        limit_s = self.deadline_s if done or self.start_s is None else self.start_s
        return inf if limit_s is None else limit_s


# Commands: what a Session asks its owner to do. The order matters: each is done before the next begins.


class SendTo(msgspec.Struct, frozen=True):
    """Send a frame to a connection; skip one that is gone by now."""

    connection: int
    frame: bytes


class ToWorker(msgspec.Struct, frozen=True):
    """Pass a request on to the worker. ``frame`` is what the client sent."""

    worker: int
    number: int
    frame: bytes


class Journal(msgspec.Struct, frozen=True):
    """Write an entry. If that fails, remove the journal, call ``Session.journal_failed`` and go on."""

    entry: Entry


class CloseConnection(msgspec.Struct, frozen=True):
    """Close a connection once what was sent to it is out. The session has forgotten it: report nothing more of it."""

    connection: int
    code: str
    reason: str


class EndWorker(msgspec.Struct, frozen=True):
    """End the worker's process, whatever it is doing. The session ignores any further news of it."""

    worker: int


class RebuildWorker(msgspec.Struct, frozen=True):
    """Start worker ``worker`` and repeat the journal's first ``count`` requests in it (``journal.Replay``).

    Then call ``Session.rebuilt``, or ``Session.worker_lost`` if it failed: the journal may be gone by now.
    """

    worker: int
    count: int


class Ended(msgspec.Struct, frozen=True):
    """The session is over in this server. ``resumable``: keep the journal, the next server may resume from it."""

    resumable: bool


Command: TypeAlias = "SendTo | ToWorker | Journal | CloseConnection | EndWorker | RebuildWorker | Ended"


_COPIES = 16  # of one unanswered request: its reply goes out once per copy, up to this often


class _Phase(enum.Enum):
    LIVE = enum.auto()
    ASLEEP = enum.auto()  # read from a journal; a worker is started when its client comes back
    REBUILDING = enum.auto()
    LOST = enum.auto()  # or closed: every new request is refused with the reason
    ENDED = enum.auto()


class _Pending(msgspec.Struct):
    """A request without a reply."""

    digest: bytes
    frame: bytes
    final: bool
    copies: int = 1
    losses: int = 0  # workers that were lost while working on it


class Session:
    """One client's environments. ``origin``: where the chain begins, if there is a journal.

    The owner starts worker 1 itself and calls ``attach`` first. ``connection`` may be any int that is not used twice.
    """

    def __init__(self, id: str, limits: SessionLimits, *, origin: bytes = b"") -> None:
        self.id, self.limits = id, limits
        self.worker = 1
        self.connection: int | None = None
        self.epoch = 0
        self._phase = _Phase.LIVE
        self._token = ResumeToken()
        self._last = 0  # how many requests have their reply
        self._replies = KeptReplies(limits.window, limits.window_bytes)  # the newest is that of `_last`
        self._pending: deque[_Pending] = deque()
        self._backlog: list[tuple[int, bytes, bytes, bool]] = []  # requests that came while a worker was being rebuilt
        self._chain = origin
        self._journaled = limits.journaled
        self._replayable = limits.journaled and limits.deterministic
        self._direct = not limits.resumable and not limits.journaled
        self._losses = 0
        self.refusal = ("", "")  # code and text for every request from now on, once there is one
        self._overdue = 0  # the request that took too long
        self._parked_s: float | None = None
        self._since_s = 0.0  # when the worker began the oldest request, or a rebuild
        self._drained_by_s: float | None = None

    @classmethod
    def from_journal(cls, recovered: Recovered, limits: SessionLimits, now: float) -> Session:
        """Restore the session from a journal that an earlier server wrote; it waits for its client."""
        session = cls(recovered.header.session, limits, origin=recovered.chain)
        session._replayable = limits.journaled and limits.deterministic and recovered.header.deterministic
        session.worker, session._parked_s, session._last = 0, now, recovered.count
        if attached := recovered.attached:
            session.epoch = attached.epoch
            session._token = ResumeToken(attached.token, attached.spent, attached.holder, attached.attempt)
        session._phase = _Phase.ASLEEP
        if recovered.lost or not session._replayable:
            session._lose(recovered.lost or "restart")
        return session

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to do for this session."""
        return self._phase is _Phase.ENDED

    @property
    def due_s(self) -> float | None:
        """When to call ``tick`` at the latest, unless another event comes first."""
        dues = []
        if self._parked_s is not None:
            dues.append(self._parked_s + self.limits.grace_s)
        if self._phase is _Phase.REBUILDING:
            dues.append(self._since_s + self.limits.rebuild_s)
        elif self._phase is _Phase.LIVE and self._pending:
            dues.append(self._since_s + self.limits.allowed_s(self._last))
        if self._drained_by_s is not None:
            dues.append(self._drained_by_s)
        due = min(dues, default=inf)
        return None if self._phase is _Phase.ENDED or due == inf else due

    @property
    def busy_since_s(self) -> float | None:
        """When the worker began its oldest request, or its rebuild; None if it is doing neither."""
        working = self._phase is _Phase.LIVE and self._pending
        return self._since_s if working or self._phase is _Phase.REBUILDING else None

    # Connections

    def attach(self, connection: int, token: str) -> list[Command]:
        """A connection has the session: its first, or one that resumes it. ``token``: random, to resume with later."""
        self.connection, self._parked_s = connection, None
        self.epoch += 1
        self._token = issued = replace(self._token, newest=digest(token.encode()))
        self._backlog.clear()
        for pending in self._pending:
            pending.copies = 0  # the client asks again for what it still wants
        commands: list[Command] = []
        if self._journaled:
            commands.append(Journal(Attached(self.epoch, issued.newest, issued.spent, issued.holder, issued.attempt)))
        newest = number_on_wire(self._last + len(self._pending))
        welcome = Welcome(self.id, token, self.epoch, newest, self.limits.grace_s)
        return [*commands, SendTo(connection, frame_of(welcome, HANDSHAKE))]

    def resume(self, connection: int, resume: Resume, token: str, now: float) -> list[Command]:
        """A connection asks for the session. ``token`` is the random one that it gets if it may have it."""
        if self._phase is _Phase.ENDED or not self.limits.resumable or not self._token.admits(resume):
            return _refuse(connection, SessionGone.code, NO_SESSION)
        if self._drained_by_s is not None:
            return _refuse(connection, Draining.code, "This server is stopping. Try again later.")
        if nearest_count(resume.last, self._last) > self._last:
            # The client has a reply that this session does not know: a journal lost its end. Nothing can resume here.
            lost = self._lose("restart") if self._phase is _Phase.ASLEEP else []
            return lost + _refuse(connection, WorkerLost.code, self._lost_text("restart"))
        commands: list[Command] = []
        if self.connection is not None:
            text = "Another connection took the session over."
            commands.append(CloseConnection(self.connection, Superseded.code, text))
        self._token = ResumeToken(b"", digest(resume.token.encode()), resume.holder, resume.attempt)
        commands += self.attach(connection, token)
        if self._phase is _Phase.ASLEEP:
            commands += self._rebuild(now)
        return commands

    def connection_closed(self, connection: int, now: float, *, done: bool = False) -> list[Command]:
        """A connection is gone; ``done``: its client said goodbye and will not come back."""
        if connection != self.connection or self._phase is _Phase.ENDED:
            return []
        self.connection, self._parked_s = None, now
        self._backlog.clear()
        return self._end(resumable=False) if done else []

    # Requests and replies

    def request(
        self, connection: int, number: int, digest: bytes, frame: bytes, now: float, *, final: bool = False
    ) -> list[Command]:
        """A request arrived. ``digest``: of ``frame``, by ``journal.digest``. ``final``: it closes everything."""
        if connection != self.connection or self._phase is _Phase.ENDED or self._drained_by_s is not None:
            return []  # the client sends what a draining server does not answer again to the next server
        if self._phase is _Phase.REBUILDING:
            if len(self._backlog) < 2 * self.limits.window:
                self._backlog.append((number, digest, frame, final))
            return []
        newest = self._last + len(self._pending)
        count = nearest_count(number, newest)
        if count > newest:
            return self._first_time(count, digest, frame, now, final)
        if count > self._last:
            return self._not_answered_yet(count, digest)
        return self._answer_again(count, digest, number)

    # The direct way, for a session that can't be resumed: a request can't come twice, so neither digests nor replies
    # are kept. Where anything is unusual, these say no, and the request or the reply goes the way above and below.

    def take(self, connection: int, number: int, now: float) -> bool:
        """Take the only request, which does not close anything; the caller passes it on to the worker. Hot."""
        usual = (
            self._direct
            and connection == self.connection
            and self._phase is _Phase.LIVE
            and self._drained_by_s is None
            and not self._pending
            and number == number_on_wire(self._last + 1)
        )
        if usual:
            self._since_s = now
            self._pending.append(_Pending(b"", b"", final=False))
        return usual

    def finish(self, worker: int, number: int, now: float) -> int | None:
        """Finish the only request, if this is its reply: the connection to send it to. Hot."""
        if not self._direct or self._phase is not _Phase.LIVE or worker != self.worker or len(self._pending) != 1:
            return None
        request = self._pending[0]
        unusual = request.final or request.copies != 1 or self._drained_by_s is not None
        if unusual or number != number_on_wire(self._last + 1):
            return None
        self._pending.clear()
        self._last += 1
        self._since_s, self._losses = now, 0
        return self.connection

    def _first_time(self, count: int, digest: bytes, frame: bytes, now: float, final: bool) -> list[Command]:
        if self._phase is _Phase.LOST:
            return self._say(count, *self._why(count))
        expected = self._last + len(self._pending) + 1
        if count != expected:
            text = f"Request {number_on_wire(count)} came where {number_on_wire(expected)} was expected."
            return self._say(count, OutOfOrder.code, text)
        window = self.limits.window
        # Requests of an earlier client that it did not wait for do not count: this client can't know of them.
        own = sum(1 for pending in self._pending if pending.copies) if len(self._pending) >= window else 0
        if own >= window or len(self._pending) >= 2 * window:
            text = f"{window} requests are unanswered, the most that a session may have."
            return self._say(count, OutOfOrder.code, text)
        if not self._pending:
            self._since_s = now
        self._pending.append(_Pending(digest, frame if self._replayable else b"", final))
        return [ToWorker(self.worker, number_on_wire(count), frame)]

    def _not_answered_yet(self, count: int, digest: bytes) -> list[Command]:
        pending = self._pending[count - self._last - 1]
        if pending.digest != digest:
            return self._conflict(count)
        pending.copies = min(pending.copies + 1, _COPIES)
        return []

    def _answer_again(self, count: int, digest: bytes, number: int) -> list[Command]:
        kept = self._replies.before_newest(self._last - count)
        if kept is None or count < 1:
            # After a loss even the earlier replies may be gone, with the server that gave them.
            lost = self.refusal if self._phase is _Phase.LOST else None
            text = f"Request {number} is older than the replies that are kept, or never existed."
            return self._send(frame_of(Failed(*(lost or (OutOfOrder.code, text))), number))
        first, reply = kept
        return self._conflict(count) if first != digest else self._send(reply)

    def _conflict(self, count: int) -> list[Command]:
        text = f"Number {number_on_wire(count)} was used for another request before. This one was not carried out."
        return self._say(count, IdempotencyConflict.code, text)

    def worker_replied(self, worker: int, frame: bytes, now: float) -> list[Command]:
        """A worker replied: one whole frame, fit for the client."""
        if worker != self.worker or self._phase is not _Phase.LIVE:
            return []
        if not self._pending or number_of(frame) != number_on_wire(self._last + 1):
            return [EndWorker(worker), *self._lose("protocol")]
        request = self._pending.popleft()
        self._last += 1
        self._since_s, self._losses = now, 0
        commands: list[Command] = []
        if self._replayable:
            reply = digest(frame)
            self._chain = extend_chain(self._chain, request.digest, reply)
            commands.append(Journal(Carried(self._last, request.frame, reply, self._chain)))
        if not self._direct:
            self._replies.add(request.digest, frame)
        if request.copies and self.connection is not None:
            commands += [SendTo(self.connection, frame)] * request.copies
        if request.final:
            self.refusal = (ClosedEnvironmentError.code, "The session was closed. Begin a new one.")
            commands.append(EndWorker(self.worker))
            if self._journaled:
                commands.append(Journal(Closed()))
                self._journaled = self._replayable = False
            commands += self._refuse_waiting()
        if self._drained_by_s is not None and not self._pending:
            commands += self._end_drained()
        return commands

    # Workers

    def worker_lost(self, worker: int, cause: str, now: float) -> list[Command]:
        """A worker is gone or could not be rebuilt. ``cause``: one of CAUSES."""
        if worker != self.worker or self._phase not in (_Phase.LIVE, _Phase.REBUILDING):
            return []
        if self._phase is _Phase.LIVE and self._pending:
            self._pending[0].losses += 1
        # A request is repeated once: one that ended two workers would end a third, after as long a wait.
        repeated = bool(self._pending) and self._pending[0].losses > 1
        if self._replayable and not repeated and self._losses < self.limits.rebuilds:
            self._losses += 1
            return self._rebuild(now)
        return self._lose(cause)

    def _rebuild(self, now: float) -> list[Command]:
        self.worker += 1
        self._phase, self._since_s = _Phase.REBUILDING, now
        return [RebuildWorker(self.worker, self._last)]

    def rebuilt(self, worker: int, replay: Replay, now: float) -> list[Command]:
        """A new worker has repeated the journal's requests. Only an equal chain makes it this session's worker."""
        if worker != self.worker or self._phase is not _Phase.REBUILDING:
            return []
        if replay.done != self._last or replay.chain != self._chain:
            return [EndWorker(worker), *self._lose("replay")]
        self._phase, self._since_s = _Phase.LIVE, now
        if not self._replies:  # they were lost with a server
            for request, reply in replay.tail:
                self._replies.add(request, reply)
        commands: list[Command] = [
            ToWorker(worker, number_on_wire(count), pending.frame)
            for count, pending in enumerate(self._pending, self._last + 1)
        ]
        return commands + self._take_backlog(now)

    def _take_backlog(self, now: float) -> list[Command]:
        backlog, self._backlog, connection = self._backlog, [], self.connection
        if connection is None:
            return []
        commands: list[Command] = []
        for number, request_digest, frame, final in backlog:
            commands += self.request(connection, number, request_digest, frame, now, final=final)
        return commands

    def _lose(self, cause: str) -> list[Command]:
        known = cause if cause in CAUSES else "ended"
        self.refusal = (WorkerLost.code, self._lost_text(known))
        if known == OVERDUE:
            self._overdue = self._last + 1
        commands: list[Command] = []
        if self._journaled:  # so that no later server gives another answer
            commands.append(Journal(Closed(known)))
        return commands + self._refuse_waiting()

    def _lost_text(self, cause: str) -> str:
        return (
            f"The environment is gone (cause={cause}, last_applied={number_on_wire(self._last)}). Begin a new session."
        )

    def _why(self, count: int) -> tuple[str, str]:
        """Code and text for a request that will never be carried out; always the same for the same request."""
        if count == self._overdue:
            text = f"Request {number_on_wire(count)} took longer than {self.limits.allowed_s(self._last)} s."
            return DeadlineExceeded.code, text
        return self.refusal

    def _refuse_waiting(self) -> list[Command]:
        """Refuse the requests that wait for a worker that will not come."""
        self._phase, self._replayable = _Phase.LOST, False
        commands: list[Command] = []
        for count, pending in enumerate(self._pending, self._last + 1):
            commands += self._say(count, *self._why(count)) * pending.copies
        self._pending.clear()
        commands += self._take_backlog(0.0)
        if self._drained_by_s is not None:
            commands += self._end_drained()
        return commands

    def journal_failed(self) -> None:
        """An entry could not be written, and the owner removed the journal: one with a hole would lie.

        The session goes on, but a worker that is lost from now on is not rebuilt.
        """
        self._journaled = self._replayable = False

    # Time and the end

    def tick(self, now: float) -> list[Command]:
        """Time has passed. Call it when ``due_s`` is reached; calling earlier does no harm."""
        due = self.due_s
        if due is None or now < due:
            return []
        if self._parked_s is not None and now >= self._parked_s + self.limits.grace_s:
            return self._end(resumable=False)
        if self._drained_by_s is not None and now >= self._drained_by_s:
            return self._end_drained()
        return [EndWorker(self.worker), *self._lose(OVERDUE if self._phase is _Phase.LIVE else "timeout")]

    def drain(self, now: float, within_s: float) -> list[Command]:
        """The server is about to stop: answer pending requests, take no more, end within this time."""
        if self._phase is _Phase.ENDED or self._drained_by_s is not None:
            return []
        self._drained_by_s = now + within_s
        return [] if self._pending else self._end_drained()

    def _end_drained(self) -> list[Command]:
        if self._journaled:
            return self._end(resumable=True, code=Draining.code)
        return self._end(resumable=False, reason="The server stopped, and it keeps no journal of its sessions.")

    def close(self, code: str, reason: str) -> list[Command]:
        """End the session now, for good; ``code`` and ``reason`` are for the client."""
        return self._end(resumable=False, code=code, reason=reason)

    def _end(self, *, resumable: bool, code: str = SessionGone.code, reason: str = "") -> list[Command]:
        if self._phase is _Phase.ENDED:
            return []
        commands: list[Command] = []
        if self._journaled and not resumable:
            commands.append(Journal(Closed()))
        if self.connection is not None:
            commands.append(CloseConnection(self.connection, code, reason or "The session ends on this server."))
        if self._phase in (_Phase.LIVE, _Phase.REBUILDING):
            commands.append(EndWorker(self.worker))
        self._phase, self.connection, self._parked_s = _Phase.ENDED, None, None
        self._pending.clear()
        self._backlog.clear()
        self._replies.clear()
        return [*commands, Ended(resumable)]

    def _say(self, count: int, code: str, text: str) -> list[Command]:
        return self._send(frame_of(Failed(code, text), number_on_wire(count)))

    def _send(self, frame: bytes) -> list[Command]:
        return [] if self.connection is None else [SendTo(self.connection, frame)]


NO_SESSION = "There is no such session: it has ended, was lost with its server, or has another token."


def _refuse(connection: int, code: str, text: str) -> list[Command]:
    return [SendTo(connection, frame_of(Failed(code, text), HANDSHAKE)), CloseConnection(connection, code, text)]


@dataclass(frozen=True)
class ResumeToken:
    """The token with which a session can be resumed, once, and the spent one before it. Only digests are kept.

    A spent token is accepted again from the client that used it, if it comes with a higher
    attempt. The Welcome with the next token may have been lost on its way.
    """

    newest: bytes = b""
    spent: bytes = b""
    holder: str = ""
    attempt: int = 0

    def admits(self, resume: Resume) -> bool:
        """Whether this client may have the session."""
        presented = digest(resume.token.encode())
        if compare_digest(presented, self.newest):
            return True
        # An abandoned connection whose Hello arrives late has a lower attempt than the one that followed it.
        again = resume.holder != "" and resume.holder == self.holder and resume.attempt > self.attempt
        return compare_digest(presented, self.spent) and again


class KeptReplies:
    """The newest replies and the digests of their requests, for requests that are sent again. Bounded.

    The newest reply is kept however large it is: a client with one request at a time must always be able to get it.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._kept: deque[tuple[bytes, bytes]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, request: bytes, reply: bytes) -> None:
        self._kept.append((request, reply))
        self._bytes += len(reply)
        while len(self._kept) > self._most or (self._bytes > self._most_bytes and len(self._kept) > 1):
            self._bytes -= len(self._kept.popleft()[1])

    def before_newest(self, steps: int) -> tuple[bytes, bytes] | None:
        """Return digest and reply from ``steps`` requests before the newest, or None if they are not kept."""
        place = len(self._kept) - 1 - steps
        return self._kept[place] if place >= 0 else None

    def clear(self) -> None:
        self._kept.clear()
        self._bytes = 0
