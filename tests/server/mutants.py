"""Sessions and clients that are wrong in one way each. The simulator must tell them from the right ones."""

from msgspec.structs import replace

from paddock.hosting.codec import HANDSHAKE, number_on_wire
from paddock.hosting.messages import Hello
from paddock.hosting.remote_session import RemoteSession, Send, _decode, frame_of
from paddock.server.session import Journal, KeptReplies, RebuildWorker, Session, ToWorker, _Phase


class EqualsAny(bytes):
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = bytes.__hash__


class NoDigestCheck(Session):
    def request(self, connection, number, digest, frame, now, *, final=False):
        return super().request(connection, number, EqualsAny(digest), frame, now, final=final)


class NoStoredReplies(Session):
    def worker_replied(self, worker, frame, now):
        commands = super().worker_replied(worker, frame, now)
        self._replies.clear()
        return commands


class OneStoredReply(Session):
    def __init__(self, id, limits, *, origin=b""):
        super().__init__(id, limits, origin=origin)
        self._replies = KeptReplies(1, limits.window_bytes)


class NoEpochCheck(Session):
    def request(self, connection, number, digest, frame, now, *, final=False):
        current = connection if self.connection is None else self.connection
        return super().request(current, number, digest, frame, now, final=final)


class CarriesRetriesOut(Session):
    def request(self, connection, number, digest, frame, now, *, final=False):
        commands = super().request(connection, number, digest, frame, now, final=final)
        again = number <= self._last and self._phase is _Phase.LIVE and connection == self.connection
        return [*commands, ToWorker(self.worker, number, frame)] if again else commands


class FreshEnvironmentAfterLoss(Session):
    def worker_lost(self, worker, cause, now):
        if worker != self.worker or self._phase is not _Phase.LIVE:
            return []
        self.worker += 1
        self._phase = _Phase.REBUILDING
        return [RebuildWorker(self.worker, 0)]

    def rebuilt(self, worker, replay, now):
        replay.done, replay.chain = self._last, self._chain
        return super().rebuilt(worker, replay, now)


class IgnoresResends(Session):
    def _answer_again(self, count, digest, number):
        return []


class IgnoresRequestsSentAgainWhilePending(Session):
    def _not_answered_yet(self, count, digest):
        return []


class TakesAnyChain(Session):
    def rebuilt(self, worker, replay, now):
        replay.done, replay.chain = self._last, self._chain
        return super().rebuilt(worker, replay, now)


class TakesAnOldJournal(Session):
    def resume(self, connection, asked, token, now):
        return super().resume(connection, replace(asked, last=0), token, now)


class RepliesBeforeItWrites(Session):
    def worker_replied(self, worker, frame, now):
        commands = super().worker_replied(worker, frame, now)
        return sorted(commands, key=lambda command: type(command) is Journal)


class TakesGaps(Session):
    def _first_time(self, count, digest, frame, now, final):
        return super()._first_time(self._last + len(self._pending) + 1, digest, frame, now, final)


class ListensToLostWorkers(Session):
    def worker_replied(self, worker, frame, now):
        return super().worker_replied(self.worker, frame, now)


class ForgetsThatAWelcomeMayBeLost(Session):
    def resume(self, connection, asked, token, now):
        return super().resume(connection, replace(asked, holder=""), token, now)


class AnswersWhatItDoesNotCarryOut(Session):
    def drain(self, now, within_s):
        asked = list(self._pending)
        commands = super().drain(now, within_s)
        self._pending.clear()
        return commands + [
            command for count, _ in enumerate(asked, self._last + 1) for command in self._conflict(count)
        ]


class ForgetsWhatHasNoReply(RemoteSession):
    def _handle_welcome(self, welcome):
        return [action for action in super()._handle_welcome(welcome) if not isinstance(action, Send)]


class TakesAnyReplyForItsOwn(RemoteSession):
    def handle_event(self, attempt, event, now):
        if self.greeted and attempt == self._attempt and self._waiting:
            count = next(iter(self._waiting))
            del self._waiting[count]
            self._replies[number_on_wire(count)] = _decode(event)
            self.has_room = True
            return []
        return super().handle_event(attempt, event, now)


class AnswersWhatTimedOut(RemoteSession):
    def handle_event(self, attempt, event, now):
        self._unwanted.clear()
        return super().handle_event(attempt, event, now)


class BeginsAnew(RemoteSession):
    def connected(self, attempt, subprotocol):
        return [Send(attempt, frame_of(Hello(), HANDSHAKE))]


class ListensToOldConnections(RemoteSession):
    def handle_break(self, attempt, problem, now):
        return super().handle_break(self._attempt, problem, now)


SESSIONS = [
    NoDigestCheck,
    NoStoredReplies,
    OneStoredReply,
    NoEpochCheck,
    CarriesRetriesOut,
    FreshEnvironmentAfterLoss,
    IgnoresResends,
    IgnoresRequestsSentAgainWhilePending,
    TakesAnyChain,
    TakesAnOldJournal,
    RepliesBeforeItWrites,
    TakesGaps,
    ListensToLostWorkers,
    ForgetsThatAWelcomeMayBeLost,
    AnswersWhatItDoesNotCarryOut,
]
CLIENTS = [
    ForgetsWhatHasNoReply,
    TakesAnyReplyForItsOwn,
    AnswersWhatTimedOut,
    BeginsAnew,
    ListensToOldConnections,
]
