"""A tool call over the wire: `paddock serve paddock/Echo` against an OpenEnv echo environment with its own server.

paddock's environment is in a worker behind a wall, its tools run with a time limit and its rubric grades each step;
OpenEnv's is an object in its server. All sides take turns in every round, on the same cores, over TCP on this machine.
Both sides call a tool by a step over a websocket, OpenEnv's faster way. For information: OpenEnv's ``call_tool``, which
is HTTP, OpenEnv's own client at our server, and calls in MCP by plain HTTP requests.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import statistics
import time
from contextlib import ExitStack, closing

from _remote_sides import HERE, SESSIONS, OpenEnv, OpenEnvClients, Paddock, peer_python

import paddock
from paddock.agentic import CallTool

ID, TOOL, MESSAGE = "paddock/Echo", "echo_message", "hello"
PATH = ID.replace("/", "%2F")
TURNS = 1_000_000_000  # echoes in an episode: none ends while it is measured
BAR = 8


class One:
    """paddock's client as most programs use it: one call after the other."""

    def __init__(self, url):
        self._env = paddock.make(url, turns=TURNS)
        self._env.reset(seed=0)

    def run(self, seconds):
        step, action, done = self._env.step, CallTool(TOOL, {"message": MESSAGE}), 0
        began_s = time.perf_counter()
        while time.perf_counter() - began_s < seconds:
            observation, _, terminated, _, _ = step(action)
            done += 1
        if observation.result != MESSAGE or terminated:
            raise RuntimeError(f"no echo: {observation}")
        return done, time.perf_counter() - began_s, []

    def close(self):
        self._env.close()


class Many:
    """Several at once in one loop, each with a session of its own."""

    def __init__(self, url):
        self._loop = asyncio.new_event_loop()
        self._envs = self._loop.run_until_complete(self._made(url))

    async def _made(self, url):
        envs = [await paddock.make_async(url, turns=TURNS) for _ in range(SESSIONS)]
        for env in envs:
            await env.reset(seed=0)
        return envs

    def run(self, seconds):
        began_s = time.perf_counter()
        done = self._loop.run_until_complete(self._all(began_s + seconds))
        return sum(done), time.perf_counter() - began_s, []

    async def _all(self, ends_s):
        return await asyncio.gather(*(self._calls(env, ends_s) for env in self._envs))

    async def _calls(self, env, ends_s):
        done, action = 0, CallTool(TOOL, {"message": MESSAGE})
        while time.perf_counter() < ends_s:
            await env.step(action)
            done += 1
        return done

    def close(self):
        for env in self._envs:
            self._loop.run_until_complete(env.close())
        self._loop.close()


class Mcp:
    """MCP by one connection of Python's own HTTP client."""

    def __init__(self, server):
        self._http = http.client.HTTPConnection("127.0.0.1", server.port)
        self._headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
        self._id = 0
        self._begin()

    def _begin(self):
        self._headers.pop("Mcp-Session-Id", None)
        answer = self._ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={})
        self._headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]

    def _ask(self, method, **params):
        self._id += 1
        body = json.dumps({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        self._http.request("POST", "/Echoes-v0/mcp", body, self._headers)
        answer = self._http.getresponse()
        self.body = answer.read()
        return answer

    def run(self, seconds):
        done = 0
        began_s = time.perf_counter()
        while time.perf_counter() - began_s < seconds:
            self._ask("tools/call", name=TOOL, arguments={"message": MESSAGE})
            done += 1
        if b'"isError":false' not in self.body:
            raise RuntimeError(self.body)
        return done, time.perf_counter() - began_s, []

    def close(self):
        self._http.close()


def measure(table, *, rounds, seconds):
    """The rows of a tool call."""
    python = peer_python()
    with ExitStack() as stack:
        server = stack.enter_context(Paddock(ID, str(HERE / "agentic_worlds")))
        peer = stack.enter_context(OpenEnv(python, "_openenv_tools_peer.py"))
        theirs = _clients(stack, python, f"http://127.0.0.1:{peer.port}", TOOL)
        mixed = _clients(stack, python, server.url("Echoes-v0", "x:"), TOOL)
        cases = {
            "one": stack.enter_context(closing(One(server.url(PATH)))).run,
            "*steps": lambda seconds: theirs.run("steps", seconds),
            "*calls": lambda seconds: theirs.run("calls", seconds),
            "mixed": lambda seconds: mixed.run("steps", seconds),
            "mcp": stack.enter_context(closing(Mcp(server))).run,
            "many": stack.enter_context(closing(Many(server.url(PATH)))).run,
            "*sessions": lambda seconds: theirs.run("sessions", seconds),
        }
        found = {name: [] for name in cases}
        for _ in range(rounds):
            for name, run in cases.items():
                done, took_s, _ = run(seconds)
                found[name].append(done / took_s)
    rates = {name: statistics.median(one) for name, one in found.items()}
    table.row("tool calls/s, 1 client, peer by steps", rates["one"], rates["*steps"], BAR)
    table.row(f"tool calls/s, {SESSIONS} sessions", rates["many"], rates["*sessions"], BAR)
    table.row("for information: 1 client, peer by call_tool", rates["one"], rates["*calls"])
    table.row("OpenEnv's client at our server, by steps", rates["mixed"], rates["*steps"])
    table.row("MCP by plain HTTP, peer by call_tool", rates["mcp"], rates["*calls"])


def _clients(stack, python, url, tool):
    made = OpenEnvClients(python, url, tool, program="_openenv_tools_peer.py")
    return stack.enter_context(closing(made))
