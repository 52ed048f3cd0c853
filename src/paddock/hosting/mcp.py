"""Messages of the Model Context Protocol as pure functions: a client's requests and the answers to them.

Of MCP an environment has only tools. Versions are those that begin with ``initialize`` and have no batches: an episode
is a session, and the protocol of 2026-07-28 has no sessions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paddock.errors import ResetNeeded
from paddock.hosting import messages as m
from paddock.hosting.openenv.json_rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Answer,
    success,
)
from paddock.hosting.openenv.space_form import plain
from paddock.hosting.openenv.tool_form import Tool, ToolObservation, Tools, blocks_of, call, ending, structured_of

VERSIONS = ("2025-11-25", "2025-06-18")  # the newest first
UNSUPPORTED_VERSION = -32022
SESSION_HEADER, VERSION_HEADER = "mcp-session-id", "mcp-protocol-version"
INITIALIZE, PING, LIST, CALL = "initialize", "ping", "tools/list", "tools/call"

_INSTRUCTIONS = 100_000  # characters


@dataclass(frozen=True)
class Message:
    """``id`` is None for a notification, and for a client's answer that no request asked for. Neither is answered."""

    method: str
    params: dict[str, Any] = field(default_factory=dict)
    id: str | int | None = None


def failure(id: str | int | None, code: int, message: str, data: Any = None) -> Answer:
    """Why a request has no result."""
    error: dict[str, Any] = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": id, "error": error if data is None else {**error, "data": data}}


def is_mcp(data: Any, headers: Mapping[str, str]) -> bool:
    """Whether it comes from a client of MCP rather than of OpenEnv, whose requests on the same route look alike."""
    if SESSION_HEADER in headers or VERSION_HEADER in headers:
        return True
    method = data.get("method") if isinstance(data, dict) else None
    return isinstance(method, str) and (method in (INITIALIZE, PING) or method.startswith("notifications/"))


def refusal(headers: Mapping[str, str]) -> tuple[int, Answer] | None:
    """An HTTP status and an error, for headers that a client of MCP must not send."""
    for one in headers.get("accept", "*/*").split(","):
        kind, *parameters = [part.strip().lower() for part in one.split(";")]
        weight = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        if kind in ("application/json", "application/*", "*/*") and weight.strip("0."):  # a weight of 0 refuses it
            break
    else:
        return 406, failure(None, INVALID_REQUEST, "Not Acceptable: the answer is application/json.")
    kind = headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        return 415, failure(None, INVALID_REQUEST, "Unsupported Media Type: a message is application/json.")
    version = headers.get(VERSION_HEADER)
    if version is not None and version not in VERSIONS:
        versions = {"supported": list(VERSIONS), "requested": version[:100]}
        return 400, failure(None, UNSUPPORTED_VERSION, "Unsupported protocol version", versions)
    return None


def read_message(data: Any) -> Message | Answer:
    """The message in a body, or what is wrong with it, to be sent with status 400."""
    if isinstance(data, list):
        return failure(None, INVALID_REQUEST, "Invalid Request: batches are not part of this protocol.")
    if not isinstance(data, dict) or data.get("jsonrpc") != "2.0":
        return failure(None, INVALID_REQUEST, "Invalid Request: expected a JSON-RPC 2.0 message.")
    id, method, params = data.get("id"), data.get("method"), data.get("params", {})
    if "id" in data and (not isinstance(id, (str, int)) or isinstance(id, bool)):
        return failure(None, INVALID_REQUEST, "Invalid Request: an id is a text or an integer.")
    if method is None and ("result" in data or "error" in data):
        return Message("")
    if not isinstance(method, str):
        return failure(id, INVALID_REQUEST, "Invalid Request: method is a text.")
    if not isinstance(params, dict):
        return failure(id, INVALID_PARAMS, "Invalid params: expected an object.")
    return Message(method, params, id)


def negotiate_version(message: Message) -> str | Answer:
    """The version to speak after ``initialize``: the requested one, or the newest known here."""
    version = message.params.get("protocolVersion")
    if not isinstance(version, str):
        return failure(message.id, INVALID_PARAMS, "Invalid params: protocolVersion is a text.")
    return version if version in VERSIONS else VERSIONS[0]


def initialize_answer(message: Message, version: str, server: tuple[str, str], instructions: str) -> Answer:
    """The answer to ``initialize``; ``server`` is a name and a version, ``instructions`` what the task is."""
    result: dict[str, Any] = {
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": server[0], "version": server[1]},
    }
    if instructions:
        result["instructions"] = instructions[:_INSTRUCTIONS]
    return success(message.id, result)


def request_of(message: Message, tools: Tools) -> m.Step | Answer:
    """The Step to send to the environment, or the answer where none is needed."""
    if message.method == PING:
        return success(message.id, {})
    if message.method == LIST:
        if message.params.get("cursor") is not None:
            return failure(message.id, INVALID_PARAMS, "Invalid params: there is one page, and no cursor.")
        return success(message.id, {"tools": [_describe_tool(one) for one in tools.values()]})
    if message.method != CALL:
        return failure(message.id, METHOD_NOT_FOUND, f"Method not found: {message.method[:200]}")
    name, arguments = message.params.get("name"), message.params.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return failure(message.id, INVALID_PARAMS, "Invalid params: name is a text, and arguments an object.")
    return m.Step([0], [call(name, arguments)])


def answer_to(message: Message, tools: Tools, reply: m.Reply) -> Answer:
    """The answer for the environment's reply to that Step. A tool that failed is a result: for the model to read."""
    value = reply.value[0] if isinstance(reply, m.Done) else reply
    if isinstance(value, m.Failed) and value.code == ResetNeeded.code:
        return success(message.id, _error_result("The episode is over: no tool can be called any more."))
    if isinstance(value, m.Failed):
        return failure(message.id, INTERNAL_ERROR, value.message, {"code": value.code})
    observation, _, terminated, truncated, _ = value
    obs = ToolObservation.of(observation)
    if obs is None:
        return failure(message.id, INTERNAL_ERROR, "The environment's answer is not a tool's.")
    result = _result(tools.get(message.params["name"]), obs)
    if (over := ending(terminated, truncated)) is not None:
        result["_meta"] = {**result.get("_meta", {}), "paddock/episode": over}
    return success(message.id, result)


def _result(tool: Tool | None, obs: ToolObservation) -> dict[str, Any]:
    if obs.error is not None:
        return _error_result(obs.error.message)
    value = plain(obs.result)
    structured, wraps = structured_of(tool, obs, value)
    content: list[dict[str, Any]] = [
        {"type": "text", "text": block.text}
        if block.type == "text"
        else {"type": "image", "data": block.data, "mimeType": block.mime_type}
        for block in blocks_of(obs, value)
    ]
    result: dict[str, Any] = {"content": content, "isError": False}
    if structured is not None:
        result["structuredContent"] = structured
    if wraps:
        result["_meta"] = {"fastmcp": {"wrap_result": True}}
    return result


def _error_result(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], "isError": True}


def _describe_tool(tool: Tool) -> dict[str, Any]:
    listed = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": {**tool.input_schema, "type": "object"},
    }
    return listed if tool.output_schema is None else {**listed, "outputSchema": tool.output_schema}
