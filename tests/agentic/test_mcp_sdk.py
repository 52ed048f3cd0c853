"""Servers of MCP's official SDK as tools of an environment, by HTTP and as a program behind a wall."""

import os
import socket
import subprocess

import pytest

from paddock import Policy
from paddock.agentic import CallTool, Mcp, Task, Tasks, ToolEnv
from tests.peers import python_of

pytestmark = [pytest.mark.peers, pytest.mark.process]

SERVER = '''
import sys
from mcp.server.mcpserver import MCPServer

server = MCPServer("sums")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("no")


if len(sys.argv) > 1:
    server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run()
'''


class Sums(ToolEnv):
    """Adds by the tools of another."""

    tasks = Tasks(train=[Task(prompt="Add.")])


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "sums_server.py"
    path.write_text(SERVER)
    return str(path)


def check(server):
    with Sums() as env:
        env.servers = [server]
        observation, info = env.reset()
        assert [one.name for one in observation.tools] == ["add", "fail"] and info["servers"][0]["name"] == "sums"
        assert observation.tools[0].input_schema["required"] == ["a", "b"]
        assert env.step(CallTool("add", {"a": 2, "b": 3}))[0].result == 5
        assert "validation" in env.step(CallTool("add", {"a": "x"}))[0].error.message
        assert "fail" in env.step(CallTool("fail", {}))[0].error.message


def test_server_of_the_official_sdk_as_a_program_behind_a_wall(script):
    python = python_of("mcp")
    base = subprocess.run([python, "-c", "import sys; print(sys.base_prefix)"], capture_output=True, text=True).stdout
    venv = os.path.dirname(os.path.dirname(python))
    policy = Policy(
        programs=(python, os.path.realpath(python)), processes=32, read=(venv, base.strip(), script), call_s=300.0
    )
    check(Mcp([python, script], policy=policy, timeout_s=60.0))


def test_server_of_the_official_sdk_by_http(script):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [python_of("mcp"), "-u", script, str(port)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        for line in server.stderr:
            if "running on" in line:
                break
        check(Mcp(f"http://127.0.0.1:{port}/mcp"))
    finally:
        server.terminate()
        server.communicate()
