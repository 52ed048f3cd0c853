"""Tools on OpenEnv's wire: the actions list_tools and call_tool and their observations, as its MCPEnvironment has them.

Tools, results and schemas come from a worker, so none of them is trusted: an observation that is not what a tool
environment returns has the form of any other environment's.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from paddock.hosting.messages import read_tools
from paddock.hosting.openenv.space_form import plain
from paddock.hosting.openenv.wire import Entry, Form, WireError, dump, entry, extras, invalid

Schema = dict[str, Any]

_DEPTH = 40  # of a schema: deeper than any written by hand
_DEFS = "#/$defs/"
WRAP_MARK = "x-fastmcp-wrap-result"  # tells FastMCP's clients that the object only wraps the result


@dataclass(frozen=True)
class Tool:
    """``output_schema`` describes an object, as MCP requires; ``wraps``: the object holds the result as "result"."""

    name: str
    description: str
    input_schema: Schema
    output_schema: Schema | None = None
    wraps: bool = False


class Tools(dict[str, Tool]):
    """The tools of one environment by name, in their order."""

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> Tools | None:
        """Those in the environment's metadata; None for an environment without tools."""
        declared = read_tools(metadata)
        if declared is None:
            return None
        tools = cls()
        for one in declared:
            if _is_shallow(one):
                output, wraps = _as_object(one["output_schema"])
                tools[one["name"]] = Tool(one["name"], one["description"], one["input_schema"], output, wraps)
        return tools


def _as_object(schema: Schema | None) -> tuple[Schema | None, bool]:
    """A result's schema, and whether it had to be wrapped to describe an object."""
    if schema is None or schema.get("type") == "object":
        return schema, False
    if any(not place.startswith(_DEFS) for place in _references(schema)):
        return None, False  # it would point elsewhere from within another schema
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    made: Schema = {"properties": {"result": inner}, "required": ["result"], "type": "object", WRAP_MARK: True}
    return ({"$defs": schema["$defs"], **made} if "$defs" in schema else made), True


def _references(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        own = schema.get("$ref")
        return ([own] if isinstance(own, str) else []) + [one for part in schema.values() for one in _references(part)]
    return [one for part in schema for one in _references(part)] if isinstance(schema, list) else []


def _is_shallow(value: Any, left: int = _DEPTH) -> bool:
    """Whether it is shallow enough to walk and write."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return left > 0 and all(_is_shallow(one, left - 1) for one in inner)


class _Block(msgspec.Struct):
    type: Literal["text", "image"]
    text: str = ""
    data: str = ""
    mime_type: str = ""


class _Message(msgspec.Struct):
    role: str
    content: list[_Block]


class _Error(msgspec.Struct):
    error_type: str
    message: str


class ToolObservation(msgspec.Struct):
    """An observation of a tool environment, read from a worker's data."""

    content: list[_Block] = []
    messages: list[_Message] = []
    tool_name: str | None = None
    result: Any = None
    error: _Error | None = None
    sent: dict[str, Any] | None = None  # the result as it is to be sent, of an environment written for OpenEnv

    @staticmethod
    def of(observation: Any) -> ToolObservation | None:
        """The observation as a tool environment's; None if it is not one."""
        try:
            found = msgspec.to_builtins(observation) if isinstance(observation, msgspec.Struct) else observation
            if isinstance(found, dict) and "content" in found:
                return msgspec.convert(found, ToolObservation)
            return _of_openenv(found) if isinstance(found, dict) and "tool_name" in found else None
        except (msgspec.ValidationError, TypeError, RecursionError):
            return None

    @property
    def words(self) -> str:
        """Its text for a model, without pictures."""
        blocks = [block for message in self.messages for block in message.content] or self.content
        return "\n".join(block.text for block in blocks if block.type == "text")


msgspec.msgpack.Decoder(ToolObservation)  # prepared before any thread can use it: see core.spec_json


def _of_openenv(found: dict[str, Any]) -> ToolObservation:
    """OpenEnv's own CallToolObservation, whose result is that of FastMCP's client."""
    obs, sent = msgspec.convert({**found, "content": []}, ToolObservation), found.get("result")
    if not isinstance(sent, dict) or not isinstance(sent.get("content"), list):
        return obs
    obs.sent, obs.result = sent, sent.get("data")
    for block in sent["content"]:
        with suppress(msgspec.ValidationError):  # a sound, a link
            obs.content.append(msgspec.convert({"mime_type": block.get("mimeType", ""), **block}, _Block))
    return obs


def is_listing(data: dict[str, Any]) -> bool:
    """Whether a step's data asks for the list of tools; ``action_of`` says what is wrong with it."""
    return data.get("type") == "list_tools"


def action_of(data: dict[str, Any]) -> dict[str, Any] | WireError | None:
    """A step's data as an action, with OpenEnv's defaults and refusals; None for an action of another kind."""
    listing = is_listing(data)
    if not listing and data.get("type", "call_tool" if "tool_name" in data else None) != "call_tool":
        return None
    problems: list[Entry] = []
    if not isinstance(data.get("metadata", {}), dict):
        problems.append(entry("dict_type", ("metadata",), data["metadata"]))
    if listing:
        problems += extras(data, ("metadata", "type"))
        return invalid(problems) if problems else {"type": "list_tools"}
    if "tool_name" not in data:
        problems.append(entry("missing", ("tool_name",), data))
    elif not isinstance(data["tool_name"], str):
        problems.append(entry("string_type", ("tool_name",), data["tool_name"]))
    arguments = data.get("arguments", {})
    if not isinstance(arguments, dict):
        problems.append(entry("dict_type", ("arguments",), arguments))
    problems += extras(data, ("metadata", "type", "tool_name", "arguments"))
    return invalid(problems) if problems else call(data["tool_name"], arguments)


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The action that calls a tool."""
    return {"type": "call_tool", "tool_name": name, "arguments": arguments}


def listing_data(tools: Tools, form: Form = "0.10") -> dict[str, Any]:
    """The answer to list_tools, as the ``data`` of a frame. It takes neither a worker nor an episode."""
    listed = [
        {"name": one.name, "description": one.description, "input_schema": one.input_schema} for one in tools.values()
    ]
    observation = {"metadata": {}, "tools": listed} if form == "0.10" else {"tools": listed}
    return {"observation": observation, "reward": None, "done": False}


def outcome_data(
    tools: Tools,
    obs: ToolObservation,
    info: dict[str, Any],
    *,
    reward: float | None = None,
    terminated: bool = False,
    truncated: bool = False,
    form: Form = "0.10",
) -> dict[str, Any]:
    """The result of a reset (no reward) or a step. ``metadata`` is empty, as in OpenEnv, unless there is an info."""
    metadata: dict[str, Any] = {"info": plain(info)} if info else {}
    metadata |= {name: True for name, ended in (("terminated", terminated), ("truncated", truncated)) if ended}
    observation: dict[str, Any] = {"metadata": metadata} if form == "0.10" else {}
    error = None if obs.error is None else msgspec.to_builtins(obs.error)
    if obs.tool_name is not None:
        result = None if error is not None else call_result(tools.get(obs.tool_name), obs)
        observation |= {"tool_name": obs.tool_name, "result": result, "error": error}
    else:
        if error is not None:
            observation["error"] = error
        observation["content"] = [_block_data(block) for block in obs.content]
        observation["messages"] = [
            {"role": one.role, "content": [_block_data(block) for block in one.content]} for one in obs.messages
        ]
    number = None if reward is None else float(reward)
    data: dict[str, Any] = {"observation": observation, "reward": number, "done": bool(terminated or truncated)}
    if metadata and form == "0.10":
        data["metadata"] = metadata
    return data


def call_result(tool: Tool | None, obs: ToolObservation, over: dict[str, bool] | None = None) -> dict[str, Any]:
    """A tool's result as FastMCP's client shows it. Unlike there, ``data`` is not lost without a return type.

    ``over``: how the episode ended, where only the result can say so.
    """
    if obs.sent is not None:
        return obs.sent
    result = plain(obs.result)
    structured, wraps = structured_of(tool, obs, result)
    meta: dict[str, Any] = {"fastmcp": {"wrap_result": True}} if wraps else {}
    if over:
        meta["paddock"] = over
    content = [
        {**_block_data(block, "mimeType"), "annotations": None, "meta": None} for block in blocks_of(obs, result)
    ]
    return {
        "content": content,
        "structured_content": structured,
        "meta": meta or None,
        "data": (obs.words or None) if result is None else result,
        "is_error": False,
    }


def ending(terminated: bool, truncated: bool) -> dict[str, bool] | None:
    """How the episode ended, if it did."""
    return {"terminated": bool(terminated), "truncated": bool(truncated)} if terminated or truncated else None


def structured_of(tool: Tool | None, obs: ToolObservation, result: Any) -> tuple[dict[str, Any] | None, bool]:
    """A result as an object, and whether it was put into one."""
    if obs.sent is not None:
        structured = obs.sent.get("structured_content")
        return (structured if isinstance(structured, dict) else None), False
    if tool is not None and tool.wraps:
        return {"result": result}, True
    return (result, False) if isinstance(result, dict) else (None, False)


def blocks_of(obs: ToolObservation, result: Any) -> list[_Block]:
    """The content: the environment's own blocks, or its result as text."""
    if obs.content or result is None:
        return obs.content
    return [_Block("text", result if isinstance(result, str) else dump(result).decode())]


def _block_data(block: _Block, mime_type: str = "mime_type") -> dict[str, Any]:
    """A block as data; ``mime_type``: how that field is spelled, paddock's way by default."""
    if block.type == "text":
        return {"type": "text", "text": block.text}
    return {"type": "image", "data": block.data, mime_type: block.mime_type}


_BLOCKS: Schema = {"type": "array", "items": {"type": "object"}}
_ERROR_SCHEMA: Schema = {
    "type": "object",
    "properties": {"error_type": {"type": "string"}, "message": {"type": "string"}},
    "required": ["error_type", "message"],
}
# Of an observation on the wire; which fields are there depends on the action.
OBSERVATION_SCHEMA: Schema = {
    "title": "Observation",
    "type": "object",
    "properties": {
        "done": {"type": "boolean", "default": False},
        "reward": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
        "metadata": {"type": "object", "additionalProperties": True},
        "content": _BLOCKS,
        "messages": _BLOCKS,
        "tool_name": {"type": "string"},
        "result": True,
        "error": {"anyOf": [_ERROR_SCHEMA, {"type": "null"}], "default": None},
        "tools": _BLOCKS,
    },
}
