"""Stock clients of the real packages against ``paddock serve``, and OpenEnv's own tools. The other way round, our
clients against their servers, is in tests/openenv."""

import subprocess
from pathlib import Path

import pytest

import paddock
from tests.peers import ROOT, run_with_peer
from tests.server.paddock_serve import paddock_serve

pytestmark = pytest.mark.peers

PEERS = {"openenv10": "0.10", "openenv03": "0.3"}
ECHO = "tests.openenv.worlds:EchoEnv"

CLIENTS = """
import asyncio, json
from openenv.core import EnvClient, GenericEnvClient
from openenv.core.client_types import StepResult
try:
    from openenv.core import Action, Observation, State
except ImportError:
    from openenv.core.env_server.types import Action, Observation, State

class EchoAction(Action):
    text: str

class EchoObservation(Observation):
    echoed: str
    length: int
    anything: object = None

class EchoState(State):
    total: int

class Echo(EnvClient[EchoAction, EchoObservation, EchoState]):
    def _step_payload(self, action):
        return action.model_dump()
    def _parse_result(self, payload):
        fields = {"reward": payload["reward"], "done": payload["done"], **payload["observation"]}
        return StepResult(EchoObservation(**fields), payload["reward"], payload["done"])
    def _parse_state(self, payload):
        return EchoState(**payload)

CARTPOLE, ECHO = URLS

def episode(result):
    seen = result.observation
    return [seen["value"], result.reward, result.done, seen["terminated"], seen["truncated"]]

def plain_sync():
    with GenericEnvClient(base_url=CARTPOLE).sync() as env:
        rows = [episode(env.reset(seed=7))]
        while not rows[-1][2]:
            rows.append(episode(env.step({"action": 1})))
        return {"rows": rows, "state": env.state(), "again": episode(env.reset(seed=7)) == rows[0]}

async def plain_async():
    async with GenericEnvClient(base_url=CARTPOLE) as env, GenericEnvClient(base_url=CARTPOLE) as other:
        await asyncio.gather(env.reset(seed=7), other.reset(seed=8))
        rows = await asyncio.gather(env.step({"action": 1}), other.step({"action": 1}))
        return [episode(row) for row in rows]

def refusals(env, *actions):
    for action in actions:
        try:
            env.step(action)
        except RuntimeError as error:
            yield str(error)

def typed_sync():
    with Echo(base_url=ECHO).sync() as env:
        first = env.reset(seed=3, episode_id="mine")
        second = env.step(EchoAction(text="HI"))
        said = list(refusals(env, EchoAction(text="rude"), EchoAction(text="crash")))
        state = env.state()
        return [first.observation.anything, second.observation.echoed, second.observation.metadata, said,
                [state.episode_id, state.step_count, state.total]]

async def typed_async():
    async with Echo(base_url=ECHO) as env:
        await env.reset()
        result = await env.step(EchoAction(text="end"))
        return [result.observation.echoed, result.reward, result.done, (await env.state()).total]

def refused_without_token():
    import re
    try:
        with GenericEnvClient(base_url=re.sub("//.*@", "//", CARTPOLE)).sync() as env:
            env.reset()
    except Exception as error:
        return str(error)

print(json.dumps({
    "plain_sync": plain_sync(), "plain_async": asyncio.run(plain_async()), "typed_sync": typed_sync(),
    "typed_async": asyncio.run(typed_async()), "no_token": refused_without_token(),
}))
"""


@pytest.fixture(scope="module", params=PEERS)
def peer_and_seen(request, tmp_path_factory):
    """What clients of a real package saw of our server."""
    folder = tmp_path_factory.mktemp("serve")
    with paddock_serve(folder, "CartPole-v1", ECHO, "--wire", PEERS[request.param]) as server:
        urls = (server.url("CartPole-v1"), server.url("EchoEnv"))
        yield request.param, run_with_peer(request.param, CLIENTS.replace("URLS", repr(urls)))


def test_a_whole_episode_of_a_gym_environment_is_the_one_that_it_is_here(peer_and_seen):
    _, seen = peer_and_seen
    env = paddock.make("CartPole-v1")
    observation, _ = env.reset(seed=7)
    rows = [[observation.tolist(), None, False, False, False]]
    while not rows[-1][2]:
        observation, reward, terminated, truncated, _ = env.step(1)
        rows.append([observation.tolist(), reward, terminated or truncated, terminated, truncated])
    assert seen["plain_sync"]["rows"] == rows
    assert seen["plain_sync"]["again"] is True
    assert seen["plain_sync"]["state"]["step_count"] == len(rows) - 1


def test_async_clients_have_an_environment_each(peer_and_seen):
    _, seen = peer_and_seen
    for row, seed in zip(seen["plain_async"], (7, 8), strict=True):
        env = paddock.make("CartPole-v1")
        env.reset(seed=seed)
        assert row[0] == env.step(1)[0].tolist()


def test_a_typed_client_of_an_environment_written_for_openenv(peer_and_seen):
    peer, seen = peer_and_seen
    anything, echoed, metadata, said, state = seen["typed_sync"]
    assert (anything, echoed, state) == ({"seed": 3}, "HI", ["mine", 2, 7])
    assert metadata == ({"loud": True} if peer == "openenv10" else {})
    assert said[0] == "Server error: Invalid message (code: VALIDATION_ERROR)"
    assert said[1].startswith("Server error: The environment raised RuntimeError (incident ")
    assert said[1].endswith(" (code: EXECUTION_ERROR)")
    assert seen["typed_async"] == ["end", 1.5, True, 3]


def test_without_the_token_nobody_gets_in(peer_and_seen):
    assert "401" in peer_and_seen[1]["no_token"]


@pytest.mark.parametrize("target", ["CartPole-v1", ECHO])
def test_openenv_validate_passes_all_six(target, tmp_path):
    python = subprocess.run([ROOT / "scripts" / "peer", "openenv10"], capture_output=True, text=True, check=True)
    command = Path(python.stdout.strip()).with_name("openenv")
    with paddock_serve(tmp_path, target) as server:
        done = subprocess.run([command, "validate", "--url", server.url()], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("  PASS  ") == 6 and "FAIL" not in done.stdout, done.stdout


TOOLS = """
import json
from openenv.core.mcp_client import MCPToolClient

with MCPToolClient(base_url=URL, mode="production").sync() as env:
    tools = env.list_tools()
    first = env.reset(seed=7)
    state = env.state()
print(json.dumps({"tools": tools, "observation": first.observation.model_dump(), "steps": state.step_count}))
"""


def test_the_tool_client_makes_a_session_over_http_and_joins_it(tmp_path):
    with paddock_serve(tmp_path, "CartPole-v1", "--max-sessions", "1") as server:
        seen = run_with_peer("openenv10", TOOLS.replace("URL", repr(server.url())))
        assert server.ask("GET", "/sessions").json == {"sessions": []}
    assert (seen["tools"], seen["steps"]) == ([], 0)
    assert seen["observation"]["value"] == paddock.make("CartPole-v1").reset(seed=7)[0].tolist()
