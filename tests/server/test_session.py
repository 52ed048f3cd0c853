"""A session: one application for each number, the same bytes for each retry, an honest error for everything else."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from paddock.hosting.codec import decode_frame
from paddock.hosting.messages import Resume, Welcome
from paddock.server.journal import Attached, Carried, Closed, Header, Recovered, Replay, digest
from paddock.server.session import (
    CloseConnection,
    Ended,
    EndWorker,
    Journal,
    RebuildWorker,
    SendTo,
    Session,
    SessionLimits,
    ToWorker,
)
from tests.server.model import code_of, frame

HEADER = Header("s", "CartPole-v1", {}, b"", True)


class Bench:
    """A session with what a server would hold around it."""

    def __init__(self, **limits):
        self.session = Session("s", SessionLimits(**limits), origin=HEADER.origin)
        self.now = 0.0
        (*_, sent) = self.session.attach(1, "t1")
        self.welcome = decode_frame(sent.frame)[1]

    def ask(self, number, body=b"r", connection=1, **how):
        data = frame(number, body)
        return self.session.request(connection, number, digest(data), data, self.now, **how)

    def reply(self, number, body=b"R", worker=None):
        return self.session.worker_replied(worker or self.session.worker, frame(number, body), self.now)

    def done(self, number, body=b"R"):
        self.ask(number)
        return self.reply(number, body)


def codes(commands):
    return [code_of(command.frame) for command in commands if isinstance(command, SendTo)]


def test_a_request_goes_to_the_worker_as_it_came_and_its_reply_back():
    bench = Bench()
    assert bench.ask(1) == [ToWorker(1, 1, frame(1, b"r"))]
    assert bench.reply(1) == [SendTo(1, frame(1, b"R"))]


@pytest.mark.parametrize("answered", [False, True])
def test_ten_copies_are_one_application_and_ten_equal_replies(answered):
    bench = Bench()
    commands = bench.ask(1)
    if answered:
        commands += bench.reply(1)
    for _ in range(9):
        commands += bench.ask(1)
    if not answered:
        commands += bench.reply(1)
    assert [command for command in commands if isinstance(command, ToWorker)] == [ToWorker(1, 1, frame(1, b"r"))]
    assert [command for command in commands if isinstance(command, SendTo)] == [SendTo(1, frame(1, b"R"))] * 10


@pytest.mark.parametrize("answered", [False, True])
def test_other_bytes_under_a_used_number_are_a_conflict_and_go_nowhere(answered):
    bench = Bench()
    bench.ask(1)
    if answered:
        bench.reply(1)
    commands = bench.ask(1, b"other")
    assert codes(commands) == ["IDEMPOTENCY_CONFLICT"] and len(commands) == 1


def test_a_gap_is_out_of_order_and_leaves_the_next_number_free():
    bench = Bench()
    bench.done(1)
    assert codes(bench.ask(3)) == ["OUT_OF_ORDER"]
    assert codes(bench.ask(0)) == ["OUT_OF_ORDER"]
    assert bench.ask(2) == [ToWorker(1, 2, frame(2, b"r"))]


def test_no_more_than_the_window_may_be_unanswered():
    bench = Bench(window=3)
    for number in (1, 2, 3):
        assert bench.ask(number)[0].number == number
    assert codes(bench.ask(4)) == ["OUT_OF_ORDER"]
    bench.reply(1)
    assert bench.ask(4) == [ToWorker(1, 4, frame(4, b"r"))]


def test_replies_older_than_the_window_are_not_kept():
    bench = Bench(window=3)
    for number in range(1, 6):
        bench.done(number)
    assert codes(bench.ask(2)) == ["OUT_OF_ORDER"]
    assert codes(bench.ask(3)) == codes(bench.ask(5)) == [""]


def test_a_large_reply_is_kept_only_as_the_newest():
    bench = Bench(window_bytes=100)
    bench.done(1)
    large = b"R" * 1000
    bench.done(2, large)
    assert codes(bench.ask(1)) == ["OUT_OF_ORDER"]
    assert bench.ask(2) == [SendTo(1, frame(2, large))]
    bench.done(3)
    assert codes(bench.ask(2)) == ["OUT_OF_ORDER"]


def test_numbers_go_round_and_leave_zero_out():
    bench = Bench()
    bench.session._last = 2**32 - 2
    assert bench.done(2**32 - 1)[-1].frame == frame(2**32 - 1, b"R")
    assert bench.ask(1) == [ToWorker(1, 1, frame(1, b"r"))]
    bench.reply(1)
    assert codes(bench.ask(2**32 - 1)) == [""]


def resume(token, last=0, holder="me", attempt=1):
    return Resume("s", token, last, holder, attempt)


def test_a_resumed_session_has_a_new_token_and_epoch_and_the_old_connection_no_say():
    bench = Bench()
    bench.ask(1)
    closed, sent = bench.session.resume(2, resume("t1"), "t2", 0.0)
    assert closed == CloseConnection(1, "SUPERSEDED", closed.reason)
    welcome = decode_frame(sent.frame)[1]
    assert welcome == Welcome("s", "t2", 2, 1, 60.0)
    assert bench.ask(1) == bench.ask(2) == [] and bench.session.connection_closed(1, 1.0) == []
    assert bench.reply(1) == [] and bench.ask(1, connection=2) == [SendTo(2, frame(1, b"R"))]


def test_a_token_serves_once_but_for_a_lost_welcome():
    session = Bench().session

    def code(connection, asked):
        *_, last = session.resume(connection, asked, f"t{connection}", 0.0)
        return last.code if isinstance(last, CloseConnection) else ""

    assert code(2, resume("wrong")) == "SESSION_GONE"
    assert code(2, resume("t1", attempt=5)) == ""
    assert code(3, resume("t1", holder="thief", attempt=9)) == "SESSION_GONE"
    assert code(3, resume("t1", holder="", attempt=9)) == "SESSION_GONE"
    assert code(3, resume("t1", attempt=5)) == code(3, resume("t1", attempt=4)) == "SESSION_GONE"
    assert code(4, resume("t1", attempt=6)) == ""
    assert code(5, resume("t2", attempt=7)) == "SESSION_GONE"  # nobody can have it: its Welcome was lost
    assert code(6, resume("t4", attempt=7)) == ""


def test_a_client_that_knows_more_than_the_session_is_refused():
    bench = Bench()
    bench.done(1)
    sent, closed = bench.session.resume(2, resume("t1", last=2), "t2", 0.0)
    assert code_of(sent.frame) == closed.code == "ENV_LOST"
    assert bench.session.connection == 1


def test_a_parked_session_works_on_and_ends_after_its_grace():
    bench = Bench(grace_s=60.0)
    bench.ask(1)
    assert bench.session.connection_closed(1, 10.0) == []
    assert bench.reply(1) == []
    assert bench.session.due_s == 70.0 and bench.session.tick(69.9) == []
    assert bench.session.tick(70.0) == [EndWorker(1), Ended(False)]
    assert bench.session.ended and bench.session.due_s is None
    assert bench.session.resume(2, resume("t1"), "t2", 70.0)[-1].code == "SESSION_GONE"


def test_a_client_that_takes_leave_ends_its_session_at_once():
    assert Bench().session.connection_closed(1, 0.0, done=True) == [EndWorker(1), Ended(False)]


def test_a_loss_answers_what_waits_and_everything_after_it_always_the_same():
    bench = Bench()
    bench.done(1)
    bench.ask(2)
    bench.ask(3)
    told = bench.session.worker_lost(1, "signal", 0.0)
    assert codes(told) == ["ENV_LOST", "ENV_LOST"]
    message = decode_frame(told[0].frame)[1].message
    assert "cause=signal" in message and "last_applied=1" in message
    assert bench.ask(2) == told[:1] and bench.ask(3) == told[1:]
    assert codes(bench.ask(9)) == ["ENV_LOST"]
    assert bench.ask(1) == [SendTo(1, frame(1, b"R"))]
    assert bench.reply(2) == [] and bench.session.worker_lost(1, "exit", 0.0) == []


def test_a_cause_of_unknown_words_does_not_reach_the_client():
    bench = Bench()
    bench.ask(1)
    (sent,) = bench.session.worker_lost(1, "/home/alice: password=hunter2", 0.0)
    assert b"hunter2" not in sent.frame


def test_a_worker_that_breaks_the_protocol_is_ended():
    bench = Bench()
    bench.ask(1)
    end, sent = bench.reply(7)
    assert end == EndWorker(1) and code_of(sent.frame) == "ENV_LOST"


def test_a_request_past_its_deadline_ends_the_worker_and_its_late_reply_is_dropped():
    bench = Bench(deadline_s=5.0)
    bench.ask(1)
    bench.ask(2)
    assert bench.session.due_s == 5.0
    end, *told = bench.session.tick(5.0)
    assert end == EndWorker(1) and codes(told) == ["DEADLINE", "ENV_LOST"]
    assert bench.ask(1) == told[:1] and bench.reply(1) == []


def test_the_deadline_of_the_next_request_begins_with_the_reply_before_it():
    bench = Bench(deadline_s=5.0)
    bench.ask(1)
    bench.ask(2)
    bench.now = 4.0
    bench.reply(1)
    assert bench.session.due_s == 9.0


def journaled(**limits):
    return Bench(journaled=True, deterministic=True, **limits)


def test_what_is_answered_is_written_before_it_is_sent():
    bench = journaled()
    bench.ask(1)
    entry, sent = bench.reply(1)
    assert isinstance(entry.entry, Carried) and entry.entry.request == frame(1, b"r")
    assert sent == SendTo(1, frame(1, b"R"))


def replayed(bench, *bodies):
    replay = Replay(HEADER.origin, [frame(n, b"r") for n in range(1, len(bodies) + 1)], window=8)
    for number, body in enumerate(bodies, 1):
        replay.add(frame(number, body))
    return replay


def test_a_rebuilt_worker_goes_on_if_its_chain_is_equal():
    bench = journaled()
    bench.done(1, b"R1")
    bench.ask(2)
    (rebuild,) = bench.session.worker_lost(1, "signal", 0.0)
    assert rebuild == RebuildWorker(2, 1)
    assert bench.ask(2) == bench.ask(3) == []
    assert bench.session.rebuilt(2, replayed(bench, b"R1"), 0.0) == [
        ToWorker(2, 2, frame(2, b"r")),
        ToWorker(2, 3, frame(3, b"r")),
    ]
    assert bench.reply(2, worker=1) == []
    assert codes(bench.reply(2)) == ["", ""]  # it was asked for twice


def test_another_chain_is_a_loss_and_the_new_worker_ended():
    bench = journaled()
    bench.done(1, b"R1")
    bench.ask(2)
    bench.session.worker_lost(1, "signal", 0.0)
    end, written, sent = bench.session.rebuilt(2, replayed(bench, b"R2"), 0.0)
    assert end == EndWorker(2) and written == Journal(Closed("replay")) and code_of(sent.frame) == "ENV_LOST"


def test_a_request_that_ends_its_worker_is_repeated_once_and_no_more():
    bench = journaled(rebuilds=9)
    bench.ask(1)
    bench.ask(2)
    assert isinstance(bench.session.worker_lost(1, "signal", 0.0)[0], RebuildWorker)
    assert [one.number for one in bench.session.rebuilt(2, replayed(bench), 0.0)] == [1, 2]
    written, *sent = bench.session.worker_lost(2, "signal", 0.0)
    assert written == Journal(Closed("signal")) and [code_of(one.frame) for one in sent] == ["ENV_LOST"] * 2


def test_workers_that_are_lost_while_nothing_is_asked_are_rebuilt_a_few_times():
    bench = journaled(rebuilds=2)
    for worker in (1, 2):
        assert isinstance(bench.session.worker_lost(worker, "signal", 0.0)[0], RebuildWorker)
        bench.session.rebuilt(worker + 1, replayed(bench), 0.0)
    assert bench.session.worker_lost(3, "signal", 0.0) == [Journal(Closed("signal"))]


def test_a_worker_that_can_not_be_rebuilt_is_tried_again_and_its_request_is_not_blamed():
    bench = journaled(rebuilds=2)
    bench.ask(1)
    assert isinstance(bench.session.worker_lost(1, "signal", 0.0)[0], RebuildWorker)
    assert isinstance(bench.session.worker_lost(2, "replay", 0.0)[0], RebuildWorker)
    assert bench.session.rebuilt(3, replayed(bench), 0.0) == [ToWorker(3, 1, frame(1, b"r"))]


def test_without_a_journal_a_lost_worker_is_not_rebuilt():
    bench = journaled()
    bench.session.journal_failed()
    bench.ask(1)
    assert codes(bench.session.worker_lost(1, "signal", 0.0)) == ["ENV_LOST"]
    assert codes(bench.ask(1)) == ["ENV_LOST"]


def recovered(bench, count, **facts):
    given = bench.session._token
    attached = Attached(1, given.newest, given.spent, given.holder, given.attempt)
    replay = replayed(bench, *[b"R"] * count)
    return Recovered(HEADER, attached, list(replay.frames), replay.chain, **facts)


def test_a_session_of_an_older_server_is_rebuilt_when_its_client_comes():
    old = journaled()
    bench = journaled()
    bench.session = Session.from_journal(recovered(old, 2), bench.session.limits, 100.0)
    assert bench.session.due_s == 160.0
    *_, welcome, rebuild = bench.session.resume(7, resume("t1", last=1), "t2", 101.0)
    assert decode_frame(welcome.frame)[1].last == 2 and rebuild.count == 2
    assert bench.ask(2, connection=7) == []  # its reply is known again when the replay is through
    assert bench.session.rebuilt(1, replayed(bench, b"R", b"R"), 102.0) == [SendTo(7, frame(2, b"R"))]
    assert bench.ask(3, connection=7) == [ToWorker(1, 3, frame(3, b"r"))]


@pytest.mark.parametrize(("facts", "deterministic"), [({"lost": "signal"}, True), ({}, False)])
def test_a_session_that_can_not_be_rebuilt_is_lost_and_never_fresh(facts, deterministic):
    old = journaled()
    bench = Bench(journaled=True, deterministic=deterministic)
    bench.session = Session.from_journal(recovered(old, 0, **facts), bench.session.limits, 0.0)
    assert decode_frame(bench.session.resume(7, resume("t1"), "t2", 0.0)[-1].frame)[1].session == "s"
    assert codes(bench.ask(1, connection=7)) == ["ENV_LOST"]


def test_a_journal_that_lost_its_end_is_nobodys_session_any_more():
    old = journaled()
    session = Session.from_journal(recovered(old, 1), SessionLimits(journaled=True, deterministic=True), 0.0)
    written, sent, _ = session.resume(7, resume("t1", last=2), "t2", 0.0)
    assert written == Journal(Closed("restart")) and code_of(sent.frame) == "ENV_LOST"
    assert not any(isinstance(command, RebuildWorker) for command in session.resume(8, resume("t1"), "t3", 0.0))


def test_the_last_request_closes_the_session_and_can_still_be_repeated():
    bench = journaled()
    bench.ask(1, final=True)
    commands = bench.reply(1)
    assert commands[1:] == [SendTo(1, frame(1, b"R")), EndWorker(1), Journal(Closed())]
    assert bench.session.worker_lost(1, "exit", 0.0) == []
    assert bench.ask(1) == [SendTo(1, frame(1, b"R"))] and codes(bench.ask(2)) == ["CLOSED"]


def test_a_draining_session_answers_what_it_took_and_nothing_more():
    bench = journaled()
    bench.ask(1)
    assert bench.session.drain(0.0, 30.0) == [] and bench.ask(2) == []
    assert bench.session.resume(2, resume("t1"), "t2", 0.0)[-1].code == "DRAINING"
    _, sent, closed, end, ended = bench.reply(1)
    assert sent == SendTo(1, frame(1, b"R")) and closed.code == "DRAINING"
    assert (end, ended) == (EndWorker(1), Ended(True))


def test_a_drain_waits_no_longer_than_it_may():
    bench = Bench()
    bench.ask(1)
    bench.session.drain(0.0, 30.0)
    assert bench.session.due_s == 30.0
    assert bench.session.tick(30.0)[-2:] == [EndWorker(1), Ended(False)]


def test_an_idle_session_drains_at_once_and_a_closed_one_has_no_more_effects():
    session = Bench().session
    assert session.drain(0.0, 30.0)[-1] == Ended(False)
    assert session.close("FORBIDDEN", "") == session.drain(0.0, 1.0) == session.tick(99.0) == []


class Retries(RuleBasedStateMachine):
    """In any order: copies, other bytes, gaps and replies, over several connections."""

    def __init__(self):
        super().__init__()
        self.bench = Bench(window=4)
        self.connection, self.token = 1, "t1"
        self.applied, self.waiting, self.replies = [], [], {}
        self.wanted = {}

    @property
    def newest(self):
        return len(self.applied)

    def put(self, number, body):
        return self.bench.ask(number, body, connection=self.connection)

    @rule(body=st.binary(min_size=1, max_size=3))
    @precondition(lambda self: len(self.waiting) < 4)
    def ask_next(self, body):
        number = self.newest + 1
        assert self.put(number, body) == [ToWorker(1, number, frame(number, body))]
        self.applied.append(body)
        self.waiting.append(number)
        self.wanted[number] = 1

    @rule(data=st.data(), copies=st.integers(1, 10))
    @precondition(lambda self: self.applied)
    def ask_again(self, data, copies):
        number = data.draw(st.integers(max(1, self.newest - 3), self.newest))
        commands = [command for _ in range(copies) for command in self.put(number, self.applied[number - 1])]
        if number in self.waiting:
            assert commands == []
            self.wanted[number] = min(self.wanted[number] + copies, 16)
        elif number > len(self.replies) - 4:
            assert commands == [SendTo(self.connection, self.replies[number])] * copies
        else:
            assert codes(commands) == ["OUT_OF_ORDER"] * copies

    @rule(data=st.data())
    @precondition(lambda self: self.applied)
    def ask_with_other_bytes(self, data):
        number = data.draw(st.integers(max(1, len(self.replies) - 3), self.newest))
        assert codes(self.put(number, self.applied[number - 1] + b"x")) == ["IDEMPOTENCY_CONFLICT"]

    @rule(ahead=st.integers(2, 1000))
    def leave_a_gap(self, ahead):
        commands = self.put(self.newest + ahead, b"gap")
        assert codes(commands) == ["OUT_OF_ORDER"] and len(commands) == 1

    @rule(body=st.binary(max_size=3))
    @precondition(lambda self: self.waiting)
    def worker_replies(self, body):
        number = self.waiting.pop(0)
        self.replies[number] = frame(number, b"R" + body)
        sent = [SendTo(self.connection, self.replies[number])] * self.wanted.pop(number)
        assert self.bench.session.worker_replied(1, self.replies[number], 0.0) == sent

    @rule()
    def resume(self):
        old, self.connection = self.connection, self.connection + 1
        token = f"t{self.connection}"
        self.bench.session.resume(self.connection, resume(self.token, holder=""), token, 0.0)
        self.token = token
        self.wanted = dict.fromkeys(self.wanted, 0)
        assert self.bench.ask(self.newest + 1, connection=old) == []

    @rule()
    @precondition(lambda self: self.waiting)
    def another_worker_has_no_say(self):
        assert self.bench.session.worker_replied(2, frame(self.waiting[0], b"Rx"), 0.0) == []

    @invariant()
    def nothing_else_is_due(self):
        assert self.bench.session.due_s is None


TestRetries = Retries.TestCase
TestRetries.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


# The direct way: for a session whose client is in the server and can't resume.


def direct(**limits):
    return Bench(resumable=False, **limits)


def test_a_direct_request_and_its_reply_are_counted_and_not_kept():
    bench = direct()
    for number in (1, 2, 3):
        assert bench.session.take(1, number, 5.0)
        assert bench.session.busy_since_s == 5.0
        assert bench.session.finish(1, number, 6.0) == 1
        assert bench.session.busy_since_s is None
    assert codes(bench.ask(3)) == ["OUT_OF_ORDER"]  # no reply is kept, and nothing is done twice
    assert bench.ask(4) == [ToWorker(1, 4, frame(4, b"r"))] and bench.reply(4) == [SendTo(1, frame(4, b"R"))]
    assert codes(bench.ask(4)) == ["OUT_OF_ORDER"]


@pytest.mark.parametrize("limits", [{}, {"journaled": True}, {"journaled": True, "deterministic": True}])
@pytest.mark.parametrize("resumable", [True, False])
def test_no_session_that_is_journaled_or_resumable_has_the_direct_way(limits, resumable):
    bench = Bench(resumable=resumable, **limits)
    assert bench.session.take(1, 1, 0.0) is (not resumable and not limits)


def test_a_direct_session_can_not_be_resumed():
    bench = direct()
    resumed = bench.session.resume(2, Resume("s", "t1", 0), "t2", 0.0)
    assert codes(resumed) == ["SESSION_GONE"]


@pytest.mark.parametrize(("connection", "number"), [(2, 1), (1, 2), (1, 0), (2, 2)])
def test_a_direct_request_has_its_connection_and_the_next_number(connection, number):
    assert not direct().session.take(connection, number, 0.0)


def test_only_one_direct_request_at_a_time():
    bench = direct()
    assert bench.session.take(1, 1, 0.0)
    assert not bench.session.take(1, 1, 0.0) and not bench.session.take(1, 2, 0.0)
    assert codes(bench.ask(1)) == ["IDEMPOTENCY_CONFLICT"]  # sent again, it is not carried out again
    assert bench.session.finish(1, 1, 0.0) == 1


def test_a_wrong_reply_to_a_direct_request_costs_the_worker():
    bench = direct()
    bench.session.take(1, 1, 0.0)
    assert bench.session.finish(1, 2, 0.0) is None and bench.session.finish(2, 1, 0.0) is None
    commands = bench.reply(2)
    assert commands[0] == EndWorker(1) and codes(commands) == ["ENV_LOST"]
    assert not bench.session.take(1, 2, 0.0)


def test_a_direct_request_has_its_deadline_and_its_loss():
    overdue, lost = direct(deadline_s=2.0), direct()
    for bench in (overdue, lost):
        bench.session.take(1, 1, 10.0)
    assert overdue.session.due_s == 12.0
    commands = overdue.session.tick(12.0)
    assert commands[0] == EndWorker(1) and codes(commands) == ["DEADLINE"]
    assert codes(lost.session.worker_lost(1, "memory", 11.0)) == ["ENV_LOST"]


def test_a_drain_answers_the_direct_request_and_takes_no_more():
    bench = direct()
    bench.session.take(1, 1, 0.0)
    assert bench.session.drain(0.0, 9.0) == []
    assert bench.session.finish(1, 1, 1.0) is None
    answered, *rest = bench.reply(1)
    assert answered == SendTo(1, frame(1, b"R")) and rest[-1] == Ended(False)
    assert not direct_after_drain().take(1, 1, 0.0)


def direct_after_drain():
    bench = direct()
    bench.session.drain(0.0, 9.0)
    return bench.session
