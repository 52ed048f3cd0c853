"""Stock clients for tools against ``paddock serve``, our client against real servers, and environments that port."""

import json
import subprocess

import pytest

from paddock.openenv import CallToolAction, ListToolsAction, MCPToolClient, ServerError
from tests.peers import ROOT, run_with_peer
from tests.server.paddock_serve import paddock_serve

GUESS = "tests.server.guess_world:Guess-v0"
PEERS = {"openenv10": "0.10", "openenv03": "0.3"}

# In 0.10 a production client calls tools over HTTP; in 0.3 it steps with them unless told otherwise.
CLIENT = """
import asyncio, json
from openenv.core.mcp_client import MCPToolClient
from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction

def failure(call):
    try:
        return call()
    except RuntimeError as error:
        return str(error)

def used(env):
    tools = env.list_tools()
    first = env.reset(index=1)
    step = env.step(CallToolAction(tool_name="guess", arguments={"number": 11}))
    listed = env.step(ListToolsAction()).observation.tools
    return {
        "tools": [tool.model_dump() for tool in tools],
        "same": [tool.name for tool in listed] == [tool.name for tool in tools],
        "metadata": first.observation.metadata,
        "said": step.observation.result["data"],
        "reward": step.reward,
        "called": env.call_tool("guess", number=0),
        "notes": env.call_tool("notes", about="aab"),
        "has": [env.has_tool("guess"), env.has_tool("nope")],
        "complaint": failure(lambda: env.call_tool("complain")),
        "crash": failure(lambda: env.call_tool("crash")),
        "wrong": failure(lambda: env.call_tool("guess", number="x")),
        "unknown": failure(lambda: env.call_tool("nope")),
        "steps": env.state().step_count,
    }

def without_reset():
    with MCPToolClient(base_url=URL).sync() as env:
        return [env.call_tool("guess", number=0), env.call_tool("guess", number=11)]

async def two_at_once():
    async with MCPToolClient(base_url=URL) as env, MCPToolClient(base_url=URL) as other:
        return await asyncio.gather(env.call_tool("guess", number=0), other.call_tool("guess", number=11))

found = {}
for production in (True, False):
    with MCPToolClient(base_url=URL).sync() as env:
        client = getattr(env, "async_client", None) or env._async
        client.use_production_mode = production
        found["http" if production else "steps"] = used(env)
print(json.dumps({**found, "at_once": [without_reset(), asyncio.run(two_at_once())]}))
"""


@pytest.fixture(scope="module", params=PEERS)
def peer_and_seen(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    with paddock_serve(folder, GUESS, "--wire", PEERS[request.param]) as server:
        seen = run_with_peer(request.param, CLIENT.replace("URL", repr(server.url())))
        assert server.ask("GET", "/sessions").json == {"sessions": []}
        yield request.param, seen


@pytest.mark.peers
@pytest.mark.parametrize("way", ["http", "steps"])
def test_the_stock_client_lists_and_calls_tools(peer_and_seen, way):
    peer, seen = peer_and_seen[0], peer_and_seen[1][way]
    assert [tool["name"] for tool in seen["tools"]] == ["guess", "notes", "look", "complain", "crash"]
    assert seen["tools"][0]["description"] == "Guess the number."
    assert seen["tools"][0]["input_schema"]["properties"]["number"]["type"] == "integer"
    assert seen["same"] and seen["has"] == [True, False]
    assert (seen["said"], seen["reward"], seen["called"]) == ("Lower.", 0.0, "Higher.")
    assert seen["notes"] == {"a": 2, "b": 1}
    told = {"split": "train", "index": 1, "prompt": "Guess number 1.", "seed": 1, "metadata": {}}
    assert seen["metadata"] == ({"info": {"task": told}} if peer == "openenv10" else {})
    assert "The desk is closed." in seen["complaint"]
    assert "ValueError" in seen["crash"] and "hunter2" not in json.dumps(seen)
    assert "expected int" in seen["wrong"] and "nope" in seen["unknown"]
    assert seen["steps"] == (7 if peer == "openenv10" or way == "steps" else 1)  # 0.3's has a session of its own there


@pytest.mark.peers
def test_calls_need_no_reset(peer_and_seen):
    assert peer_and_seen[1]["at_once"] == [["Higher.", "Lower."]] * 2


@pytest.mark.peers
def test_openenv_validate_passes_all_six(tmp_path):
    python = subprocess.run([ROOT / "scripts" / "peer", "openenv10"], capture_output=True, text=True, check=True)
    command = python.stdout.strip().replace("/python", "/openenv")
    with paddock_serve(tmp_path, GUESS) as server:
        done = subprocess.run([command, "validate", "--url", server.url()], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("  PASS  ") == 6 and "FAIL" not in done.stdout, done.stdout


@pytest.mark.process
def test_our_client_has_the_same_calls(tmp_path):
    with paddock_serve(tmp_path, GUESS) as server, MCPToolClient(base_url=server.url()) as env:
        tools = env.list_tools()
        assert [tool.name for tool in tools] == ["guess", "notes", "look", "complain", "crash"]
        assert env.list_tools() is tools and env.list_tools(use_cache=False) == tools
        assert env.has_tool("guess") and env.get_tool("nope") is None
        assert env.call_tool("notes", about="aab") == {"a": 2, "b": 1}
        with pytest.raises(ServerError, match="Tool 'complain' failed: The desk is closed"):
            env.call_tool("complain")
        first = env.reset(index=1)
        assert first.observation.content == [{"type": "text", "text": "Guess number 1."}]
        step = env.step(CallToolAction(tool_name="guess", arguments={"number": 0}))
        assert (step.observation.result["data"], step.reward, step.observation.error) == ("Higher.", 0.0, None)
        wrong = env.step(CallToolAction(tool_name="guess", arguments={"number": "x"}))
        assert wrong.observation.error.error_type.value == "invalid_args"
        assert env.step(ListToolsAction()).observation.tools == tools
        assert env.state().step_count == 2
    with pytest.raises(ValueError, match="only supports 'production' mode"):
        MCPToolClient(base_url="http://host", mode="simulation")


@pytest.mark.process
def test_our_client_awaits_too(tmp_path):
    import asyncio

    async def used(url):
        async with MCPToolClient(base_url=url) as env:
            tools = await env.list_tools()
            assert await env.list_tools() is tools
            return [await env.call_tool("guess", number=0), await env.has_tool("guess"), await env.has_tool("nope")]

    with paddock_serve(tmp_path, GUESS) as server:
        assert asyncio.run(used(server.url())) == ["Higher.", True, False]


OUR_CLIENT = """
import json, threading, time, socket
import uvicorn
from tests.server.real_tools import application
listening = socket.create_server(("127.0.0.1", 0))
server = uvicorn.Server(uvicorn.Config(application(), log_level="error"))
thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
thread.start()
from paddock.openenv import MCPToolClient
with MCPToolClient(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}") as env:
    seen = [[tool.name for tool in env.list_tools()], env.call_tool("add", a=2, b=3), env.reset().done]
server.should_exit = True
thread.join(10)
print(json.dumps(seen))
"""


@pytest.mark.peers
@pytest.mark.parametrize("peer", PEERS)
def test_our_client_with_the_real_server(peer):
    assert run_with_peer(peer, OUR_CLIENT) == [["echo", "add", "record", "nothing"], 5, False]


# In the venv of a peer: FastMCP is there. The server is ours, the environment's base is the real one, or ours.
PORTED = """
import json, sys, tempfile
from pathlib import Path
sys.argv = ["test"]
from paddock.sources.openenv import AsEnv
from tests.server import real_tools

def seen(cls, action, observation):
    env = AsEnv(cls, action, observation)
    first = env.reset()[0]
    listed = env.step({"type": "list_tools"})[0]
    called = env.step({"type": "call_tool", "tool_name": "add", "arguments": {"a": 2, "b": 3}})[0]
    unknown = env.step({"tool_name": "nope"})[0]
    tools = env.metadata["tools"]
    env.close()
    return [first, listed, called, unknown, tools]

from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
theirs = seen(real_tools.environment_class(), CallToolAction, CallToolObservation)
from paddock.openenv import CallToolAction, CallToolObservation, MCPEnvironment, Observation, State
ours = seen(real_tools.made(MCPEnvironment, Observation, State), CallToolAction, CallToolObservation)
print(json.dumps([theirs, ours]))
"""


@pytest.mark.peers
def test_an_mcp_environment_ports_by_its_imports():
    theirs, ours = run_with_peer("openenv10", PORTED)
    assert ours == theirs
    first, listed, called, unknown, tools = ours
    assert first["metadata"] == {"status": "ready"}
    assert [tool["name"] for tool in listed["tools"]] == [tool["name"] for tool in tools]
    assert called["result"]["data"] == 5 and called["error"] is None
    assert unknown["error"] == {"error_type": "tool_not_found", "message": "Unknown tool: 'nope'"}


# Every kind of tool, called through FastMCP's session and around its transport.
AROUND = """
import datetime, json, sys
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import Middleware
from fastmcp.tools.base import ToolResult
from fastmcp.utilities.types import Image
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Observation, State
from pydantic import BaseModel
from paddock.sources import fastmcp
from paddock.sources.openenv import AsEnv

class Shout(Middleware):
    async def on_call_tool(self, context, call_next):
        if context.message.name == "shouted":
            context.message.arguments = {"text": context.message.arguments["text"].upper()}
        return await call_next(context)

class Point(BaseModel):
    x: int
    at: datetime.datetime

def shouted(text: str) -> str: return text
def when() -> datetime.datetime: return datetime.datetime(2020, 1, 2)
def some() -> set[int]: return {1}
def point(x: int) -> Point: return Point(x=x, at=datetime.datetime(2020, 1, 2))
def untyped(x=1): return {"x": x, "y": [1.5, None]}
def nothing() -> None: return None
def picture() -> Image: return Image(data=b"abc", format="png")
def several() -> list: return ["a", Image(data=b"abc", format="png"), {"b": 1}]
def fails(): raise ValueError("no")
def refuses(): raise ToolError("not now")
def lies() -> int: return ToolResult(content="x", structured_content={"result": "no integer"})
def broken(): return ToolResult(content="x", is_error=True)
async def logs(ctx: Context) -> list[bool]:
    await ctx.info("a word")
    await ctx.report_progress(1, 2)
    before = await ctx.get_state("seen")
    await ctx.set_state("seen", True)
    return [bool(ctx.session_id), bool(before), ctx.client_id is None]
async def waits():
    import asyncio
    await asyncio.sleep(60)

TOOLS = [shouted, when, some, point, untyped, nothing, picture, several, fails, refuses, lies, broken, logs, waits]

class Many(MCPEnvironment):
    def __init__(self):
        server = FastMCP("many", middleware=[Shout()])
        for one in TOOLS:
            server.tool(one)
        super().__init__(server)
    def reset(self, seed=None, episode_id=None, **kwargs):
        return Observation(metadata={})
    def _step_impl(self, action, timeout_s=None, **kwargs):
        return Observation()
    async def step_async(self, action, timeout_s=None, **kwargs):
        timeout_s = 0.2 if getattr(action, "tool_name", "") == "waits" else None
        return await super().step_async(action, timeout_s=timeout_s, **kwargs)
    @property
    def state(self):
        return State(episode_id="e", step_count=0)

CALLS = [(one.__name__, {}) for one in TOOLS] + [
    ("shouted", {"text": "é"}), ("shouted", {"text": 5}), ("shouted", {"text": "a", "more": 1}), ("point", {"x": 3}),
    ("point", {"x": "three"}), ("untyped", {"x": [1]}), ("nope", {}), ("lies", {}), ("logs", {}), ("when", {}),
]


def seen():
    env = AsEnv(Many, CallToolAction, CallToolObservation)
    env.reset()
    sent = []
    session = env.environment.mcp_client.session
    send = session.send_request
    session.send_request = lambda request, *a, **k: sent.append(request.root.method) or send(request, *a, **k)
    found = [env.step({"type": "call_tool", "tool_name": name, "arguments": given})[0] for name, given in CALLS]
    env.close()
    return found, sent.count("tools/call")

around, sent = seen()
async def leave(session, server): pass
fastmcp._skip_transport = leave
through, sent_through = seen()
print(json.dumps([around, sent, through, sent_through, len(CALLS)]))
"""


@pytest.mark.peers
def test_a_call_around_fastmcps_transport_is_the_same():
    around, sent, through, sent_through, calls = run_with_peer("openenv10", AROUND)
    assert around == through
    assert (sent, sent_through) == (0, calls)
    failed = [one["tool_name"] for one in around if one["error"] is not None]
    assert failed[:8] == ["shouted", "point", "several", "fails", "refuses", "lies", "broken", "waits"]
    assert failed[8:] == ["shouted", "point", "nope", "lies"]
