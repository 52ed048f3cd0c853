"""tools/list and tools/call in OpenEnv's JSON-RPC, which is FastMCP's Python objects written down, not MCP.

A tool that fails is an error of the request here; in MCP it is a result.
"""

from __future__ import annotations

from typing import Any

from paddock.hosting import messages as m
from paddock.hosting.openenv.field_errors import entry, text_of
from paddock.hosting.openenv.json_rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    TOOL_METHODS,
    Answer,
    RpcRequest,
    failure,
    success,
)
from paddock.hosting.openenv.tool_form import Seen, Tool, Tools, call, call_result, ended

_LIST, _CALL = TOOL_METHODS


def request_of(asked: RpcRequest, tools: Tools) -> m.Step | Answer:
    """What to ask the environment, or the answer where that is not needed."""
    if asked.method == _LIST:
        return success(asked.id, {"tools": [_listed(one) for one in tools.values()]})
    if asked.method != _CALL:
        return failure(asked.id, METHOD_NOT_FOUND, f"Method not found: {asked.method}")
    name, arguments = asked.params.get("name"), asked.params.get("arguments")
    if not name:
        return failure(asked.id, INVALID_PARAMS, "Missing 'name' in params")
    problems = [] if isinstance(name, str) else [entry("string_type", ("name",), name)]
    if not isinstance(arguments, (dict, type(None))):
        problems.append(entry("dict_type", ("arguments",), arguments))
    if problems:
        return failure(asked.id, INTERNAL_ERROR, text_of("CallToolRequestParams", problems))
    return m.Step([0], [call(name, arguments or {})])


def answer_to(asked: RpcRequest, tools: Tools, reply: m.Reply) -> Answer:
    """The environment's reply to that step."""
    value = reply.value[0] if isinstance(reply, m.Done) else reply
    if isinstance(value, m.Failed):
        return failure(asked.id, INTERNAL_ERROR, value.message)
    observation, _, terminated, truncated, _ = value
    seen = Seen.of(observation)
    if seen is None:
        return failure(asked.id, INTERNAL_ERROR, "The environment's answer is none of a tool.")
    if seen.error is not None:
        return failure(asked.id, INTERNAL_ERROR, seen.error.message)
    return success(asked.id, call_result(tools.get(asked.params["name"]), seen, ended(terminated, truncated)))


def _listed(tool: Tool) -> dict[str, Any]:
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
