"""make(url): an environment of a server is an environment like any other, and its client imports light."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request

import numpy as np
import pytest

import paddock
from paddock import LaneOptions, RemoteOptions
from paddock.errors import (
    ClosedEnvironmentError,
    InvalidAction,
    InvalidSeed,
    NotPermitted,
    NotTransferable,
    PlanError,
    ResetNeeded,
    Unauthenticated,
    Unreachable,
    UnregisteredEnv,
    WorkerLost,
)
from paddock.making import locate, plan
from tests.serving import ROOT, serving, shared
from tests.vector.lockstep import alike

server = shared(lambda _: serving("CartPole-v1", "FrozenLake-v1"))


@pytest.fixture
def url(server):
    return server.with_token("/CartPole-v1")


def episode(env, seed, actions):
    """All that an episode shows, for comparison."""
    seen = [env.reset(seed=seed)]
    for action in actions:
        seen.append(env.step(action))
        if seen[-1][2] or seen[-1][3]:
            break
    return seen


@pytest.mark.process
@pytest.mark.parametrize("door", [paddock.make, paddock.OpenEnv])
def test_the_same_episode_as_here(url, door):
    actions = np.random.default_rng(4).integers(0, 2, 60).tolist()
    with door(url) as far, paddock.make("CartPole-v1") as near:
        assert far.observation_space == near.observation_space
        assert far.action_space == near.action_space
        assert alike(episode(far, 7, actions), episode(near, 7, actions))
        assert alike(episode(far, None, actions[:5])[1:][0][1:], (1.0, False, False, {}))


@pytest.mark.process
def test_it_is_a_whole_environment(url):
    with paddock.make(url, render_mode="rgb_array") as env:
        assert isinstance(env, paddock.Env)
        with pytest.raises(ResetNeeded):
            env.step(0)
        env.reset(seed=1)
        env.step(1)
        state = env.state()
        assert (state.step_count, state.episode_id is not None) == (1, True)
        assert paddock.state(env).step_count == 1
        assert env.render().shape == (400, 600, 3)
        assert (env.spec.id, env.spec.entry_point) == ("CartPole-v1", None)
        with pytest.raises(InvalidAction):
            env.step(5)
        with pytest.raises(InvalidSeed):
            env.reset(seed=-1)
        saved = env.snapshot()
        first = env.step(0)
        env.restore(saved)
        assert alike(env.step(0), first)
    with pytest.raises(ClosedEnvironmentError):
        env.step(0)
    env.close()


@pytest.mark.process
def test_arguments_reach_the_environment(server):
    with paddock.make(server.with_token("/FrozenLake-v1"), map_name="8x8") as env:
        assert env.observation_space.n == 64
    with pytest.raises(NotPermitted, match="map_name"):
        paddock.make(server.with_token("/FrozenLake-v1"), entry_point="os:system")
    with pytest.raises(PlanError, match="colour"):
        paddock.make(server.with_token("/FrozenLake-v1"), colour=object())


@pytest.mark.process
def test_wrappers_run_here_around_it(url):
    clip = paddock.wrappers.ClipReward.wrapper_spec(min_reward=0.0, max_reward=0.25)
    with paddock.make(url, wrappers=[clip, paddock.wrappers.TimeAwareObservation]) as env:
        env.reset(seed=1)
        observation, reward, *_ = env.step(0)
        assert (reward, len(observation)) == (0.25, 5)


@pytest.mark.process
def test_a_wrapper_that_fails_leaves_no_session(server, url):
    def broken(env):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        paddock.make(url, wrappers=[broken])


@pytest.mark.process
def test_where_the_token_comes_from(server, monkeypatch):
    plain = f"{server.url}/CartPole-v1"
    with pytest.raises(Unauthenticated, match="PADDOCK_TOKEN"):
        paddock.make(plain)
    with paddock.make(plain, remote=RemoteOptions(token=server.token)) as env:
        env.reset()
    with paddock.make(server.with_token("/CartPole-v1", token=f"anyone:{server.token}")) as env:
        env.reset()
    monkeypatch.setenv("PADDOCK_TOKEN", server.token)
    with paddock.make(plain.replace("http://", "ws://")) as env:
        env.reset()
    with pytest.raises(Unauthenticated, match="does not know this token"):
        paddock.make(plain, remote=RemoteOptions(token="x" * 32))


@pytest.mark.process
def test_an_id_with_a_slash_is_found_as_it_is_read_and_percent_encoded():
    with serving("CartPole-v1", "paddock/Echo") as server:
        for path in ("/paddock/Echo", "/paddock%2FEcho", "/paddock/Echo/"):
            with paddock.make(server.with_token(path)) as env:
                env.reset()
        for path in ("/paddock/Echo", "/paddock%2FEcho"):
            with pytest.raises(Unauthenticated):
                paddock.make(server.url + path)
        for path in ("/paddock", "/paddock/Echo/ws", "/paddock/CartPole-v1", "/x/paddock/Echo"):
            with pytest.raises(UnregisteredEnv, match="/paddock%2FEcho"):
                paddock.make(server.with_token(path))


@pytest.mark.process
def test_what_there_is_not(server):
    with pytest.raises(UnregisteredEnv, match="/Nowhere-v0"):
        paddock.make(server.with_token("/Nowhere-v0"))
    with pytest.raises(UnregisteredEnv, match="/CartPole-v1, /FrozenLake-v1$"):  # two, so the root is none
        paddock.make(server.with_token())
    with pytest.raises(UnregisteredEnv, match="at '/FrozenLak-v1'.*that it has: /FrozenLake-v1, /CartPole-v1$"):
        paddock.make(server.with_token("/FrozenLak-v1"))
    with pytest.raises(Unauthenticated) as refused:  # a stranger is not told what there is
        paddock.make(server.with_token("/FrozenLak-v1", token="x" * 32))
    assert "FrozenLake-v1" not in str(refused.value)
    with pytest.raises(Unreachable, match="Is it running"):
        paddock.make("http://127.0.0.1:9/CartPole-v1", remote=RemoteOptions(connect_s=0.3))


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"isolation": "sandbox"}, "the server runs the environment"),
        ({"isolation": "none"}, "the server runs the environment"),
        ({"backend": "loop"}, "the server chooses it"),
        ({"validate": False}, "the server decides"),
        ({"max_episode_steps": 9}, "TimeLimit"),
        ({"num_envs": 2, "wrappers": [lambda env: env]}, "around each lane"),
        ({"num_envs": 2, "lanes": LaneOptions(workers=2)}, "on a server"),
        ({"num_envs": 0}, "at least 1"),
        ({"lanes": LaneOptions()}, "num_envs"),
        ({"remote": "token"}, "RemoteOptions"),
        ({"remote": RemoteOptions(deadline_s=0)}, "deadline_s=0"),
        ({"remote": RemoteOptions(connect_s=None)}, "connect_s"),
        ({"remote": RemoteOptions(wire="grpc")}, "wire='grpc'"),
        ({"remote": RemoteOptions(ca="a.pem", context=object())}, "Drop one"),
        ({"remote": RemoteOptions(ca="none.pem")}, "no certificates"),
    ],
)
def test_a_wish_that_the_server_alone_could_fulfil(wish, says):
    with pytest.raises(PlanError, match=says):
        paddock.make("https://127.0.0.1:9/CartPole-v1", **wish)


@pytest.mark.parametrize(
    "text", ["http://example.org/CartPole-v1", "https://host:0/x", "https://h/a?b", "http+unix://x/y"]
)
def test_an_address_that_is_refused_before_anyone_connects(text):
    with pytest.raises(PlanError):
        plan(locate(text))


def test_a_token_among_the_arguments_is_sent_to_nobody(monkeypatch):
    monkeypatch.delenv("PADDOCK_TOKEN", raising=False)
    with pytest.raises(PlanError, match=r"remote=paddock\.RemoteOptions\(token=\.\.\.\)") as caught:
        paddock.make("http://127.0.0.1:9/CartPole-v1", token="secret-of-the-server")
    assert "secret-of-the-server" not in str(caught.value)


def test_remote_options_are_for_servers():
    with pytest.raises(PlanError, match="Drop remote"):
        paddock.make("CartPole-v1", remote=RemoteOptions())


def test_a_token_is_shown_nowhere():
    target = locate("https://s3cret:s3cret@host.example/CartPole-v1")
    decided = plan(target, remote=RemoteOptions(token="s3cret2"), num_envs=4)
    said = f"{target!r} {decided!r} {decided.lines()!r}"
    assert "s3cret" not in said
    rows = dict(decided.lines())
    assert rows["target"] == "https://host.example/CartPole-v1 (url)"
    assert rows["wire"].startswith("paddock.v2, paddock.v1 or OpenEnv's")
    assert rows["connection"] == "TLS, with a token"
    assert rows["lanes"].startswith("4, all in one worker")


@pytest.mark.process
def test_repr_says_where_and_by_which_wire(url, server):
    with paddock.make(url) as env:
        assert repr(env) == f"RemoteEnv({server.url}/CartPole-v1, wire paddock.v2)"


@pytest.mark.process
def test_an_async_environment(url, server):
    async def play():
        async with await paddock.make_async(url, render_mode="rgb_array") as env:
            assert repr(env) == f"AsyncHostedEnv({server.url}/CartPole-v1, wire paddock.v2)"
            seen = [await env.reset(seed=7)]
            for action in (0, 1, 1):
                seen.append(await env.step(action))
            assert (await env.render()).shape == (400, 600, 3)
            assert (await env.state()).step_count == 3
            return seen

    with paddock.make("CartPole-v1") as near:
        assert alike(asyncio.run(play()), episode(near, 7, (0, 1, 1)))


def test_async_is_for_servers():
    with pytest.raises(PlanError, match="isn't one"):
        asyncio.run(paddock.make_async("CartPole-v1"))


@pytest.mark.process
def test_what_is_refused_costs_the_session_nothing(url):
    with paddock.make(url) as env:
        env.reset(seed=1)
        for _ in range(3):
            with pytest.raises(NotPermitted, match="underscore"):
                env.call("_np_random")
        deep = []
        for _ in range(40):
            deep = [deep]
        with pytest.raises(NotTransferable, match="nested"):  # before it is sent: a server would not take it
            env.reset(options={"deep": deep})
        assert env.step(0)[1] == 1.0


@pytest.mark.process
@pytest.mark.parametrize("lanes", [None, 2])
def test_a_lost_worker_is_never_a_fresh_environment(server, url, lanes):
    with paddock.make(url, num_envs=lanes) as env:
        env.reset(seed=1)
        request = urllib.request.Request(f"{server.url}/sessions", headers={"Authorization": f"Bearer {server.token}"})
        with urllib.request.urlopen(request, timeout=20) as response:
            newest = min(json.load(response)["sessions"], key=lambda one: one["age_s"])
        os.kill(newest["pid"], signal.SIGKILL)
        with pytest.raises(WorkerLost) as lost:  # when the signal has arrived
            for _ in range(100_000):
                env.reset()
        assert lost.value.code == "ENV_LOST"
        with pytest.raises(WorkerLost):
            env.reset()


@pytest.mark.process
def test_openenvs_wire_when_it_is_asked_for(url, server):
    """A paddock server speaks both, so the same environment can be looked at through OpenEnv's."""
    with paddock.make(url, remote=RemoteOptions(wire="openenv")) as env:
        assert repr(env) == f"OpenEnvServerEnv({server.url}/CartPole-v1, wire OpenEnv)"
        observation, info = env.reset(seed=7)
        assert (len(observation["value"]), observation["done"], info) == (4, False, {})
        assert observation in env.observation_space
        observation, reward, terminated, truncated, info = env.step({"action": 1})
        assert (reward, terminated, truncated, observation["terminated"]) == (1.0, False, False, False)
        with pytest.raises(InvalidAction, match="action"):
            env.step({"action": "left"})
        assert (env.state().step_count, paddock.state(env).step_count) == (1, 1)
        assert env.action_space.sample()["action"] in (0, 1)
    with pytest.raises(ClosedEnvironmentError):
        env.reset()
    for wish in ({"num_envs": 2}, {"render_mode": "rgb_array"}, {"sutton_barto_reward": True}):
        with pytest.raises(PlanError, match="no place for it"):
            paddock.make(url, remote=RemoteOptions(wire="openenv"), **wish)
    with pytest.raises(Unauthenticated):
        paddock.make(f"{server.url}/CartPole-v1", remote=RemoteOptions(wire="openenv"))
    with pytest.raises(UnregisteredEnv):
        paddock.make(server.with_token("/Nowhere-v0"), remote=RemoteOptions(wire="openenv"))


@pytest.mark.process
def test_light_import(server):
    """A client needs NumPy and msgspec: no server framework, no pydantic, no TLS where there is none."""
    program = """
import json, sys
import paddock
with paddock.make(sys.argv[1]) as env:
    env.reset(seed=1)
    env.step(0)
print(json.dumps(sorted(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, server.with_token("/CartPole-v1")],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, done.stderr
    modules = json.loads(done.stdout)
    heavy = {"pydantic", "mcp", "fastmcp", "gradio", "starlette", "fastapi", "uvicorn", "httpx", "websockets"}
    heavy |= {"picows", "uvloop", "numba", "rich", "gymnasium", "openenv", "asyncio", "ssl", "cloudpickle"}
    assert heavy & {name.partition(".")[0] for name in modules} == set()
    assert [name for name in modules if name.startswith(("paddock.server", "paddock.openenv", "paddock.cli"))] == []
