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


def serve(port):
    import uvicorn
    from openenv.core.env_server import create_app
    from openenv_worlds.tool_worlds import CallToolAction, CallToolObservation, Tools

    app = create_app(Tools, CallToolAction, CallToolObservation, env_name="echo", max_concurrent_envs=64)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


async def calling(call, ends_s, took):
    while (began_s := time.perf_counter()) < ends_s:
        await call()
        took.append(time.perf_counter() - began_s)


async def drive(url, tool):
    from openenv.core.env_server.mcp_types import CallToolAction
    from openenv.core.mcp_client import MCPToolClient

    action = CallToolAction(tool_name=tool, arguments={"message": MESSAGE})
    over_http, clients = MCPToolClient(base_url=url), []

    async def begin(count):
        while len(clients) < count:
            client = MCPToolClient(base_url=url)
            client.use_production_mode = False  # else it would hold a second session
            await client.connect()
            await client.reset()
            seen = await client.step(action)
            if seen.observation.result["data"] != MESSAGE:
                raise RuntimeError(f"no echo: {seen}")
            clients.append(client)
        return [lambda client=client: client.step(action) for client in clients[:count]]

    async def calls_of(case):
        if case != "calls":
            return await begin(1 if case == "steps" else SESSIONS)
        if await over_http.call_tool(tool, message=MESSAGE) != MESSAGE:
            raise RuntimeError("no echo")
        return [lambda: over_http.call_tool(tool, message=MESSAGE)]

    await over_http.connect()
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        case, seconds = line.split()
        took, calls = [], await calls_of(case)  # sessions are opened when first used
        began_s = time.perf_counter()
        ends_s = began_s + float(seconds)
        await asyncio.gather(*(calling(call, ends_s, took) for call in calls))
        print(json.dumps([len(took), time.perf_counter() - began_s, took]), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(int(sys.argv[2]))
    else:
        asyncio.run(drive(sys.argv[2], sys.argv[3]))
