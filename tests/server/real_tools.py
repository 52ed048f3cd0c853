"""The tools of ``tool_world`` as an MCPEnvironment of the real package. Run in a venv of OpenEnv; prints JSON."""

import json

CALLS = [
    ("echo", {"message": "hi"}),
    ("echo", {"message": 'é\u2028"<&'}),
    ("add", {"a": 1, "b": 2}),
    ("record", {"n": 1}),
    ("nothing", {}),
    ("nope", {}),
]
STEPS = [
    {"type": "list_tools"},
    {"type": "list_tools", "x": 1},
    *({"type": "call_tool", "tool_name": name, "arguments": given} for name, given in CALLS),
    {"type": "call_tool", "tool_name": "nothing"},
    {"tool_name": "nothing"},
    {"type": "call_tool", "tool_name": "nothing", "metadata": {"a": 1}},
    {"type": "call_tool"},
    {"type": "call_tool", "tool_name": 5, "arguments": [1], "metadata": 7, "y": 0},
]
RPC = [
    {"method": "tools/list"},
    *({"method": "tools/call", "params": {"name": name, "arguments": given}} for name, given in CALLS),
    {"method": "tools/call", "params": {}},
    {"method": "tools/call", "params": {"name": "nothing"}},
    {"method": "tools/call", "params": {"name": "nothing", "arguments": None}},
    {"method": "tools/call", "params": {"name": 5, "arguments": "x"}},
    {"method": "tools/other"},
]


def rpc(number, asked):
    return json.dumps({"jsonrpc": "2.0", "id": number, **asked})


def main():
    from fastapi.testclient import TestClient

    app = application()
    with TestClient(app) as client:
        with client.websocket_connect("/ws") as socket:
            steps = [asked(socket, json.dumps({"type": "step", "data": data})) for data in STEPS]
            framed = [
                asked(socket, json.dumps({"type": "mcp", "data": json.loads(rpc(number, one))}))
                for number, one in enumerate(RPC)
            ]
        with client.websocket_connect("/mcp") as socket:
            spoken = [asked(socket, rpc(number, one)) for number, one in enumerate(RPC)]
        posted = [client.post("/mcp", content=rpc(number, one)).text for number, one in enumerate(RPC)]
        http = [client.post("/step", json={"action": data}).text for data in STEPS]
    print(json.dumps({"steps": steps, "framed": framed, "spoken": spoken, "posted": posted, "http": http}))


def asked(socket, text):
    socket.send_text(text)
    return socket.receive_text()


def application():
    from openenv.core.env_server.http_server import create_app
    from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation

    return create_app(environment_class(), CallToolAction, CallToolObservation, max_concurrent_envs=4)


def environment_class():
    from openenv.core.env_server.mcp_environment import MCPEnvironment
    from openenv.core.env_server.types import Observation, State

    return made(MCPEnvironment, Observation, State)


def made(base, observation, state):
    """The environment, of any package that has OpenEnv's names."""
    from fastmcp import FastMCP

    class Tools(base):
        """The same tools."""

        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self):
            server = FastMCP("tools")
            for function in (echo, add, record, nothing):
                server.tool(function)
            super().__init__(server)

        def reset(self, seed=None, episode_id=None, **kwargs):
            return observation(done=False, reward=0.0, metadata={"status": "ready"})

        def _step_impl(self, action, timeout_s=None, **kwargs):
            return observation(metadata={"error": "unknown"})

        @property
        def state(self):
            return state(episode_id="e", step_count=0)

    return Tools


def echo(message: str) -> str:
    """Say it again."""
    return message


def add(a: int, b: int) -> int:
    """A tool."""
    return a + b


def record(n: int) -> dict:
    """A tool."""
    return {"n": n}


def nothing() -> None:
    """A tool."""
