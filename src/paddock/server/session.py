"""Session: what a server promises one client, as a pure state machine. Each method is an event and returns effects.

A request is carried out at most once and its reply never changes; after a loss every answer says so. Nothing here
reads a clock, a socket or a random number. A reader would get wrong: requests are counted without end inside and
numbered with 32 bits on the wire (``numbering``), and what comes from any connection but the newest does not count.
Hot: ``request`` and ``worker_replied`` run once a step.
"""

from __future__ import annotations

import enum
from collections import deque
from math import inf

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
from paddock.hosting.messages import Failed, Resume, Welcome
from paddock.hosting.numbering import HANDSHAKE, nearest, number_of, on_wire
from paddock.hosting.resuming import frame_of
from paddock.server.chain import Replay, digest, extended
from paddock.server.effects import CloseConnection, Effect, Ended, EndWorker, Journal, RebuildWorker, SendTo, ToWorker
from paddock.server.journal import Attached, Carried, Closed, Recovered
from paddock.server.kept_replies import KeptReplies
from paddock.server.resume_token import ResumeToken
from paddock.server.terms import CAUSES, OVERDUE, Terms

_COPIES = 16  # of a request that is not answered yet; a reply goes out once for each, no more often than this


class _Phase(enum.Enum):
    LIVE = enum.auto()
    ASLEEP = enum.auto()  # read from a journal; a worker is started when its client comes back
    REBUILDING = enum.auto()
    LOST = enum.auto()  # or closed: every new request is answered with why
    ENDED = enum.auto()


class _Asked(msgspec.Struct):
    """A request that has no reply yet."""

    digest: bytes
    frame: bytes
    final: bool
    copies: int = 1
    losses: int = 0  # workers that were lost while they were at it


class Session:
    """One client's environments. ``origin``: where the chain begins, if there is a journal.

    The owner starts worker 1 itself and tells ``attach`` first. ``connection`` may be any int that is not used twice.
    """

    def __init__(self, id: str, terms: Terms, *, origin: bytes = b"") -> None:
        self.id, self.terms = id, terms
        self.worker = 1
        self.connection: int | None = None
        self.epoch = 0
        self._phase = _Phase.LIVE
        self._token = ResumeToken()
        self._last = 0  # how many requests have their reply
        self._replies = KeptReplies(terms.window, terms.window_bytes)  # the newest is that of `_last`
        self._asked: deque[_Asked] = deque()
        self._held: list[tuple[int, bytes, bytes, bool]] = []  # requests that came while a worker was rebuilt
        self._chain = origin
        self._journaled = terms.journaled
        self._replayable = terms.journaled and terms.deterministic
        self._losses = 0
        self.refusal = ("", "")  # the code and text for every request from now on, if there is one
        self._overdue = 0  # the request that took too long
        self._parked_s: float | None = None
        self._since_s = 0.0  # when the worker began the oldest request, or a rebuild
        self._drained_by_s: float | None = None

    @classmethod
    def restored(cls, recovered: Recovered, terms: Terms, now: float) -> Session:
        """The session of a journal that a server before this one wrote; it waits for its client."""
        session = cls(recovered.header.session, terms, origin=recovered.chain)
        session._replayable = terms.journaled and terms.deterministic and recovered.header.deterministic
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
        """When ``tick`` has something to do at the latest, unless another event comes before."""
        dues = []
        if self._parked_s is not None:
            dues.append(self._parked_s + self.terms.grace_s)
        if self._phase is _Phase.REBUILDING:
            dues.append(self._since_s + self.terms.rebuild_s)
        elif self._phase is _Phase.LIVE and self._asked:
            dues.append(self._since_s + self.terms.allowed_s(self._last))
        if self._drained_by_s is not None:
            dues.append(self._drained_by_s)
        due = min(dues, default=inf)
        return None if self._phase is _Phase.ENDED or due == inf else due

    @property
    def busy_since_s(self) -> float | None:
        """Since when the worker has been at its oldest request, or at being rebuilt; None if it is at neither."""
        asked = self._phase is _Phase.LIVE and self._asked
        return self._since_s if asked or self._phase is _Phase.REBUILDING else None

    # Connections

    def attach(self, connection: int, token: str) -> list[Effect]:
        """The session's first connection has come; ``token`` is random, for the client to resume with."""
        return self._attached(connection, token)

    def resume(self, connection: int, asked: Resume, token: str, now: float) -> list[Effect]:
        """A connection wants the session. ``token`` is the random one that it gets if it may have it."""
        if self._phase is _Phase.ENDED or not self._token.admits(asked):
            return _refused(connection, SessionGone.code, "There is no such session, or the token is not valid for it.")
        if self._drained_by_s is not None:
            return _refused(connection, Draining.code, "This server is stopping. Try again later.")
        if nearest(asked.last, self._last) > self._last:
            # It has a reply that this session does not know of: a journal lost its end. Nobody may go on from here.
            lost = self._lose("restart") if self._phase is _Phase.ASLEEP else []
            return lost + _refused(connection, WorkerLost.code, self._lost_text("restart"))
        effects: list[Effect] = []
        if self.connection is not None:
            text = "Another connection took the session over."
            effects.append(CloseConnection(self.connection, Superseded.code, text))
        self._token = self._token.used(asked)
        effects += self._attached(connection, token)
        if self._phase is _Phase.ASLEEP:
            effects += self._rebuild(now)
        return effects

    def _attached(self, connection: int, token: str) -> list[Effect]:
        self.connection, self._parked_s = connection, None
        self.epoch += 1
        self._token = given = self._token.followed_by(token)
        self._held.clear()
        for asked in self._asked:
            asked.copies = 0  # the client asks again for what it still wants
        effects: list[Effect] = []
        if self._journaled:
            effects.append(Journal(Attached(self.epoch, given.newest, given.spent, given.holder, given.attempt)))
        newest = on_wire(self._last + len(self._asked))
        welcome = Welcome(self.id, token, self.epoch, newest, self.terms.grace_s)
        return [*effects, SendTo(connection, frame_of(welcome, HANDSHAKE))]

    def connection_closed(self, connection: int, now: float, *, done: bool = False) -> list[Effect]:
        """A connection is gone; ``done``: its client took leave and will not come back."""
        if connection != self.connection or self._phase is _Phase.ENDED:
            return []
        self.connection, self._parked_s = None, now
        self._held.clear()
        return self._end(resumable=False) if done else []

    # Requests and replies

    def request(
        self, connection: int, number: int, digest: bytes, frame: bytes, now: float, *, final: bool = False
    ) -> list[Effect]:
        """A request came. ``digest``: of ``frame``, by ``chain.digest``. ``final``: it closes everything."""
        if not self._is_current(connection) or self._drained_by_s is not None:
            return []  # what a draining server does not answer, the client sends again to the next one
        if self._phase is _Phase.REBUILDING:
            if len(self._held) < 2 * self.terms.window:
                self._held.append((number, digest, frame, final))
            return []
        newest = self._last + len(self._asked)
        count = nearest(number, newest)
        if count > newest:
            return self._first_time(count, digest, frame, now, final)
        if count > self._last:
            return self._not_answered_yet(count, digest)
        return self._answered(count, digest, number)

    def _is_current(self, connection: int) -> bool:
        return connection == self.connection and self._phase is not _Phase.ENDED

    def _first_time(self, count: int, digest: bytes, frame: bytes, now: float, final: bool) -> list[Effect]:
        if self._phase is _Phase.LOST:
            return self._say(count, *self._why(count))
        expected = self._last + len(self._asked) + 1
        if count != expected:
            text = f"Request {on_wire(count)} came where {on_wire(expected)} was expected."
            return self._say(count, OutOfOrder.code, text)
        if len(self._asked) >= self.terms.window and not self._has_room():
            return self._say(count, OutOfOrder.code, f"{self.terms.window} requests are unanswered, no more may be.")
        if not self._asked:
            self._since_s = now
        self._asked.append(_Asked(digest, frame if self._replayable else b"", final))
        return [ToWorker(self.worker, on_wire(count), frame)]

    def _has_room(self) -> bool:
        # What a client before this one asked for, and did not wait for, does not count: this one can't know of it.
        own = sum(1 for asked in self._asked if asked.copies)
        return own < self.terms.window and len(self._asked) < 2 * self.terms.window

    def _not_answered_yet(self, count: int, digest: bytes) -> list[Effect]:
        asked = self._asked[count - self._last - 1]
        if self._differs(asked.digest, digest):
            return self._conflict(count)
        asked.copies = min(asked.copies + 1, _COPIES)
        return []

    def _answered(self, count: int, digest: bytes, number: int) -> list[Effect]:
        kept = self._replies.before_newest(self._last - count)
        if kept is None or count < 1:
            # After a loss even the replies before it may be gone, with the server that gave them.
            lost = self.refusal if self._phase is _Phase.LOST else None
            text = f"Request {number} is older than what is kept, or none."
            return self._send(frame_of(Failed(*(lost or (OutOfOrder.code, text))), number))
        first, reply = kept
        return self._conflict(count) if self._differs(first, digest) else self._send(reply)

    def _differs(self, first: bytes, again: bytes) -> bool:
        return first != again

    def _conflict(self, count: int) -> list[Effect]:
        text = f"Number {on_wire(count)} was used before, for another request. This one was not carried out."
        return self._say(count, IdempotencyConflict.code, text)

    def worker_replied(self, worker: int, frame: bytes, now: float) -> list[Effect]:
        """A reply of a worker: one whole frame, fit for the client."""
        if worker != self.worker or self._phase is not _Phase.LIVE:
            return []
        if not self._asked or number_of(frame) != on_wire(self._last + 1):
            return [EndWorker(worker), *self._lose("protocol")]
        asked = self._asked.popleft()
        self._last += 1
        self._since_s, self._losses = now, 0
        effects: list[Effect] = []
        if self._replayable:
            reply = digest(frame)
            self._chain = extended(self._chain, asked.digest, reply)
            effects.append(Journal(Carried(self._last, asked.frame, reply, self._chain)))
        self._replies.add(asked.digest, frame)
        if asked.copies and self.connection is not None:
            effects += [SendTo(self.connection, frame)] * asked.copies
        if asked.final:
            effects += self._closed_by_client()
        if self._drained_by_s is not None and not self._asked:
            effects += self._end(resumable=self._journaled, code=Draining.code)
        return effects

    def _closed_by_client(self) -> list[Effect]:
        self.refusal = (ClosedEnvironmentError.code, "The session was closed. Begin a new one.")
        effects: list[Effect] = [EndWorker(self.worker)]
        if self._journaled:
            effects.append(Journal(Closed()))
            self._journaled = self._replayable = False
        return effects + self._refuse_waiting()

    # Workers

    def worker_lost(self, worker: int, cause: str, now: float) -> list[Effect]:
        """A worker is gone, or it could not be rebuilt. ``cause``: one of CAUSES."""
        if worker != self.worker or self._phase not in (_Phase.LIVE, _Phase.REBUILDING):
            return []
        if self._phase is _Phase.LIVE and self._asked:
            self._asked[0].losses += 1
        # A request is repeated once: what has ended two workers would end a third, after as long a wait.
        repeated = bool(self._asked) and self._asked[0].losses > 1
        if self._replayable and not repeated and self._losses < self.terms.rebuilds:
            self._losses += 1
            return self._rebuild(now)
        return self._lose(cause)

    def _rebuild(self, now: float) -> list[Effect]:
        self.worker += 1
        self._phase, self._since_s = _Phase.REBUILDING, now
        return [RebuildWorker(self.worker, self._last, self._chain)]

    def rebuilt(self, worker: int, replay: Replay, now: float) -> list[Effect]:
        """A new worker has carried the journal's requests out. Only an equal chain makes it this session's worker."""
        if worker != self.worker or self._phase is not _Phase.REBUILDING:
            return []
        if not self._is_same_episode(replay):
            return [EndWorker(worker), *self._lose("replay")]
        self._phase, self._since_s = _Phase.LIVE, now
        if not self._replies:  # they went down with a server
            for request, reply in replay.tail:
                self._replies.add(request, reply)
        effects: list[Effect] = [
            ToWorker(worker, on_wire(count), asked.frame) for count, asked in enumerate(self._asked, self._last + 1)
        ]
        return effects + self._take_held(now)

    def _is_same_episode(self, replay: Replay) -> bool:
        return replay.done == self._last and replay.chain == self._chain

    def _take_held(self, now: float) -> list[Effect]:
        held, self._held, connection = self._held, [], self.connection
        if connection is None:
            return []
        effects: list[Effect] = []
        for number, request_digest, frame, final in held:
            effects += self.request(connection, number, request_digest, frame, now, final=final)
        return effects

    def _lose(self, cause: str) -> list[Effect]:
        known = cause if cause in CAUSES else "ended"
        self.refusal = (WorkerLost.code, self._lost_text(known))
        if known == OVERDUE:
            self._overdue = self._last + 1
        effects: list[Effect] = []
        if self._journaled:  # so that no later server gives another answer
            effects.append(Journal(Closed(known)))
        return effects + self._refuse_waiting()

    def _lost_text(self, cause: str) -> str:
        return f"The environment is gone (cause={cause}, last_applied={on_wire(self._last)}). Begin a new session."

    def _why(self, count: int) -> tuple[str, str]:
        """The code and text for a request that will never be carried out; always the same for the same one."""
        if count == self._overdue:
            text = f"Request {on_wire(count)} took longer than {self.terms.allowed_s(self._last)} s."
            return DeadlineExceeded.code, text
        return self.refusal

    def _refuse_waiting(self) -> list[Effect]:
        """Answer what waits for a worker that will not come."""
        self._phase, self._replayable = _Phase.LOST, False
        effects: list[Effect] = []
        for count, asked in enumerate(self._asked, self._last + 1):
            effects += self._say(count, *self._why(count)) * asked.copies
        self._asked.clear()
        effects += self._take_held(0.0)
        if self._drained_by_s is not None:
            effects += self._end(resumable=self._journaled, code=Draining.code)
        return effects

    def journal_failed(self) -> None:
        """An entry could not be written, and the owner removed the journal: a hole in it would be a lie.

        The session goes on, but what is lost from now on is lost.
        """
        self._journaled = self._replayable = False

    # Time and the end

    def tick(self, now: float) -> list[Effect]:
        """Time has passed. Call it when ``due_s`` is reached; earlier does no harm."""
        due = self.due_s
        if due is None or now < due:
            return []
        if self._parked_s is not None and now >= self._parked_s + self.terms.grace_s:
            return self._end(resumable=False)
        if self._drained_by_s is not None and now >= self._drained_by_s:
            return self._end(resumable=self._journaled, code=Draining.code)
        return [EndWorker(self.worker), *self._lose(OVERDUE if self._phase is _Phase.LIVE else "timeout")]

    def drain(self, now: float, within_s: float) -> list[Effect]:
        """The server is going to stop: answer what was asked, take nothing more, end by then at the latest."""
        if self._phase is _Phase.ENDED or self._drained_by_s is not None:
            return []
        self._drained_by_s = now + within_s
        return [] if self._asked else self._end(resumable=self._journaled, code=Draining.code)

    def close(self, code: str, reason: str) -> list[Effect]:
        """End the session now, for good; ``code`` and ``reason`` are for the client."""
        return self._end(resumable=False, code=code, reason=reason)

    def _end(self, *, resumable: bool, code: str = SessionGone.code, reason: str = "") -> list[Effect]:
        if self._phase is _Phase.ENDED:
            return []
        effects: list[Effect] = []
        if self._journaled and not resumable:
            effects.append(Journal(Closed()))
        if self.connection is not None:
            effects.append(CloseConnection(self.connection, code, reason or "The session ends on this server."))
        if self._phase in (_Phase.LIVE, _Phase.REBUILDING):
            effects.append(EndWorker(self.worker))
        self._phase, self.connection, self._parked_s = _Phase.ENDED, None, None
        self._asked.clear()
        self._held.clear()
        self._replies.clear()
        return [*effects, Ended(resumable)]

    def _say(self, count: int, code: str, text: str) -> list[Effect]:
        return self._send(frame_of(Failed(code, text), on_wire(count)))

    def _send(self, frame: bytes) -> list[Effect]:
        return [] if self.connection is None else [SendTo(self.connection, frame)]


def _refused(connection: int, code: str, text: str) -> list[Effect]:
    return [SendTo(connection, frame_of(Failed(code, text), HANDSHAKE)), CloseConnection(connection, code, text)]
