"""make(url) of an OpenEnv server, against one that counts its sessions."""

import threading

import pytest

import paddock
from paddock import RemoteOptions
from paddock.errors import InvalidAction, PlanError, SessionGone
from tests.openenv.scripted_server import ScriptedServer, echo

CALL_TOOL = {
    "title": "CallToolAction",
    "type": "object",
    "properties": {"type": {"const": "call_tool", "type": "string"}, "tool_name": {"type": "string"}},
    "required": ["tool_name"],
    "additionalProperties": False,
}


def test_one_session_is_opened():
    with ScriptedServer(echo) as server, paddock.make(server.url) as env:
        assert env.reset(seed=1)[0]["value"] == ["reset", {"seed": 1}, 0]
        assert env.step({"a": 1})[0]["value"][2] == 1
        assert server.sessions == 1


def test_a_server_with_one_slot_and_a_slow_constructor_has_room():
    slot, built = threading.Lock(), threading.Event()

    def script(peer):
        if not slot.acquire(blocking=False):
            peer.send({"type": "error", "data": {"message": "Server at capacity: 1/1", "code": "CAPACITY_REACHED"}})
            return
        assert built.wait(30)  # the slot is taken until the environment is there, whoever has left meanwhile
        echo(peer)
        slot.release()

    with ScriptedServer(script) as server, paddock.make(server.url) as env:
        built.set()
        assert env.reset()[0]["value"][0] == "reset"


@pytest.mark.parametrize(
    "options", [{"num_envs": 2}, {"render_mode": "rgb_array"}, {"remote": RemoteOptions(wire="paddock.v2")}], ids=str
)
def test_a_refusal_closes_the_connection(options):
    gone = threading.Event()

    def script(peer):
        try:
            peer.ask()
        except (EOFError, OSError):
            gone.set()

    with ScriptedServer(script) as server:
        with pytest.raises(PlanError):
            paddock.make(server.url, **options)
        assert gone.wait(30)
        assert server.sessions == 1


def test_a_lost_episode_begins_again_in_a_session_of_its_own():
    def script(peer):
        peer.ask()
        peer.close(1011)

    with ScriptedServer(script, echo, echo) as server, paddock.make(server.url) as env:
        with pytest.raises(ConnectionError, match="1011"):
            env.reset()
        assert env.reset()[0]["value"][0] == "reset"
        assert server.sessions == 2


@pytest.mark.parametrize("pixels", [[0] * 100_800, [[[7, 8, 9]] * 160] * 210, [0.5] * 200_000])
def test_observations_may_be_as_large_as_pictures(pixels):
    def script(peer):
        peer.ask()
        peer.observe(pixels)
        peer.ask()

    with ScriptedServer(script) as server, paddock.make(server.url) as env:
        assert env.reset()[0]["value"] == pixels


def test_a_larger_answer_than_allowed_names_the_limit():
    def script(peer):
        peer.ask()
        peer.observe("x" * 40_000)
        peer.ask()

    limited = RemoteOptions(max_message_size_mb=1 / 32)
    with ScriptedServer(script) as server, paddock.make(server.url, remote=limited) as env:
        with pytest.raises(SessionGone, match=r"larger than max_message_size_mb=0\.03125 allows"):
            env.reset()
        with pytest.raises(SessionGone, match="reset"):
            env.step({})


@pytest.mark.parametrize("size", [0, -1, 2000, "1"])
def test_a_limit_that_makes_no_sense_is_refused(size):
    with pytest.raises(PlanError, match="max_message_size_mb"):
        paddock.make("http://127.0.0.1:1", remote=RemoteOptions(max_message_size_mb=size))


def test_list_tools_reaches_a_server_whose_schema_names_call_tool_only():
    with ScriptedServer(echo, schema={"action": CALL_TOOL}) as server, paddock.make(server.url) as env:
        env.reset()
        assert env.step({"type": "list_tools"})[0]["value"][1] == {"type": "list_tools"}
        assert env.step({"type": "call_tool", "tool_name": "add"})[0]["value"][1]["tool_name"] == "add"
        with pytest.raises(InvalidAction):
            env.step({"type": "other"})
