"""The peer of _agentic_wire.py, in the venv of `scripts/peer openenv10`: OpenEnv's own server with tools, its clients.

    python _openenv_tools_peer.py server PORT
    python _openenv_tools_peer.py client URL TOOL

The environment is as OpenEnv's echo_env: an MCPEnvironment with FastMCP's tools. The driver reads lines
``case seconds`` and answers each with a line of JSON, as that of ``_openenv_peer.py`` does. Cases: "steps" calls the
tool by ``step(CallToolAction(…))`` over the websocket, "calls" by ``call_tool`` over HTTP, which is the client's
default; "sessions" are steps of many clients at once.
"""

import asyncio
import json
import sys
import time

SESSIONS = 16
MESSAGE = "hello"


def build_app():
    from fastmcp import FastMCP
    from openenv.core.env_server import create_app
    from openenv.core.env_server.mcp_environment import MCPEnvironment
    from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
    from openenv.core.env_server.types import Observation, State

    class Echo(MCPEnvironment):
        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self):
            server = FastMCP("echo")

            @server.tool
            def echo_message(message: str) -> str:
                """Echo a message."""
                return message

            super().__init__(server)
            self._steps = 0

        def reset(self, seed=None, episode_id=None, **kwargs):
            self._steps = 0
            return Observation(done=False, reward=0.0, metadata={"status": "ready"})

        def _step_impl(self, action, timeout_s=None, **kwargs):
            return Observation(done=False, reward=0.0)

        def step(self, action, timeout_s=None, **kwargs):
            self._steps += 1
            return super().step(action, timeout_s=timeout_s, **kwargs)

        async def step_async(self, action, timeout_s=None, **kwargs):
            self._steps += 1
            return await super().step_async(action, timeout_s=timeout_s, **kwargs)

        @property
        def state(self):
            return State(episode_id="one", step_count=self._steps)

    return create_app(Echo, CallToolAction, CallToolObservation, env_name="echo", max_concurrent_envs=64)


def serve(port):
    import uvicorn

    uvicorn.run(build_app(), host="127.0.0.1", port=port, log_level="error")


async def calling(call, ends_s, took):
    while (began_s := time.perf_counter()) < ends_s:
        await call()
        took.append(time.perf_counter() - began_s)


async def drive(url, tool):
    from openenv.core.env_server.mcp_types import CallToolAction
    from openenv.core.mcp_client import MCPToolClient

    action = CallToolAction(tool_name=tool, arguments={"message": MESSAGE})
    over_http = MCPToolClient(base_url=url)
    await over_http.connect()
    clients = []
    for _ in range(SESSIONS):
        client = MCPToolClient(base_url=url)
        client.use_production_mode = False  # else it would hold a second session
        await client.connect()
        await client.reset()
        clients.append(client)
    seen = await clients[0].step(action)
    if seen.observation.result["data"] != MESSAGE or await over_http.call_tool(tool, message=MESSAGE) != MESSAGE:
        raise RuntimeError(f"no echo: {seen}")
    cases = {
        "calls": [lambda: over_http.call_tool(tool, message=MESSAGE)],
        "steps": [lambda: clients[0].step(action)],
        "sessions": [lambda client=client: client.step(action) for client in clients],
    }
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        case, seconds = line.split()
        took = []
        began_s = time.perf_counter()
        ends_s = began_s + float(seconds)
        await asyncio.gather(*(calling(call, ends_s, took) for call in cases[case]))
        print(json.dumps([len(took), time.perf_counter() - began_s, took]), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(int(sys.argv[2]))
    else:
        asyncio.run(drive(sys.argv[2], sys.argv[3]))
