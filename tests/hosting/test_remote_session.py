"""What a remote channel knows without I/O: which ends are final, and that nothing is tried for ever."""

import dataclasses
import socket

import pytest

from paddock.errors import BadFrame, Draining, Forbidden, SessionGone, Superseded, Unreachable
from paddock.hosting.codec import decode_frame, encode
from paddock.hosting.failures import close_number, close_reason, read_reason
from paddock.hosting.messages import Done, Hello, Reset, Step, Welcome
from paddock.hosting.remote_address import RemoteAddress, explain_break, is_final
from paddock.hosting.remote_session import Connect, RemoteSession, Send, split_frame
from paddock.hosting.websocket.events import Binary, Closed, Text, UpgradeRefused

ADDRESS = RemoteAddress("h", 1, False, "/Maze-v0")
ENDPOINT = ADDRESS.endpoint()


def frame(message, number):
    return Binary(b"".join(encode(message, number)))


def greeted(session=None, *, attempt=1, last=0):
    """A session with a connection that has it."""
    if session is None:
        session = RemoteSession(ADDRESS)
        (connect,) = session.start(0.0)
        assert connect == Connect(1, 0.0)
    (hello,) = session.connected(attempt, "paddock.v1")
    assert type(decode_frame(hello.frame)[1]) is Hello
    session.handle_event(attempt, frame(Welcome("s", "t", attempt, last, 60.0), 0), 0.0)
    assert session.greeted
    return session


def test_reply_goes_to_its_request_and_only_once():
    session = greeted()
    first, (sent,) = session.submit(Reset(0))
    second, _ = session.submit(Step([0], [1]))
    assert (first, second, type(sent)) == (1, 2, Send)
    session.handle_event(1, frame(Done("b"), 2), 0.0)
    assert session.reply(first) is None
    assert (session.reply(second), session.reply(second)) == (Done("b"), None)
    session.handle_event(1, frame(Done("again"), 2), 0.0)
    assert session.reply(second) is None


def test_forgotten_reply_is_thrown_away_before_and_after_it_came():
    session = greeted()
    for came_first in (True, False):
        number, _ = session.submit(Reset(0))
        if not came_first:
            session.forget(number)
        session.handle_event(1, frame(Done(), number), 0.0)
        if came_first:
            session.forget(number)
        assert session.reply(number) is None
        assert session.has_room


def test_request_that_breaks_every_connection_is_not_sent_for_ever():
    session, attempt, sent = greeted(), 1, 0
    number, _ = session.submit(Reset(0))
    while session.over is None:
        session.handle_break(attempt, ConnectionResetError(), 0.0)
        attempt += 1
        if session.over is None:
            greeted(session, attempt=attempt)
            sent += 1
            assert sent < 50
    with pytest.raises(Unreachable, match="10 times in a row"):
        session.reply(number)


def test_breaks_with_replies_in_between_are_only_breaks():
    session = greeted()
    for attempt in range(1, 40):
        number, _ = session.submit(Reset(0))
        session.handle_event(attempt, frame(Done(), number), 0.0)
        session.handle_break(attempt, ConnectionResetError(), 0.0)
        greeted(session, attempt=attempt + 1, last=number)
    assert session.over is None


@pytest.mark.parametrize(
    ("problem", "error", "final"),
    [
        (Closed(1008, "SUPERSEDED: Another client."), Superseded, True),
        (Closed(1008, "SESSION_GONE"), SessionGone, True),
        (Closed(1013, "DRAINING: Later."), Draining, False),
        (Closed(1008, "whatever"), Forbidden, True),
        (Closed(1009, ""), BadFrame, True),
        (Closed(1002, ""), BadFrame, True),
        (Closed(1000, ""), None, False),
        (Closed(1001, "bye"), None, False),
        (Closed(1006, ""), None, False),
        (ConnectionResetError(), None, False),
        (TimeoutError(), None, False),
        (UpgradeRefused("x", status=418), UpgradeRefused, True),
        (UpgradeRefused("x", status=502), UpgradeRefused, False),
        (socket.gaierror(socket.EAI_NONAME, "x"), Unreachable, True),
        (socket.gaierror(socket.EAI_AGAIN, "x"), None, False),
    ],
)
def test_every_end_is_final_or_tried_again(problem, error, final):
    found = explain_break(problem, ENDPOINT, first=True)
    assert (type(found) if found is None else error) == (type(None) if error is None else error)
    assert found is None or (isinstance(found, error) and is_final(found) is final)


def test_text_of_a_close_reaches_the_user():
    session = greeted()
    session.handle_break(1, Closed(1008, "SUPERSEDED: Another client."), 0.0)
    with pytest.raises(Superseded, match=r"Another client\."):
        session.submit(Reset(0))


@pytest.mark.parametrize(
    "event",
    [Text("hello"), Binary(b"short"), frame(Reset(0), 1), Binary(b"PDK1" + bytes(8) + b"\xff" * 8)],
    ids=["text", "no frame", "a request", "huge"],
)
def test_server_that_sends_something_else_is_left(event):
    session = greeted()
    number, _ = session.submit(Reset(0))
    if type(event) is Binary and len(event.data) >= 12 and event.data[8:12] == bytes(4):
        event = Binary(event.data[:8] + number.to_bytes(4, "little") + event.data[12:])
    session.handle_event(1, event, 0.0)
    with pytest.raises(BadFrame):
        session.reply(number)


def test_body_of_a_large_frame_has_memory_of_its_own():
    data = b"".join(encode(Done(b"x" * 100_000), 1))
    at = split_frame(memoryview(data))
    session = greeted()
    number, _ = session.submit(Reset(0))
    session.handle_event(1, Binary(data[:at], memoryview(bytearray(data[at:]))), 0.0)
    assert session.reply(number) == Done(b"x" * 100_000)
    assert split_frame(memoryview(bytes(32))) == 0


@pytest.mark.parametrize("short", [1, 8])
def test_body_that_is_too_short_is_a_broken_protocol(short):
    data = b"".join(encode(Done(b"x" * 100_000), 1))
    at = split_frame(memoryview(data))
    session = greeted()
    number, _ = session.submit(Reset(0))
    session.handle_event(1, Binary(data[:at], memoryview(bytearray(data[at:-short]))), 0.0)
    with pytest.raises(BadFrame, match="broke the protocol"):
        session.reply(number)


def test_what_ended_a_session_is_its_last_word():
    session = greeted()
    session.end(SessionGone("first"))
    session.end(Unreachable("second"))
    with pytest.raises(SessionGone, match="first"):
        session.submit(Reset(0))
    assert session.handle_break(1, ConnectionResetError(), 0.0) == []


def test_reason_of_a_close_is_read_back_and_fits():
    assert read_reason(close_reason("DRAINING", "Later.")) == ("DRAINING", "Later.")
    assert read_reason(close_reason("DRAINING")) == ("DRAINING", "")
    assert read_reason("NOT_ONE_OF_OURS: x") == ("", "NOT_ONE_OF_OURS: x")
    long = close_reason("DRAINING", "ü" * 200)
    assert len(long.encode()) <= 123 and read_reason(long)[0] == "DRAINING"
    assert (close_number("DRAINING"), close_number("SUPERSEDED")) == (1013, 1008)


def test_token_is_in_no_text_of_a_session():
    address = dataclasses.replace(ADDRESS, authorization="Bearer s3cret")
    for problem in (UpgradeRefused("x", status=401), UpgradeRefused("x", status=404), Closed(1009, "")):
        session = RemoteSession(address)
        session.start(0.0)
        session.handle_break(1, problem, 0.0)
        assert "s3cret" not in f"{session.over} {session.over!r}"
