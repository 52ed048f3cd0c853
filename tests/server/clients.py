"""Clients of a server that the tests share: requests for tools, a session of MCP, and one of the native wire."""

from paddock.hosting import messages as m
from paddock.hosting.codec import decode_frame, encode
from paddock.hosting.mcp import VERSIONS
from tests.server.raw_peers import BINARY

ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}

CLIENT = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def step(name, **arguments):
    return {"type": "step", "data": {"type": "call_tool", "tool_name": name, "arguments": arguments}}


def rpc(method, id=1, **params):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(name, id=1, session=None, **arguments):
    named = {} if session is None else {"session_id": session}
    return rpc("tools/call", id, name=name, arguments=arguments, **named)


def post(peer, body, path="/Shop-v0/mcp"):
    answer = peer.ask("POST", path, body=body)
    assert answer.status == 200, answer
    return answer.json


def data(answer):
    return answer["data"]["observation"]["result"]["data"]


class McpClient:
    """A session of MCP."""

    def __init__(self, server, role="agent", version=VERSIONS[0], path="/Shop-v0/mcp"):
        self.peer, self.path, self.headers = server.peer(role), path, dict(ACCEPT)
        self.began = self.send(rpc("initialize", 0, protocolVersion=version, **CLIENT))
        self.headers["mcp-session-id"] = self.began.headers["mcp-session-id"]
        self.headers["mcp-protocol-version"] = self.began.json["result"]["protocolVersion"]

    def send(self, body, method="POST", **headers):
        return self.peer.ask(method, self.path, {**self.headers, **headers}, body)

    def ask(self, body):
        answer = self.send(body)
        assert answer.status == 200, answer
        assert answer.headers["content-type"] == "application/json"
        assert answer.json["id"] == body["id"]
        return answer.json

    def call(self, name, id=1, **arguments):
        return self.ask(call(name, id, **arguments))["result"]

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.send(b"", "DELETE")
        self.peer.sock.close()


class Native:
    """The native wire, one request at a time."""

    def __init__(self, peer, resume=None, path="/ws"):
        assert peer.upgrade(path, native=True).headers["sec-websocket-protocol"] == "paddock.v1"
        self.peer, self.count = peer, 0
        self.welcome = self.ask(m.Hello(resume))

    def ask(self, message):
        self.peer.frame(BINARY, b"".join(encode(message, self.count)))
        self.count += 1
        return self.answer()

    def answer(self):
        opcode, payload = self.peer.message()
        assert opcode == BINARY, payload
        return decode_frame(payload)[1]
