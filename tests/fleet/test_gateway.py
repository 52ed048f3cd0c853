"""The gateway's decisions, without a connection: where a flow goes, what is tried elsewhere, and what is not."""

import pytest

from paddock.fleet import gateway as g
from paddock.hosting.codec import HANDSHAKE
from paddock.hosting.messages import Call, Done, Failed, Hello, Make, Reset, Resume, Step, Waiting, Welcome
from paddock.hosting.remote_session import frame_of

MARKS = ["aaaaaaaa", "bbbbbbbb", "cccccccc"]
NEW = frame_of(Hello(None), HANDSHAKE)
MAKE, RESET, STEP = frame_of(Make(0, {}), 1), frame_of(Reset(0, 42), 2), frame_of(Step([0], [1]), 3)


def id_of(server, start="00"):
    return start + "5" * 22 + MARKS[server]


def welcome(server, start="00", token="first", epoch=1):
    return frame_of(Welcome(id_of(server, start), token, epoch, 0, 60.0), HANDSHAKE)


def resume(session, token):
    return frame_of(Hello(Resume(session, token, 0, "holder", 2)), HANDSHAKE)


@pytest.fixture
def gateway():
    made = g.Gateway(["one", "two", "three"])
    for at, mark in enumerate(MARKS):
        made.checked(at, ready=True, mark=mark)
    return made


def open_session(gateway, flow):
    """A flow with a session that has not begun to step; its server."""
    (dial,) = gateway.arrive(flow, native=True)
    assert gateway.reached(flow, 101) == [g.Accept(flow, native=True)]
    assert gateway.client_frame(flow, NEW) == [g.ToServer(flow, NEW)]
    greeting = welcome(dial.server)
    assert gateway.server_frame(flow, greeting) == [g.ToClient(flow, greeting)]
    return dial.server


def test_new_sessions_go_where_the_load_is_least(gateway):
    assert [open_session(gateway, flow) for flow in range(6)] == [0, 1, 2, 0, 1, 2]
    gateway.client_gone(4)
    assert open_session(gateway, 9) == 1


def test_a_server_that_is_not_ready_or_drained_gets_nothing_new():
    gateway = g.Gateway(["one", "two", "three"], drained=["one"])
    gateway.checked(0, ready=True, mark=MARKS[0])
    gateway.checked(1, ready=False, mark=MARKS[1])
    assert gateway.arrive(1, native=True) == [g.Refuse(1)]
    gateway.checked(2, ready=True, mark=MARKS[2])
    assert gateway.arrive(2, native=True) == [g.Dial(2, 2)]


def test_a_session_resumes_on_the_server_that_has_it_and_that_alone(gateway):
    gateway.checked(2, ready=False)
    gateway.arrive(1, native=True)
    gateway.reached(1, 101)
    hello = resume(id_of(2), "first")
    assert gateway.client_frame(1, hello) == [g.Dial(1, 2)], "although it takes no new sessions"
    assert gateway.reached(1, 101) == [g.ToServer(1, hello)]
    again = welcome(2, token="second", epoch=2)
    assert gateway.server_frame(1, again) == [g.ToClient(1, again), g.Splice(1)]


def test_a_server_that_does_not_answer_leaves_a_resuming_client_to_try_again(gateway):
    gateway.arrive(1, native=True)
    gateway.reached(1, 101)
    gateway.client_frame(1, resume(id_of(2), "first"))
    failed, drop = gateway.unreached(1)
    assert failed.frame == frame_of(Failed("UNREACHABLE", g._LOST), HANDSHAKE) and drop == g.Drop(1)


def test_a_session_of_a_server_that_was_never_up_is_not_called_gone():
    gateway = g.Gateway(["one", "two"])
    gateway.checked(0, ready=True, mark=MARKS[0])
    gateway.arrive(1, native=True)
    gateway.reached(1, 101)
    assert b"UNREACHABLE" in gateway.client_frame(1, resume(id_of(1), "first"))[0].frame
    gateway.checked(1, ready=True, mark=MARKS[2])
    gateway.arrive(2, native=True)
    gateway.reached(2, 101)
    assert isinstance(gateway.client_frame(2, resume(id_of(1), "first"))[0], g.ToServer), (
        "a server says that it is gone"
    )


@pytest.mark.parametrize("status", [404, 503, 507])
def test_what_one_server_refuses_for_now_is_tried_on_the_others(gateway, status):
    assert gateway.arrive(1, native=True) == [g.Dial(1, 0)]
    assert gateway.reached(1, status) == [g.Dial(1, 1)]
    assert gateway.unreached(1) == [g.Dial(1, 2)]
    assert gateway.reached(1, status) == [g.Refuse(1)]
    assert gateway.flows == 0


@pytest.mark.parametrize("status", [400, 401, 403, 429])
def test_a_refusal_that_would_be_the_same_elsewhere_reaches_the_client_at_once(gateway, status):
    gateway.arrive(1, native=True)
    assert gateway.reached(1, status) == [g.Refuse(1)]


def test_a_full_server_says_so_after_the_hello_and_another_takes_the_session(gateway):
    gateway.arrive(1, native=True)
    gateway.reached(1, 101)
    gateway.client_frame(1, NEW)
    queue = frame_of(Waiting(3), HANDSHAKE)
    assert gateway.server_frame(1, queue) == [g.ToClient(1, queue)]
    full = frame_of(Failed("CAPACITY_REACHED", "full"), HANDSHAKE)
    assert gateway.server_frame(1, full) == [g.Dial(1, 1)]
    assert gateway.reached(1, 101) == [g.ToServer(1, NEW)]
    gateway.server_frame(1, full)
    gateway.reached(1, 101)
    assert gateway.server_frame(1, full) == [g.ToClient(1, full)], "the last refusal is the client's"


def test_a_session_without_a_step_moves_and_its_client_learns_nothing_of_it(gateway):
    server = open_session(gateway, 1)
    assert gateway.client_frame(1, MAKE) == [g.ToServer(1, MAKE)]
    made = frame_of(Done("description"), 1)
    assert gateway.server_frame(1, made) == [g.ToClient(1, made)]
    gateway.client_frame(1, RESET)
    (dial,) = gateway.server_gone(1)
    assert dial.server != server
    assert gateway.reached(1, 101) == [g.ToServer(1, NEW)]
    second = welcome(dial.server, start="01", token="of the second")
    assert gateway.server_frame(1, second) == [g.ToServer(1, MAKE), g.ToServer(1, RESET)]
    assert gateway.server_frame(1, made) == [], "the client has it"
    began = frame_of(Done([0, {}]), 2)
    assert gateway.server_frame(1, began) == [g.ToClient(1, began)]

    # Before the first step its client resumes under the name and with the token that it knows, and learns the new name.
    assert gateway.client_frame(1, STEP) == [g.Drop(1)]
    gateway.arrive(2, native=True)
    gateway.reached(2, 101)
    commands = gateway.client_frame(2, resume(id_of(server), "first"))
    commands += gateway.reached(2, 101) if isinstance(commands[0], g.Dial) else []
    assert commands[-1] == g.ToServer(2, resume(id_of(dial.server, "01"), "of the second"))
    again = Welcome(id_of(dial.server, "01"), "next", 2, 2, 60.0)
    renamed = frame_of(Welcome(again.session, "next", 2, 2, 60.0, was=id_of(server)), HANDSHAKE)
    assert gateway.server_frame(2, frame_of(again, HANDSHAKE)) == [g.ToClient(2, renamed), g.Splice(2)]


def test_a_hello_that_comes_while_a_second_server_is_asked_is_sent_once(gateway):
    gateway.arrive(1, native=True)
    gateway.reached(1, 101)
    gateway.server_gone(1)
    assert gateway.client_frame(1, NEW) == []
    assert gateway.reached(1, 101) == [g.ToServer(1, NEW)]


def test_what_answers_no_request_is_not_waited_for_after_a_move(gateway):
    open_session(gateway, 1)
    refused = frame_of(Failed("BAD_FRAME", "This protocol has only binary messages."), HANDSHAKE)
    assert gateway.server_frame(1, refused) == [g.ToClient(1, refused)]
    gateway.client_frame(1, RESET)
    began = frame_of(Done([0, {}]), 2)
    gateway.server_frame(1, began)
    gateway.server_gone(1)
    gateway.reached(1, 101)
    gateway.server_frame(1, welcome(1, token="second"))
    assert gateway.server_frame(1, began) == []
    assert gateway.client_frame(1, STEP) == [g.Drop(1)], "its client resumes where the session is now"


def test_a_second_server_that_refuses_what_the_first_took_loses_the_session(gateway):
    open_session(gateway, 1)
    gateway.client_frame(1, RESET)
    gateway.server_frame(1, frame_of(Done([0, {}]), 2))
    gateway.server_gone(1)
    gateway.reached(1, 101)
    gateway.server_frame(1, welcome(1, token="second"))
    assert gateway.server_frame(1, frame_of(Failed("BAD_FRAME", ""), HANDSHAKE)) == [g.Drop(1)]


def test_a_step_that_comes_during_a_move_is_not_sent_before_its_client_has_resumed(gateway):
    open_session(gateway, 1)
    gateway.client_frame(1, RESET)
    began = frame_of(Done([0, {}]), 2)
    gateway.server_frame(1, began)
    gateway.server_gone(1)
    assert gateway.client_frame(1, STEP) == []
    gateway.reached(1, 101)
    assert gateway.server_frame(1, welcome(1, token="second")) == [g.ToServer(1, RESET)]
    assert gateway.server_frame(1, began) == [g.Drop(1)]


def test_a_session_that_took_a_step_is_never_moved(gateway):
    open_session(gateway, 1)
    gateway.client_frame(1, RESET)
    gateway.client_frame(1, STEP)
    assert gateway.server_gone(1) == [g.Drop(1)]


def test_a_session_is_not_moved_to_an_environment_that_answers_otherwise(gateway):
    open_session(gateway, 1)
    gateway.client_frame(1, RESET)
    gateway.server_frame(1, frame_of(Done([0.25, {}]), 2))
    gateway.server_gone(1)
    gateway.reached(1, 101)
    gateway.server_frame(1, welcome(1, token="second"))
    assert gateway.server_frame(1, frame_of(Done([0.75, {}]), 2)) == [g.Drop(1)]
    assert gateway.flows == 0


def test_reads_and_calls_end_what_may_be_repeated_but_a_reset_of_lanes_does_not(gateway):
    open_session(gateway, 1)
    lanes = frame_of(Call(0, "reset", [], {"seed": [1, 2]}), 1)
    assert gateway.client_frame(1, lanes) == [g.ToServer(1, lanes)]
    other = frame_of(Call(0, "set_gravity", [1.0]), 2)
    assert gateway.client_frame(1, other)[1:] == [g.Splice(1)]


def test_other_protocols_are_copied_from_the_start_and_keep_their_session(gateway):
    assert gateway.arrive(1, native=False, session=id_of(1)) == [g.Dial(1, 1)]
    assert gateway.reached(1, 101) == [g.Accept(1, native=False), g.Splice(1)]
    assert gateway.server_gone(1) == [g.Drop(1)]


def test_news_of_a_flow_that_is_over_changes_nothing(gateway):
    open_session(gateway, 1)
    gateway.client_gone(1)
    for late in (gateway.client_gone, gateway.server_gone, gateway.unreached, gateway.splice):
        assert late(1) == []
    assert gateway.reached(1, 101) == gateway.client_frame(1, MAKE) == gateway.server_frame(1, NEW) == []
    assert [one.load for one in gateway.servers] == [0, 0, 0]


def test_a_server_that_began_again_has_none_of_its_sessions(gateway):
    gateway.checked(1, ready=True, mark="dddddddd")
    assert gateway.holder(id_of(1)) is None and gateway.holder("0" * 24 + "dddddddd") == 1
