"""Servers of the package's own application on loopback, and raw requests to them."""

import json
import os
import re
import socket
import threading
from contextlib import suppress
from importlib import import_module

import httpx
import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import State
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from world import Count, Heard, Say

os.environ["PADDOCK_ISOLATION"] = "auto"
RUNNING = {}


def url(env="Echo", most=4, **options):
    """Where a server of this environment is: one for each kind. They end with the process."""
    key = (env, most, *sorted(options.items()))
    if key not in RUNNING:
        tools = env == "Tools"
        action, observation, state = (CallToolAction, CallToolObservation, State) if tools else (Say, Heard, Count)
        made = getattr(import_module("toolworld" if tools else "world"), env)
        app = create_app(made, action, observation, "echo", most, state_cls=state, **options)
        place = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        threading.Thread(target=server.run, kwargs={"sockets": [place]}, daemon=True).start()
        RUNNING[key] = f"http://127.0.0.1:{place.getsockname()[1]}"
    return RUNNING[key]


def clean(value):
    """Without what differs from run to run: ids, incidents, and the address of pydantic's pages."""
    text = re.sub(r'"[0-9a-f]{8}-[0-9a-f-]{27}"', '"ID"', json.dumps(value))
    text = re.sub(r"incident [0-9a-f]+", "incident N", text)
    return json.loads(re.sub(r', "url": "https://errors[^"]*"', "", text))


def http(method, path, body=None, env="Echo", **options):
    """The status, and the answer as JSON or text."""
    content = body if isinstance(body, (str, bytes)) or body is None else json.dumps(body)
    headers = {"content-type": "application/json"}
    answer = httpx.request(method, url(env, **options) + path, content=content, headers=headers, timeout=60)
    with suppress(ValueError):
        return [answer.status_code, clean(answer.json())]
    return [answer.status_code, answer.text]


def ws(*frames, env="Echo", path="/ws", **options):
    """What each frame is answered with, and at last 'closed' if the server hangs up."""
    answers = []
    with connect(url(env, **options).replace("http", "ws") + path, max_size=None, open_timeout=60) as peer:
        for frame in frames:
            try:
                with suppress(ConnectionClosed):  # what it said before it hung up can still be read
                    peer.send(frame if isinstance(frame, (str, bytes)) else json.dumps(frame))
                answers.append(clean(json.loads(peer.recv(60))))
            except ConnectionClosed as error:
                return [*answers, f"closed {error.rcvd and error.rcvd.code}"]
    return answers


def rpc(method, params=None, **more):
    """A request of JSON-RPC."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}, **more}


def step(text, **fields):
    """A message to step."""
    return {"type": "step", "data": {"text": text, **fields}}


reset = {"type": "reset", "data": {}}
