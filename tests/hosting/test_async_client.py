"""The async client: the same session, messages and errors as the blocking one, and many tasks at once."""

import asyncio
import time

import msgspec
import numpy as np
import pytest

from paddock.errors import (
    ClosedEnvironmentError,
    DeadlineExceeded,
    EnvironmentViolation,
    SessionGone,
    Superseded,
    Unauthenticated,
    Unreachable,
    WorkerLost,
)
from paddock.hosting.async_remote_channel import AsyncRemoteChannel
from paddock.hosting.client import AsyncHostedEnv
from paddock.hosting.judge import WallRules
from paddock.hosting.messages import Make, State, Step
from paddock.hosting.remote_address import OtherWire, RemoteAddress
from tests.hosting.cutting_proxy import CuttingProxy, cuts
from tests.hosting.native_server import QUICK, native_server, refusing, through


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


def test_environment_is_awaited(server):
    async def play():
        channel = await AsyncRemoteChannel(server.address).connect()
        async with await AsyncHostedEnv.make(channel, {}) as env:
            assert env.observation_space.shape == (2,) and env.action_space.n == 1 << 20
            observation, info = await env.reset(seed=3)
            assert observation.tolist() == [0.0, 0.0] and info == {}
            observation, reward, terminated, truncated, info = await env.step(7)
            assert (observation.tolist(), reward, terminated, truncated, info) == ([7.0, 1.0], 7.0, False, False, {})
            assert await env.state() == await env.state()
            with pytest.raises(ValueError, match="no picture"):
                await env.render()
            assert await env.call("size") == 0
        await env.close()
        with pytest.raises(ClosedEnvironmentError):
            await env.step(1)
        with pytest.raises(ClosedEnvironmentError):
            await channel.ask(State(0))

    run(play())
    (env,) = server.envs.values()
    assert env.closed


def test_tasks_that_ask_at_once_get_their_own_replies_in_the_order_of_the_calls(server):
    async def play():
        channel = await AsyncRemoteChannel(server.address).connect()
        await channel.ask(Make(0, {}))
        replies = await asyncio.gather(*(channel.ask(Step([0], [action])) for action in range(100)))
        assert [reply.value[0][1] for reply in replies] == [float(action) for action in range(100)]
        await channel.close()

    run(play())
    assert server.one == list(range(100))


@pytest.mark.parametrize("size", [0, 150_000], ids=["small", "large"])
def test_every_step_is_applied_once_whatever_is_cut(seed, size):
    async def play(server, proxy):
        channel = await AsyncRemoteChannel(through(proxy, server), patience=QUICK).connect()
        env = await AsyncHostedEnv.make(channel, {})
        steps = 0
        while proxy.cut < 20:
            observation, reward, _, _, info = await env.step(steps)
            assert (observation.tolist(), reward) == ([steps, steps + 1], steps)
            if size:
                assert np.array_equal(info["large"], np.full(size, steps % 251, np.uint8))
            steps += 1
            assert steps < 2000, f"only {proxy.cut} cuts: this shows too little"
        await env.close()
        assert server.one == list(range(steps))

    largest = 3000 if size == 0 else 600_000
    with native_server(size=size) as server, CuttingProxy(server.port, cuts(seed + 2, 20, largest=largest)) as proxy:
        run(play(server, proxy))


def test_many_tasks_survive_cuts_in_their_order(seed):
    async def play(server, proxy):
        channel = await AsyncRemoteChannel(through(proxy, server), patience=QUICK).connect()
        await channel.ask(Make(0, {}))
        replies = await asyncio.gather(*(channel.ask(Step([0], [action])) for action in range(300)))
        assert [reply.value[0][1] for reply in replies] == [float(action) for action in range(300)]
        assert server.one == list(range(300))
        await channel.close()

    with native_server() as server, CuttingProxy(server.port, cuts(seed + 3, 20, largest=3000)) as proxy:
        run(play(server, proxy))


def test_late_reply_and_cancelled_wait_are_not_taken_for_the_next(server):
    async def play():
        channel = await AsyncRemoteChannel(server.address).connect()
        await channel.ask(Make(0, {}))
        server.go_on.clear()
        with pytest.raises(DeadlineExceeded, match=r"0\.05 s"):
            await channel.ask(Step([0], [1]), 0.05)
        task = asyncio.create_task(channel.ask(Step([0], [2])))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        third = asyncio.create_task(channel.ask(Step([0], [3])))
        await asyncio.sleep(0)
        server.go_on.set()
        assert (await third).value[0][1] == 3.0
        await channel.close()

    run(play())
    assert server.one == [1, 2, 3]


def test_failures_are_those_of_the_blocking_channel(server):
    async def connect(server, **options):
        await AsyncRemoteChannel(server.address, **{"patience": QUICK, **options}).connect()

    with native_server(process_request=refusing(401)) as other, pytest.raises(Unauthenticated):
        run(connect(other))
    with native_server(subprotocols=None) as other, pytest.raises(OtherWire):
        run(connect(other))
    quick = msgspec.structs.replace(QUICK, begin_s=0.1)
    with pytest.raises(Unreachable, match="refused|Connect call failed"):
        run(AsyncRemoteChannel(RemoteAddress("127.0.0.1", 1, False), patience=quick).connect())


def test_lost_worker_forgotten_session_and_takeover_are_told(server):
    async def play():
        first = await AsyncRemoteChannel(server.address, patience=QUICK).connect()
        await first.ask(Make(0, {}))
        second = await AsyncRemoteChannel(server.address, saved=first.saved).connect()
        with pytest.raises(Superseded):
            while True:
                await first.ask(State(0), 10)
        server.lose_worker()
        reply = await second.ask(State(0))
        assert reply.code == WorkerLost.code
        with server.lock:
            server.sessions.clear()
        server.drop_all()
        with pytest.raises(SessionGone):
            await second.ask(State(0), 10)
        await first.close()
        await second.close()

    run(play())


def test_close_without_a_connection_does_not_take_long():
    async def play():
        with native_server() as server:
            channel = await AsyncRemoteChannel(server.address, patience=QUICK).connect()
            server.drop_all()
        began = time.monotonic()
        await channel.close()
        assert time.monotonic() - began < 4.0

    run(play())


def test_behind_a_wall_a_wrong_observation_ends_the_environment(server):
    async def play():
        channel = await AsyncRemoteChannel(server.address).connect()
        env = await AsyncHostedEnv.make(channel, {}, wall=WallRules(reward_range=(0.0, 5.0)))
        await env.step(5)
        with pytest.raises(EnvironmentViolation, match="reward"):
            await env.step(6)
        with pytest.raises(WorkerLost):
            await env.step(1)
        await env.close()

    run(play())
