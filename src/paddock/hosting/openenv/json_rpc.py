"""OpenEnv's JSON-RPC on ``/mcp``: requests, sessions, failures and tools. Always an answer, never an HTTP error.

On ``/mcp`` itself a websocket's frames have spaces after commas and colons; HTTP bodies and ``/ws`` frames have none.
Tools are FastMCP's Python objects written down, not MCP: a tool that fails is an error here, a result in MCP.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from paddock.hosting import messages as m
from paddock.hosting.openenv.tool_form import Tool, ToolObservation, Tools, call, call_result, ending
from paddock.hosting.openenv.wire import Entry, WireError, entry, extras, parse_bounded, text_of
from paddock.spaces.json_data import NotJson

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_ERROR = -32000

Answer = dict[str, Any]

TOOL_METHODS = ("tools/list", "tools/call")
CREATE, CLOSE = "openenv/session/create", "openenv/session/close"


@dataclass(frozen=True)
class RpcRequest:
    """``session``: the session that the request names, if it names one."""

    method: str
    params: dict[str, Any] = field(default_factory=dict)
    id: str | int | None = None

    @property
    def session(self) -> str | None:
        named = self.params.get("session_id")
        return named if isinstance(named, str) and named else None


def read(body: bytes | str, *, websocket: bool = False) -> RpcRequest | Answer:
    """The request in a body or a frame, or the answer to something that is not a request."""
    try:
        data = parse_bounded(body)
    except NotJson as problem:
        return failure(None, PARSE_ERROR, f"Parse error: {problem}" if websocket else "Parse error")
    return read_data(data)


def read_data(data: Any) -> RpcRequest | Answer:
    """The same for data that is already parsed, such as the ``data`` of a frame on ``/ws``."""
    if not isinstance(data, dict):
        return failure(None, PARSE_ERROR, "Parse error")
    problems = _problems(data)
    if problems:
        return failure(None, INVALID_REQUEST, f"Invalid request: {text_of('JsonRpcRequest', problems)}")
    return RpcRequest(data["method"], data.get("params", {}), data.get("id"))


def _problems(data: dict[str, Any]) -> list[Entry]:
    problems = [] if "jsonrpc" in data else [entry("missing", ("jsonrpc",), data)]
    if data.get("jsonrpc", "2.0") != "2.0":
        problems.append(entry("literal_error", ("jsonrpc",), data["jsonrpc"], "Input should be '2.0'"))
    if "method" not in data:
        problems.append(entry("missing", ("method",), data))
    elif not isinstance(data["method"], str):
        problems.append(entry("string_type", ("method",), data["method"]))
    if not isinstance(data.get("params", {}), dict):
        problems.append(entry("dict_type", ("params",), data["params"]))
    if not isinstance(data.get("id"), (str, int, type(None))):
        problems += [entry("string_type", ("id", "str"), data["id"]), entry("int_type", ("id", "int"), data["id"])]
    return problems + extras(data, ("jsonrpc", "method", "params", "id"))


def success(id: str | int | None, result: Any) -> Answer:
    """The result of a request."""
    return {"jsonrpc": "2.0", "id": id, "result": result}


def failure(id: str | int | None, code: int, message: str, data: Any = None) -> Answer:
    """Why a request has no result."""
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, "data": data}}


def without_tools(request: RpcRequest) -> Answer:
    """The answer to everything but the two methods for sessions."""
    if request.method in TOOL_METHODS:
        return failure(request.id, INTERNAL_ERROR, "Environment does not support MCP")
    return failure(request.id, METHOD_NOT_FOUND, f"Method not found: {request.method}")


def session_created(request: RpcRequest, session: str, instructions: str = "") -> Answer:
    """The id that later requests may name; on a websocket, the connection's own session.

    ``instructions``: the task, where an episode has begun.
    """
    task = {"instructions": instructions} if instructions else {}
    return success(request.id, {"session_id": session, **task})


def session_unknown(request: RpcRequest, session: str | None) -> Answer:
    """For a session that is not there, or a close that names none."""
    message = "Invalid params - 'session_id' is required" if session is None else f"Unknown session_id: {session}"
    return failure(request.id, INVALID_PARAMS, message)


def session_own(request: RpcRequest) -> Answer:
    """For a websocket that asks to close its own session."""
    message = "Cannot close active WebSocket-managed session via MCP method"
    return failure(request.id, INVALID_REQUEST, message)


def refusal(id: str | int | None, error: WireError) -> Answer:
    """For what is refused with this error on ``/ws``: there is no room, or no environment could be made."""
    return failure(id, SERVER_ERROR, error.message, error.extra or None)


def websocket_frame(answer: Answer) -> str:
    """An answer on the websocket ``/mcp``."""
    return json.dumps(answer)


_LIST, _CALL = TOOL_METHODS


def request_of(request: RpcRequest, tools: Tools) -> m.Step | Answer:
    """The Step to send to the environment, or the answer where none is needed."""
    if request.method == _LIST:
        return success(request.id, {"tools": [_describe_tool(one) for one in tools.values()]})
    if request.method != _CALL:
        return failure(request.id, METHOD_NOT_FOUND, f"Method not found: {request.method}")
    name, arguments = request.params.get("name"), request.params.get("arguments")
    if not name:
        return failure(request.id, INVALID_PARAMS, "Missing 'name' in params")
    problems = [] if isinstance(name, str) else [entry("string_type", ("name",), name)]
    if not isinstance(arguments, (dict, type(None))):
        problems.append(entry("dict_type", ("arguments",), arguments))
    if problems:
        return failure(request.id, INTERNAL_ERROR, text_of("CallToolRequestParams", problems))
    return m.Step([0], [call(name, arguments or {})])


def answer_to(request: RpcRequest, tools: Tools, reply: m.Reply) -> Answer:
    """The environment's reply to that step."""
    value = reply.value[0] if isinstance(reply, m.Done) else reply
    if isinstance(value, m.Failed):
        return failure(request.id, INTERNAL_ERROR, value.message)
    observation, _, terminated, truncated, _ = value
    obs = ToolObservation.of(observation)
    if obs is None:
        return failure(request.id, INTERNAL_ERROR, "The environment's answer is not a tool's.")
    if obs.error is not None:
        return failure(request.id, INTERNAL_ERROR, obs.error.message)
    return success(request.id, call_result(tools.get(request.params["name"]), obs, ending(terminated, truncated)))


def _describe_tool(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "title": None,
        "description": tool.description,  # never null: then OpenEnv's client would show no tools at all
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "icons": None,
        "annotations": None,
        "meta": {"fastmcp": {"tags": []}},
        "execution": None,
    }
