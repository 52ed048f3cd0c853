"""RemoteChannel: over a network that breaks steps are applied once and answered in order; failures say why."""

import dataclasses
import json
import os
import time
from http import HTTPStatus

import msgspec
import numpy as np
import pytest

from paddock.errors import (
    CapacityReached,
    ClosedEnvironmentError,
    DeadlineExceeded,
    Forbidden,
    NoAsyncCallError,
    RateLimited,
    SessionGone,
    Superseded,
    Unauthenticated,
    Unreachable,
    UnregisteredEnv,
    WorkerLost,
)
from paddock.hosting.client import HostedEnv
from paddock.hosting.messages import Done, Make, Reset, State, Step
from paddock.hosting.remote_address import OtherWire, RemoteAddress
from paddock.hosting.remote_channel import RemoteChannel
from paddock.server.session import SessionLimits
from tests.clocks import awake_s
from tests.hosting.cutting_proxy import CuttingProxy, cuts
from tests.hosting.native_server import QUICK, native_server, refusing, through
from tests.hosting.websocket.servers import certificate
from tests.server.serving import wait_until


def test_remote_environment_is_an_env(server):
    with HostedEnv(RemoteChannel(server.address), {}) as env:
        observation, info = env.reset(seed=3)
        assert observation.tolist() == [0.0, 0.0] and info == {}
        observation, reward, terminated, truncated, info = env.step(7)
        assert (observation.tolist(), reward, terminated, truncated, info) == ([7.0, 1.0], 7.0, False, False, {})
        assert env.state() == env.state()
        with pytest.raises(ValueError, match="no picture"):
            env.render()
        assert env.step(8)[0].tolist() == [8.0, 2.0]
    (env,) = server.envs.values()
    assert env.closed
    (session,) = server.sessions.values()
    wait_until(lambda: session.ended)


def test_requests_may_be_sent_ahead_and_replies_come_in_their_order(server):
    channel = RemoteChannel(server.address)
    requests = [Make(0, {}), Reset(0), *(Step([0], [action]) for action in range(30))]
    for request in requests[:3]:
        channel.send(request)
    for request in requests[3:]:  # more than the window: send waits for room
        channel.send(request)
    replies = [channel.recv(10) for _ in requests]
    assert [reply.value[0][1] for reply in replies[2:]] == [float(action) for action in range(30)]
    with pytest.raises(NoAsyncCallError):
        channel.recv()
    channel.close()
    channel.close()
    with pytest.raises(ClosedEnvironmentError):
        channel.send(State(0))


@pytest.mark.parametrize("size", [0, 150_000], ids=["small", "large"])
def test_every_step_is_applied_once_whatever_is_cut(seed, size):
    largest = 3000 if size == 0 else 600_000
    with native_server(size=size) as server, CuttingProxy(server.port, cuts(seed, 20, largest=largest)) as proxy:
        env = HostedEnv(RemoteChannel(through(proxy, server), patience=QUICK), {})
        env.reset()
        steps = 0
        while proxy.cut < 20:
            observation, reward, _, _, info = env.step(steps)
            assert (observation.tolist(), reward) == ([steps, steps + 1], steps)
            if size:
                assert np.array_equal(info["large"], np.full(size, steps % 251, np.uint8))
            steps += 1
            assert steps < 2000, f"only {proxy.cut} cuts: this shows too little"
        env.close()
        assert server.one == list(range(steps))


def test_requests_sent_ahead_survive_a_cut_in_their_order(seed):
    with native_server() as server, CuttingProxy(server.port, cuts(seed + 1, 20, largest=3000)) as proxy:
        channel = RemoteChannel(through(proxy, server), patience=QUICK)
        channel.send(Make(0, {}))
        channel.send(Reset(0))
        for action in range(6):
            channel.send(Step([0], [action]))
        replies = []
        for action in range(6, 200):
            replies.append(channel.recv(30))
            channel.send(Step([0], [action]))
        replies += [channel.recv(30) for _ in range(8)]
        assert [reply.value[0][1] for reply in replies[2:]] == [float(action) for action in range(200)]
        assert server.one == list(range(200))
        channel.close()


def test_break_between_two_calls_is_mended_by_the_next(server):
    with CuttingProxy(server.port, []) as proxy:
        env = HostedEnv(RemoteChannel(through(proxy, server), patience=QUICK), {})
        env.reset()
        for action in range(5):
            proxy.drop_all()
            began = awake_s()
            assert env.step(action)[1] == action
            assert awake_s() - began < 1.0
        env.close()
    assert server.one == list(range(5))


def test_late_reply_is_not_taken_for_the_next(server):
    channel = RemoteChannel(server.address)
    channel.send(Make(0, {}))
    channel.recv()
    server.go_on.clear()
    channel.send(Step([0], [1]))
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded, match=r"0\.05 s"):
        channel.recv(0.05)
    assert time.monotonic() - began < 2.0
    channel.send(Step([0], [2]))
    server.go_on.set()
    assert channel.recv(10).value[0][1] == 2.0
    assert server.one == [1, 2]
    channel.close()


def test_deadline_of_the_channel_is_for_every_reply(server):
    channel = RemoteChannel(server.address, deadline_s=0.05)
    server.go_on.clear()
    channel.send(Make(0, {}))
    with pytest.raises(DeadlineExceeded):
        channel.recv()
    server.go_on.set()
    channel.close()


def test_interrupted_wait_leaves_the_channel_usable(server, monkeypatch):
    channel = RemoteChannel(server.address)
    channel.send(Make(0, {}))
    channel.recv()
    channel.send(Step([0], [1]))
    connection = channel._connection
    monkeypatch.setattr(connection, "recv", lambda timeout_s: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        channel.recv()
    channel.send(Step([0], [2]))
    assert channel.recv(10).value[0][1] == 2.0
    assert server.one == [1, 2]
    channel.close()


def test_lost_worker_is_told_and_stays_lost(server):
    env = HostedEnv(RemoteChannel(server.address), {})
    env.reset()
    server.lose_worker()
    for _ in range(2):
        with pytest.raises(WorkerLost, match="last_applied=2"):
            env.step(1)
    env.close()
    assert server.one == []


def test_session_that_the_server_forgot_is_gone(server):
    with CuttingProxy(server.port, []) as proxy:
        env = HostedEnv(RemoteChannel(through(proxy, server), patience=QUICK), {})
        with server.lock:
            server.sessions.clear()
        proxy.drop_all()
        for _ in range(2):
            with pytest.raises(SessionGone):
                env.reset()
        env.close()


def test_session_can_be_taken_over_once_and_the_old_channel_is_told(server):
    first = RemoteChannel(server.address)
    first.send(Make(0, {}))
    first.recv()
    first.send(Step([0], [1]))
    first.recv()
    saved = first.saved
    second = RemoteChannel(server.address, saved=saved)
    second.send(Step([0], [2]))
    assert second.recv(10).value[0][0].tolist() == [2.0, 2.0]
    first.send(Step([0], [3]))
    with pytest.raises(Superseded, match="took the session over"):
        first.recv(10)
    with pytest.raises(SessionGone):
        RemoteChannel(server.address, saved=saved)
    assert server.one == [1, 2]
    first.close()
    second.close()


@pytest.mark.parametrize(
    ("status", "body", "error", "text"),
    [
        (HTTPStatus.UNAUTHORIZED, "", Unauthenticated, "wants a token"),
        (HTTPStatus.FORBIDDEN, "", Forbidden, "does not allow"),
        (HTTPStatus.NOT_FOUND, "", UnregisteredEnv, "no environment at '/Diary-v0'"),
        (
            HTTPStatus.NOT_FOUND,
            json.dumps({"environments": ["paddock/Echo", "Dairy-v0", "\x1b[2J\u202e", "x" * 1000, *"abcdefgh"]}),
            UnregisteredEnv,
            "with one that it has: /Dairy-v0, [-_.%/0-9A-Za-z, ]*/paddock%2FEcho[-_.%/0-9A-Za-z, ]{,40}, …$",
        ),
        (HTTPStatus.NOT_FOUND, '{"environments": [1]}', UnregisteredEnv, "'/Diary-v0'.$"),
        (HTTPStatus.SERVICE_UNAVAILABLE, "", CapacityReached, "503"),
        (HTTPStatus.SERVICE_UNAVAILABLE, '{"code":"RATE_LIMITED"}', RateLimited, "503"),
        (HTTPStatus.TEMPORARY_REDIRECT, "", Unreachable, "redirects are not followed"),
        (HTTPStatus.IM_A_TEAPOT, "", Unreachable, "418"),
        (HTTPStatus.BAD_GATEWAY, "", Unreachable, "502"),
    ],
)
def test_refused_connection_is_an_error_that_says_why(status, body, error, text):
    patience = msgspec.structs.replace(QUICK, begin_s=1.0)
    with native_server(process_request=refusing(status, body)) as server, pytest.raises(error, match=text):
        RemoteChannel(server.address, patience=patience)


def test_token_is_sent_and_never_told(server):
    seen = []

    def look(connection, request):
        seen.append(request.headers.get("Authorization"))
        return connection.respond(HTTPStatus.UNAUTHORIZED, "no")

    with native_server(process_request=look) as server:
        address = dataclasses.replace(server.address, authorization="Bearer s3cret")
        with pytest.raises(Unauthenticated, match="does not know this token") as caught:
            RemoteChannel(address)
    assert seen == ["Bearer s3cret"]
    assert "s3cret" not in str(caught.value)


def test_server_without_our_subprotocol_is_known_as_such():
    with native_server(subprotocols=None) as server, pytest.raises(OtherWire, match=r"paddock\.v1"):
        RemoteChannel(server.address)


def test_nobody_there_is_unreachable_and_says_why():
    with pytest.raises(Unreachable, match="Connection refused"):
        RemoteChannel(RemoteAddress("127.0.0.1", 1, False), patience=msgspec.structs.replace(QUICK, begin_s=0.1))


def test_host_that_does_not_exist_is_told_at_once():
    with pytest.raises(Unreachable, match=r"no host 'nowhere\.invalid'"):
        RemoteChannel(RemoteAddress("nowhere.invalid", 1, False))


def test_request_that_the_server_finds_too_large_is_not_sent_for_ever():
    with native_server(max_size=100_000) as server:
        channel = RemoteChannel(server.address, patience=QUICK)
        channel.send(Make(0, {"large": np.zeros(200_000, np.uint8)}))
        with pytest.raises(ValueError, match="too large"):
            channel.recv(10)
        channel.close()


@pytest.mark.process
def test_unix_socket_and_tls_carry_sessions(tmp_path):
    on_server, on_client = certificate(tmp_path)
    for options, context in (({"unix": str(tmp_path / "s")}, None), ({"ssl": on_server}, on_client)):
        with native_server(size=100_000, **options) as server:
            env = HostedEnv(RemoteChannel(server.address, context=context), {})
            assert env.step(1)[4]["large"].shape == (100_000,)
            env.close()


@pytest.mark.process
def test_untrusted_certificate_is_told_at_once(tmp_path):
    on_server, _ = certificate(tmp_path)
    with native_server(ssl=on_server) as server, pytest.raises(Unreachable, match="certificate of localhost"):
        RemoteChannel(server.address)


def test_keeper_answers_pings_and_mends_breaks_while_nobody_calls(server):
    with CuttingProxy(server.port, []) as proxy:
        channel = RemoteChannel(through(proxy, server), patience=QUICK)
        waiter = server.connections[1].ping()
        assert channel.keep()
        assert waiter.wait(10)
        proxy.drop_all()
        wait_until(lambda: channel.keep() and server.welcomes == 2)
        channel.send(Make(0, {}))
        assert type(channel.recv(10)) is Done
        channel.close()
        assert not channel.keep()


def test_silent_server_is_given_up_and_the_session_resumed(server):
    channel = RemoteChannel(server.address, patience=QUICK, heartbeat_s=0.01)
    session = channel._session
    now = time.monotonic()
    assert session.tick(now) == []
    (ask,) = session.tick(now + 0.011)
    assert type(ask).__name__ == "AskAlive"
    assert session.tick(now + 0.012) == []
    deeds = session.tick(now + 0.021)
    assert [type(deed).__name__ for deed in deeds] == ["Disconnect", "Connect"]
    channel._do(deeds)
    channel.send(Make(0, {}))
    assert type(channel.recv(10)) is Done
    channel.close()


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_copy_in_a_forked_process_has_no_say(server):
    channel = RemoteChannel(server.address)
    child = os.fork()
    if child == 0:
        try:
            channel.send(State(0))
        except ClosedEnvironmentError:
            channel.close()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    channel.send(Make(0, {}))
    assert type(channel.recv(10)) is Done
    channel.close()


def test_channel_that_nobody_closed_parks_its_session():
    with native_server(SessionLimits(grace_s=60.0)) as server:
        channel = RemoteChannel(server.address)
        (session,) = server.sessions.values()
        assert session.connection is not None
        del channel
        wait_until(lambda: session.connection is None)
        assert not session.ended


def test_close_without_a_server_does_not_take_long():
    with native_server() as server:
        channel = RemoteChannel(server.address, patience=QUICK)
        server.drop_all()
    began = time.monotonic()
    channel.close()
    assert time.monotonic() - began < 4.0


def test_ended_channel_stays_ended(server):
    channel = RemoteChannel(server.address)
    lost = channel.kill("was ended: it lied", cause="violation")
    assert (type(lost), lost.cause) == (WorkerLost, "violation")
    assert channel.kill() is lost
    with pytest.raises(WorkerLost, match="it lied"):
        channel.send(State(0))
    channel.close()
