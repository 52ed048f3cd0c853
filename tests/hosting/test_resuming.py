"""The client's half of a session: what is sent again, what is dropped, when it gives up, and with which error."""

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
from paddock.hosting.remote_session import (
    Answer,
    Connect,
    Disconnect,
    GiveUp,
    Patience,
    ResumingClient,
    Send,
    TimedOut,
    frame_of,
)


def welcome(last=0, session="s", token="t1"):
    return frame_of(Welcome(session, token, 1, last, 60.0), 0)


def ask(client, **deadline):
    number = client.next_number
    return frame_of(State(number), number), client.submit(frame_of(State(number), number), **deadline)


def reply(number):
    return frame_of(Done(number), number)


def open_client(**how):
    client = ResumingClient("me", **how)
    assert client.start(0.0) == [Connect(1, 0.0)]
    (hello,) = client.connected(1)
    assert decode_frame(hello.frame) == (0, Hello())
    assert client.received(1, welcome(), 0.0, 0.0) == []
    return client


def give_up_of(actions):
    (error,) = [action.error for action in actions if isinstance(action, GiveUp)]
    return error


def test_requests_are_numbered_and_replies_matched_by_number():
    client = open_client()
    frames = [ask(client)[1] for _ in range(3)]
    assert [number_of(sent.frame) for (sent,) in frames] == [1, 2, 3]
    assert client.received(1, reply(1), 0.0, 0.0) == [Answer(1, reply(1))]
    assert client.received(1, reply(1), 0.0, 0.0) == []
    assert client.received(1, reply(7), 0.0, 0.0) == []
    assert client.received(1, reply(2), 0.0, 0.0) == [Answer(2, reply(2))]


def test_exactly_what_has_no_reply_is_sent_again_in_order():
    client = open_client()
    frames = [ask(client)[0] for _ in range(3)]
    client.received(1, reply(1), 0.0, 0.0)
    (connect,) = client.disconnected(1, 1.0, 1.0)
    assert connect == Connect(2, 1.05)
    late, _ = ask(client)
    (hello,) = client.connected(2)
    assert decode_frame(hello.frame)[1] == Hello(Resume("s", "t1", 1, "me", 2))
    assert client.received(2, welcome(3, token="t2"), 1.1, 0.0) == [Send(2, frame) for frame in [*frames[1:], late]]
    assert client.saved.token == "t2"


def test_a_lost_welcome_leads_to_the_same_token_and_a_higher_attempt():
    client = open_client()
    client.disconnected(1, 1.0, 0.0)
    first = decode_frame(client.connected(2)[0].frame)[1].resume
    client.disconnected(2, 1.1, 0.0)
    second = decode_frame(client.connected(3)[0].frame)[1].resume
    assert (first.token, first.holder) == (second.token, second.holder) and first.attempt < second.attempt


def test_old_connections_have_no_say():
    client = open_client()
    ask(client)
    client.disconnected(1, 1.0, 0.0)
    assert client.received(1, reply(1), 1.0, 0.0) == client.disconnected(1, 1.0, 0.0, code="SUPERSEDED") == []
    assert client.connected(1) == [Disconnect(1)]


def test_waits_grow_and_stay_within_bounds():
    client = open_client(patience=Patience(resume_s=1e9))
    waits = []
    for attempt in range(1, 12):
        (connect,) = client.disconnected(attempt, 0.0, 1.0)
        waits.append(connect.at_s)
    assert waits[:4] == [0.05, 0.1, 0.2, 0.4] and waits[-1] == 5.0
    assert client.disconnected(12, 0.0, 0.0)[0].at_s == 2.5


def test_no_more_than_the_window_is_ahead():
    client = open_client(window=2)
    ask(client)
    ask(client)
    assert not client.has_room
    with pytest.raises(NoAsyncCallError):
        ask(client)
    client.received(1, reply(1), 0.0, 0.0)
    assert client.has_room


def test_a_request_must_have_the_next_number():
    with pytest.raises(BadFrame):
        open_client().submit(frame_of(State(0), 2))


def test_a_reply_after_the_deadline_is_thrown_away_and_the_next_request_gets_its_own():
    client = open_client()
    ask(client, deadline_s=5.0)
    assert client.due_s == 5.0 and client.tick(4.9, 0.0) == []
    assert client.tick(5.0, 0.0) == [TimedOut(1)] and client.due_s is None
    ask(client)
    assert client.received(1, reply(1), 6.0, 0.0) == []
    assert client.received(1, reply(2), 6.0, 0.0) == [Answer(2, reply(2))]


def test_a_request_whose_deadline_passed_is_still_sent_again():
    client = open_client()
    frame, _ = ask(client, deadline_s=5.0)
    client.disconnected(1, 1.0, 0.0)
    client.tick(5.0, 0.0)
    client.connected(2)
    assert client.received(2, welcome(), 5.0, 0.0) == [Send(2, frame)]


@pytest.mark.parametrize(
    ("code", "kind"), [("SESSION_GONE", SessionGone), ("ENV_LOST", WorkerLost), ("UNAUTHENTICATED", Unauthenticated)]
)
def test_a_refusal_that_will_not_change_is_the_end(code, kind):
    client = open_client()
    ask(client)
    client.disconnected(1, 1.0, 0.0)
    client.connected(2)
    actions = client.received(2, frame_of(Failed(code, "no"), 0), 1.0, 0.0)
    assert actions[0] == Disconnect(2) and type(give_up_of(actions)) is kind
    with pytest.raises(kind):
        ask(client)
    assert client.due_s is None and client.tick(999.0, 0.0) == client.disconnected(2, 1.0, 0.0) == []


def test_a_client_that_was_superseded_does_not_fight():
    client = open_client()
    assert type(give_up_of(client.disconnected(1, 1.0, 0.0, code="SUPERSEDED"))) is Superseded


@pytest.mark.parametrize("code", ["DRAINING", "CAPACITY_REACHED", "RATE_LIMITED", "STORAGE_FULL"])
def test_a_refusal_for_now_is_tried_again(code):
    client = ResumingClient("me", patience=Patience(begin_s=5.0))
    client.start(0.0)
    client.connected(1)
    refusal = frame_of(Failed(code, "later"), 0)
    assert client.received(1, refusal, 0.0, 1.0) == [Disconnect(1), Connect(2, 0.05)]
    client.connected(2)
    assert give_up_of(client.received(2, refusal, 5.0, 1.0)).code == code


def test_without_patience_a_refusal_is_told_at_once():
    client = ResumingClient("me", patience=Patience(begin_s=0.0))
    client.start(0.0)
    client.connected(1)
    actions = client.received(1, frame_of(Failed("CAPACITY_REACHED", "full"), 0), 0.0, 0.0)
    assert type(give_up_of(actions)) is CapacityReached


def test_patience_ends_for_a_server_that_never_answered_and_for_one_that_is_gone():
    client = ResumingClient("me", patience=Patience(begin_s=3.0))
    client.start(0.0)
    assert type(give_up_of(client.disconnected(1, 3.0, 0.0))) is Unreachable
    client = open_client(patience=Patience(resume_s=60.0))
    client.disconnected(1, 10.0, 0.0)
    assert type(give_up_of(client.tick(70.0, 0.0))) is SessionGone


def test_an_attempt_without_a_welcome_is_given_up_and_the_next_begun():
    client = ResumingClient("me", patience=Patience(handshake_s=5.0))
    client.start(0.0)
    client.connected(1)
    assert client.due_s == 5.0
    assert client.tick(5.0, 1.0) == [Disconnect(1), Connect(2, 5.05)]


@pytest.mark.parametrize("answer", [welcome(1, session="fresh"), welcome(0)])
def test_a_fresh_session_is_never_taken_for_the_old_one(answer):
    client = open_client()
    ask(client)
    client.received(1, reply(1), 0.0, 0.0)
    client.disconnected(1, 1.0, 0.0)
    client.connected(2)
    assert type(give_up_of(client.received(2, answer, 1.0, 0.0))) in (SessionGone, WorkerLost)


@pytest.mark.parametrize("answer", [b"", b"PDK1", b"x" * 40, reply(0), frame_of(Welcome("s", "t", 1, 0, 1.0), 3)])
def test_anything_but_a_welcome_ends_the_handshake(answer):
    client = ResumingClient("me")
    client.start(0.0)
    client.connected(1)
    assert type(give_up_of(client.received(1, answer, 0.0, 0.0))) is BadFrame


def test_another_client_takes_over_where_the_server_stands():
    first = open_client()
    ask(first)
    second = ResumingClient("you", saved=first.saved)
    second.start(0.0)
    assert not second.has_room
    assert decode_frame(second.connected(1)[0].frame)[1] == Hello(Resume("s", "t1", 0, "you", 1))
    second.received(1, welcome(1, token="t2"), 0.0, 0.0)
    assert second.next_number == 2 and second.has_room
    assert second.saved.last == 0  # request 1 is the first client's, and may not be answered yet
    ask(second)
    second.received(1, reply(2), 0.0, 0.0)
    assert second.saved.last == 2


def test_a_closed_client_says_so():
    client = open_client()
    assert client.close() == [Disconnect(1)] and client.close() == []
    with pytest.raises(ClosedEnvironmentError):
        ask(client)


def test_numbers_go_round_and_leave_zero_out():
    largest = 2**32 - 1
    assert [number_on_wire(count) for count in (0, 1, largest, largest + 1, largest + 2)] == [0, 1, largest, 1, 2]
    for count in (1, 8, largest - 1, largest, largest + 1, 5 * largest):
        for ahead in range(-8, 9):
            if count + ahead >= 1:
                assert nearest_count(number_on_wire(count + ahead), count) == count + ahead
    assert nearest_count(largest, 0) <= 0 and nearest_count(largest - 3, 0) < 0
