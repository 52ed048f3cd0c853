"""make(url) of an OpenEnv server: a real Env by OpenEnv's wire, found out by the handshake and said in the repr."""

import asyncio

import pytest

import paddock
from paddock import RemoteOptions
from paddock.errors import EnvFailed, InvalidAction, PlanError
from tests.openenv.real_server import real_server

pytestmark = pytest.mark.peers


def test_an_environment_of_their_server(server):
    peer, url = server
    with paddock.make(url) as env:
        assert repr(env) == f"OpenEnvServerEnv({url}, wire OpenEnv)"
        assert env.action_space.name == "EchoAction"
        observation, info = env.reset(seed=3, options={"colour": "red"})
        assert (observation["anything"], info) == ({"seed": 3, "colour": "red"}, {})
        observation, reward, terminated, truncated, info = env.step({"text": "HI"})
        assert (observation["echoed"], reward, terminated, truncated, info) == ("HI", 1.0, False, False, {})
        assert observation["metadata"] == ({"loud": True} if peer == "openenv10" else {})  # 0.3 loses them
        assert observation in env.observation_space
        assert env.step({"text": "end"})[2]
        assert (env.state().step_count, env.state().total) == (2, 5)


def test_their_errors_are_ours(server):
    _, url = server
    with paddock.make(url) as env:
        env.reset()
        with pytest.raises(InvalidAction, match="text: this field is missing"):  # by the schema, before it is sent
            env.step({})
        with pytest.raises(InvalidAction, match="<= 9"):
            env.step({"text": "x", "times": 10})
        with pytest.raises(EnvFailed, match="it broke"):
            env.step({"text": "crash"})
        assert env.step({"text": "none"})[1] == 0.0  # a reward that there is not
        assert env.step(env.action_space.sample())[0]["length"] >= 0


def test_a_wire_that_was_not_asked_for_is_not_spoken(server):
    _, url = server
    with pytest.raises(PlanError, match="does not speak paddock"):
        paddock.make(url, remote=RemoteOptions(wire="paddock.v1"))
    with pytest.raises(PlanError, match="GenericEnvClient"):
        asyncio.run(paddock.make_async(url))
    with pytest.raises(PlanError, match="num_envs"):
        paddock.make(url, num_envs=2)


def test_one_slot_and_a_constructor_of_three_seconds():
    with real_server("openenv10", "tests.openenv.worlds", "one_slot_app") as url, paddock.make(url) as env:
        assert env.reset()[0]["echoed"] == "ready"
        assert len(env.step({"text": "look"})[0]["anything"]) == 100_800


def test_tools_are_listed_and_called():
    with real_server("openenv10", "tests.server.real_tools") as url, paddock.make(url) as env:
        env.reset()
        tools = env.step({"type": "list_tools"})[0]["tools"]
        assert [tool["name"] for tool in tools] == ["echo", "add", "record", "nothing"]
        called = {"type": "call_tool", "tool_name": "add", "arguments": {"a": 1, "b": 2}}
        assert env.step(called)[0]["result"]["data"] == 3
