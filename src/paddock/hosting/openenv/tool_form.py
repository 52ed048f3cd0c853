"""Tools on OpenEnv's wire: the actions list_tools and call_tool and their observations, as its MCPEnvironment has them.

Tools, results and schemas come from a worker, so nothing of them is taken for granted: an observation that is not what
a tool environment returns has the form of any other environment's.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from paddock.hosting.openenv.field_errors import Entry, entry, extras
from paddock.hosting.openenv.frames import Form
from paddock.hosting.openenv.gym_form import plain
from paddock.hosting.openenv.requests import WireError, invalid
from paddock.hosting.openenv.strict_json import dump
from paddock.hosting.tool_list import told_tools

Schema = dict[str, Any]

_DEPTH = 40  # of a schema: more than anyone writes by hand
_DEFS = "#/$defs/"
WRAP_MARK = "x-fastmcp-wrap-result"  # by which FastMCP's clients know that the result stands alone in an object


@dataclass(frozen=True)
class Tool:
    """``output_schema`` is that of an object, as MCP wants it; ``wraps``: the result stands in it as "result"."""

    name: str
    description: str
    input_schema: Schema
    output_schema: Schema | None = None
    wraps: bool = False


class Tools(dict[str, Tool]):
    """The tools of one environment by name, in their order."""

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> Tools | None:
        """Those that the environment told; None for one that has no tools at all."""
        told = told_tools(metadata)
        return None if told is None else cls({one["name"]: _tool(one) for one in told if _is_shallow(one)})


def _tool(told: dict[str, Any]) -> Tool:
    output, wraps = _as_object(told["output_schema"])
    return Tool(told["name"], told["description"], told["input_schema"], output, wraps)


def _as_object(schema: Schema | None) -> tuple[Schema | None, bool]:
    """A result's schema as that of an object around it where it is none itself."""
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
    """Whether it can be walked and written without danger."""
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


class Seen(msgspec.Struct):
    """An observation of a tool environment, read from a worker's data."""

    content: list[_Block] = []
    messages: list[_Message] = []
    tool_name: str | None = None
    result: Any = None
    error: _Error | None = None
    sent: dict[str, Any] | None = None  # the result as it is to be sent, of an environment written for OpenEnv

    @staticmethod
    def of(observation: Any) -> Seen | None:
        """None for what is none."""
        try:
            found = msgspec.to_builtins(observation) if isinstance(observation, msgspec.Struct) else observation
            if isinstance(found, dict) and "content" in found:
                return msgspec.convert(found, Seen)
            return _of_openenv(found) if isinstance(found, dict) and "tool_name" in found else None
        except (msgspec.ValidationError, TypeError, RecursionError):
            return None

    @property
    def words(self) -> str:
        """What it says to a model, without its pictures."""
        told = [block for message in self.messages for block in message.content] or self.content
        return "\n".join(block.text for block in told if block.type == "text")


msgspec.msgpack.Decoder(Seen)  # prepared before any thread can use it: see agentic.observations


def _of_openenv(found: dict[str, Any]) -> Seen:
    """OpenEnv's own CallToolObservation, whose result is that of FastMCP's client."""
    seen, sent = msgspec.convert({**found, "content": []}, Seen), found.get("result")
    if not isinstance(sent, dict) or not isinstance(sent.get("content"), list):
        return seen
    seen.sent, seen.result = sent, sent.get("data")
    for block in sent["content"]:
        with suppress(msgspec.ValidationError):  # a sound, a link
            seen.content.append(msgspec.convert({"mime_type": block.get("mimeType", ""), **block}, _Block))
    return seen


def is_listing(data: dict[str, Any]) -> bool:
    """Whether a step's data asks which tools there are; ``action_of`` tells what is wrong with it."""
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
    """The answer to list_tools, as the ``data`` of a frame. It needs neither a worker nor an episode."""
    listed = [
        {"name": one.name, "description": one.description, "input_schema": one.input_schema} for one in tools.values()
    ]
    observation = {"metadata": {}, "tools": listed} if form == "0.10" else {"tools": listed}
    return {"observation": observation, "reward": None, "done": False}


def outcome_data(
    tools: Tools,
    seen: Seen,
    info: dict[str, Any],
    *,
    reward: float | None = None,
    terminated: bool = False,
    truncated: bool = False,
    form: Form = "0.10",
) -> dict[str, Any]:
    """What came of a reset (no reward) or a step. ``metadata`` is empty, as OpenEnv's, unless there is more to tell."""
    metadata: dict[str, Any] = {"info": plain(info)} if info else {}
    metadata |= {name: True for name, ended in (("terminated", terminated), ("truncated", truncated)) if ended}
    observation: dict[str, Any] = {"metadata": metadata} if form == "0.10" else {}
    if seen.tool_name is not None:
        error = None if seen.error is None else {"error_type": seen.error.error_type, "message": seen.error.message}
        result = None if error is not None else call_result(tools.get(seen.tool_name), seen)
        observation |= {"tool_name": seen.tool_name, "result": result, "error": error}
    else:
        if seen.error is not None:
            observation["error"] = {"error_type": seen.error.error_type, "message": seen.error.message}
        observation["content"] = [_own(block) for block in seen.content]
        observation["messages"] = [
            {"role": one.role, "content": [_own(block) for block in one.content]} for one in seen.messages
        ]
    number = None if reward is None else float(reward)
    data: dict[str, Any] = {"observation": observation, "reward": number, "done": bool(terminated or truncated)}
    if metadata and form == "0.10":
        data["metadata"] = metadata
    return data


def call_result(tool: Tool | None, seen: Seen, over: dict[str, bool] | None = None) -> dict[str, Any]:
    """What a tool gave, as FastMCP's client shows it. ``data`` is never lost, as it is there without a return type.

    ``over``: how the episode ended, where nothing beside the result could tell.
    """
    if seen.sent is not None:
        return seen.sent
    result = plain(seen.result)
    structured, wraps = structured_of(tool, seen, result)
    meta: dict[str, Any] = {"fastmcp": {"wrap_result": True}} if wraps else {}
    if over:
        meta["paddock"] = over
    content = [
        {"type": "text", "text": block.text, "annotations": None, "meta": None}
        if block.type == "text"
        else {"type": "image", "data": block.data, "mimeType": block.mime_type, "annotations": None, "meta": None}
        for block in blocks_of(seen, result)
    ]
    return {
        "content": content,
        "structured_content": structured,
        "meta": meta or None,
        "data": (seen.words or None) if result is None else result,
        "is_error": False,
    }


def ended(terminated: bool, truncated: bool) -> dict[str, bool] | None:
    """How the episode ended, if it did."""
    return {"terminated": bool(terminated), "truncated": bool(truncated)} if terminated or truncated else None


def structured_of(tool: Tool | None, seen: Seen, result: Any) -> tuple[dict[str, Any] | None, bool]:
    """A result as an object, and whether it was put into one."""
    if seen.sent is not None:
        told = seen.sent.get("structured_content")
        return (told if isinstance(told, dict) else None), False
    if tool is not None and tool.wraps:
        return {"result": result}, True
    return (result, False) if isinstance(result, dict) else (None, False)


def blocks_of(seen: Seen, result: Any) -> list[_Block]:
    """What there is to read: the environment's own blocks, or its result as text."""
    if seen.content or result is None:
        return seen.content
    return [_Block("text", result if isinstance(result, str) else dump(result).decode())]


def _own(block: _Block) -> dict[str, Any]:
    """A block as paddock spells it."""
    if block.type == "text":
        return {"type": "text", "text": block.text}
    return {"type": "image", "data": block.data, "mime_type": block.mime_type}


def observation_schema() -> Schema:
    """The JSON Schema of an observation on the wire; which fields are there depends on the action."""
    blocks = {"type": "array", "items": {"type": "object"}}
    error = {
        "type": "object",
        "properties": {"error_type": {"type": "string"}, "message": {"type": "string"}},
        "required": ["error_type", "message"],
    }
    return {
        "title": "Observation",
        "type": "object",
        "properties": {
            "done": {"type": "boolean", "default": False},
            "reward": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
            "metadata": {"type": "object", "additionalProperties": True},
            "content": blocks,
            "messages": blocks,
            "tool_name": {"type": "string"},
            "result": True,
            "error": {"anyOf": [error, {"type": "null"}], "default": None},
            "tools": {"type": "array", "items": {"type": "object"}},
        },
    }
