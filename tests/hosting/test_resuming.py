"""The client's half of a session: what is sent again, what is dropped, when it gives up, and with which error."""

from math import inf

import pytest

from paddock.errors import (
    BadFrame,
    CapacityReached,
    ClosedEnvironmentError,
    NoAsyncCallError,
    SessionGone,
    Superseded,
    Unauthenticated,
    Unreachable,
    WorkerLost,
)
from paddock.hosting.codec import decode_frame, nearest_count, number_of, number_on_wire
from paddock.hosting.messages import Done, Failed, Hello, Resume, State, Welcome
from paddock.hosting.remote_address import RemoteAddress
from paddock.hosting.remote_session import WINDOW, Connect, Disconnect, Patience, RemoteSession, Send, frame_of
from paddock.hosting.websocket.events import Binary, Closed

LARGEST = 2**32 - 1  # number of a request
SUPERSEDED = Closed(1008, "SUPERSEDED: Another client.")


def make(holder="me", jitter=0.0, **how):
    return RemoteSession(RemoteAddress("h", 1, False), holder=holder, jitter=lambda: jitter, **how)


def connect(client, attempt):
    return client.connected(attempt, "paddock.v1")


def receive(client, attempt, frame, now=0.0):
    return client.handle_event(attempt, Binary(frame), now)


def cut(client, attempt, now):
    return client.handle_break(attempt, ConnectionResetError(), now)


def welcome(last=0, session="s", token="t1"):
    return frame_of(Welcome(session, token, 1, last, 60.0), 0)


def ask(client):
    number, commands = client.submit(State(7))
    return frame_of(State(7), number), commands


def reply(number):
    return frame_of(Done(number), number)


def open_client(**how):
    client = make(**how)
    assert client.start(0.0) == [Connect(1, 0.0)]
    (hello,) = connect(client, 1)
    assert decode_frame(hello.frame) == (0, Hello())
    assert receive(client, 1, welcome()) == []
    return client


def test_requests_are_numbered_and_replies_matched_by_number():
    client = open_client()
    frames = [ask(client)[1] for _ in range(3)]
    assert [number_of(sent.frame) for (sent,) in frames] == [1, 2, 3]
    assert receive(client, 1, reply(1)) == [] and client.reply(1) == Done(1)
    for other in (1, 7):
        assert receive(client, 1, reply(other)) == [] and client.reply(other) is None
    assert receive(client, 1, reply(2)) == [] and client.reply(2) == Done(2)


def test_exactly_what_has_no_reply_is_sent_again_in_order():
    client = open_client(jitter=1.0)
    frames = [ask(client)[0] for _ in range(3)]
    receive(client, 1, reply(1))
    assert cut(client, 1, 1.0) == [Connect(2, 1.05)]
    late, _ = ask(client)
    (hello,) = connect(client, 2)
    assert decode_frame(hello.frame)[1] == Hello(Resume("s", "t1", 1, "me", 2))
    assert receive(client, 2, welcome(3, token="t2"), 1.1) == [Send(2, frame) for frame in [*frames[1:], late]]
    assert client.saved.token == "t2"


def test_a_lost_welcome_leads_to_the_same_token_and_a_higher_attempt():
    client = open_client()
    cut(client, 1, 1.0)
    first = decode_frame(connect(client, 2)[0].frame)[1].resume
    cut(client, 2, 1.1)
    second = decode_frame(connect(client, 3)[0].frame)[1].resume
    assert (first.token, first.holder) == (second.token, second.holder) and first.attempt < second.attempt


def test_old_connections_have_no_say():
    client = open_client()
    ask(client)
    cut(client, 1, 1.0)
    assert receive(client, 1, reply(1), 1.0) == client.handle_break(1, SUPERSEDED, 1.0) == []
    assert client.reply(1) is client.over is None
    assert connect(client, 1) == [Disconnect(1)]


def test_waits_grow_and_stay_within_bounds():
    for jitter in (1.0, 0.0):
        client = open_client(jitter=jitter, patience=Patience(resume_s=1e9))
        waits = [cut(client, attempt, 0.0)[0].at_s for attempt in range(1, 13)]
        expected = [0.05, 0.1, 0.2, 0.4, 5.0, 5.0]
        assert [*waits[:4], *waits[-2:]] == (expected if jitter else [wait / 2 for wait in expected])


def test_no_more_than_the_window_is_ahead():
    client = open_client()
    for _ in range(WINDOW):
        assert client.has_room
        ask(client)
    assert not client.has_room
    with pytest.raises(NoAsyncCallError):
        ask(client)
    receive(client, 1, reply(1))
    assert client.has_room


def test_a_late_reply_is_thrown_away_and_the_next_request_gets_its_own():
    client = open_client()
    ask(client)
    client.forget(1)
    ask(client)
    assert receive(client, 1, reply(1), 6.0) == [] and client.reply(1) is None
    assert receive(client, 1, reply(2), 6.0) == [] and client.reply(2) == Done(2)


def test_a_request_whose_reply_is_not_wanted_is_still_sent_again():
    client = open_client()
    frame, _ = ask(client)
    cut(client, 1, 1.0)
    client.forget(1)
    connect(client, 2)
    assert receive(client, 2, welcome(), 5.0) == [Send(2, frame)]
    assert receive(client, 2, reply(1), 5.0) == [] and client.reply(1) is None


@pytest.mark.parametrize(
    ("code", "kind"), [("SESSION_GONE", SessionGone), ("ENV_LOST", WorkerLost), ("UNAUTHENTICATED", Unauthenticated)]
)
def test_a_refusal_that_will_not_change_is_the_end(code, kind):
    client = open_client()
    ask(client)
    cut(client, 1, 1.0)
    connect(client, 2)
    assert receive(client, 2, frame_of(Failed(code, "no"), 0), 1.0) == [Disconnect(2)]
    assert type(client.over) is kind
    with pytest.raises(kind):
        client.reply(1)
    with pytest.raises(kind):
        ask(client)
    assert client.due_s == inf and client.tick(999.0) == cut(client, 2, 1.0) == []


def test_a_client_that_was_superseded_does_not_fight():
    client = open_client()
    assert client.handle_break(1, SUPERSEDED, 1.0) == [Disconnect(1)]
    assert type(client.over) is Superseded


@pytest.mark.parametrize("code", ["DRAINING", "CAPACITY_REACHED", "RATE_LIMITED", "STORAGE_FULL"])
def test_a_refusal_for_now_is_tried_again(code):
    client = make(jitter=1.0, patience=Patience(begin_s=5.0))
    client.start(0.0)
    connect(client, 1)
    refusal = frame_of(Failed(code, "later"), 0)
    assert receive(client, 1, refusal) == [Disconnect(1), Connect(2, 0.05)]
    connect(client, 2)
    assert receive(client, 2, refusal, 5.0) == [Disconnect(2), Disconnect(2)]
    assert client.over.code == code


def test_without_patience_a_refusal_is_told_at_once():
    client = make(patience=Patience(begin_s=0.0))
    client.start(0.0)
    connect(client, 1)
    receive(client, 1, frame_of(Failed("CAPACITY_REACHED", "full"), 0))
    assert type(client.over) is CapacityReached


def test_patience_ends_for_a_server_that_never_answered_and_for_one_that_is_gone():
    client = make(patience=Patience(begin_s=3.0))
    client.start(0.0)
    assert cut(client, 1, 3.0) == [Disconnect(1)] and type(client.over) is Unreachable
    client = open_client(patience=Patience(resume_s=60.0))
    cut(client, 1, 10.0)
    assert client.tick(70.0) == [Disconnect(2)] and type(client.over) is SessionGone


def test_an_attempt_without_a_welcome_is_given_up_and_the_next_begun():
    client = make(jitter=1.0, patience=Patience(handshake_s=5.0))
    client.start(0.0)
    connect(client, 1)
    assert client.due_s == 5.0
    assert client.tick(5.0) == [Disconnect(1), Connect(2, 5.05)]


@pytest.mark.parametrize("answer", [welcome(1, session="fresh"), welcome(0)])
def test_a_fresh_session_is_never_taken_for_the_old_one(answer):
    client = open_client()
    ask(client)
    receive(client, 1, reply(1))
    cut(client, 1, 1.0)
    connect(client, 2)
    assert receive(client, 2, answer, 1.0) == [Disconnect(2)]
    assert type(client.over) in (SessionGone, WorkerLost)


@pytest.mark.parametrize("answer", [b"", b"PDK1", b"x" * 40, reply(0), frame_of(Welcome("s", "t", 1, 0, 1.0), 3)])
def test_anything_but_a_welcome_ends_the_handshake(answer):
    client = make()
    client.start(0.0)
    connect(client, 1)
    assert receive(client, 1, answer) == [Disconnect(1)] and type(client.over) is BadFrame


def test_another_client_takes_over_where_the_server_stands():
    first = open_client()
    ask(first)
    second = make("you", saved=first.saved)
    second.start(0.0)
    assert not second.has_room
    assert decode_frame(connect(second, 1)[0].frame)[1] == Hello(Resume("s", "t1", 0, "you", 1))
    receive(second, 1, welcome(1, token="t2"))
    assert second.has_room
    assert second.saved.last == 0  # request 1 is the first client's, and may not be answered yet
    assert number_of(ask(second)[1][0].frame) == 2
    receive(second, 1, reply(2))
    assert second.saved.last == 2


def test_a_client_that_was_ended_says_so():
    client = open_client()
    closed = ClosedEnvironmentError("closed")
    assert client.end(closed) == [Disconnect(1)] and client.end(closed) == []
    with pytest.raises(ClosedEnvironmentError):
        ask(client)


def test_numbers_of_a_session_go_round_and_what_has_no_reply_is_sent_again():
    client = make(saved=Resume("s", "t0", LARGEST - 2))
    client.start(0.0)
    connect(client, 1)
    assert receive(client, 1, welcome(LARGEST - 2)) == []
    frames = [ask(client)[0] for _ in range(4)]
    assert [number_of(frame) for frame in frames] == [LARGEST - 1, LARGEST, 1, 2]
    for number in (LARGEST - 1, LARGEST):
        assert receive(client, 1, reply(number)) == [] and client.reply(number) == Done(number)
    assert client.saved.last == LARGEST
    cut(client, 1, 1.0)
    connect(client, 2)
    assert receive(client, 2, welcome(1), 1.0) == [Send(2, frame) for frame in frames[2:]]
    for number in (1, 2):
        assert receive(client, 2, reply(number)) == [] and client.reply(number) == Done(number)
    assert client.saved.last == 2 and receive(client, 2, reply(LARGEST)) == [] and client.reply(LARGEST) is None


def test_numbers_go_round_and_leave_zero_out():
    assert [number_on_wire(count) for count in (0, 1, LARGEST, LARGEST + 1, LARGEST + 2)] == [0, 1, LARGEST, 1, 2]
    for count in (1, 8, LARGEST - 1, LARGEST, LARGEST + 1, 5 * LARGEST):
        for ahead in range(-8, 9):
            if count + ahead >= 1:
                assert nearest_count(number_on_wire(count + ahead), count) == count + ahead
    assert nearest_count(LARGEST, 0) <= 0 and nearest_count(LARGEST - 3, 0) < 0
