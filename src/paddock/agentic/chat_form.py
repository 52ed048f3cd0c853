"""Observations, tools and calls as chat-completions APIs have them. What a model wrote is data that may be anything."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from paddock.errors import InvalidAction, InvalidValue, NotTransferable

_SHOWN = 200  # characters of what a model wrote, in words about it


@dataclass(frozen=True)
class ToolCall:
    """A call that a model asked for. ``problem``: why it is none, in words for the model; then nothing is called."""

    id: str
    name: str
    arguments: dict[str, Any]
    problem: str | None = None

    @property
    def action(self) -> dict[str, Any]:
        """What to do about it."""
        return call_tool(self.name, self.arguments)


def call_tool(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The plain form of CallTool."""
    return {"type": "call_tool", "tool_name": name, "arguments": arguments}


def say(text: str) -> dict[str, Any]:
    """The plain form of Say."""
    return {"type": "say", "text": text}


def refused(error: Exception) -> str | None:
    """Why an action can't be carried out, in words for who chose it; None for errors that are not the action's."""
    if isinstance(error, (InvalidAction, InvalidValue)):
        return str(error)
    # What an environment elsewhere can't send back is its own fault: that has no path in a Step.
    if isinstance(error, NotTransferable) and error.path.startswith("actions"):
        return f"This can't be sent to the environment: {error}"
    return None


def plain_observation(observation: Any) -> dict[str, Any]:
    """An Observation as a dict, which is how it comes from afar; anything else as its text."""
    plain = msgspec.to_builtins(observation) if isinstance(observation, msgspec.Struct) else observation
    return plain if isinstance(plain, dict) else {"content": [{"type": "text", "text": str(plain)}]}


def openai_tools(tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tools, as ``told_tools`` or an observation has them, as a request's ``tools``."""
    return [
        {
            "type": "function",
            "function": {"name": one["name"], "description": one["description"], "parameters": one["input_schema"]},
        }
        for one in tools
    ]


def opening(observation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages that begin a conversation: those of the observation, or its content as the user's."""
    messages = observation.get("messages") or [{"role": "user", "content": observation.get("content") or []}]
    return [{"role": message["role"], "content": content(message["content"])} for message in messages]


def content(blocks: Iterable[Mapping[str, Any]]) -> str | list[dict[str, Any]]:
    """Text where there is nothing else, else the parts of a message."""
    blocks = list(blocks)
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return [
        {"type": "text", "text": block["text"]}
        if block["type"] == "text"
        else {"type": "image_url", "image_url": {"url": f"data:{block['mime_type']};base64,{block['data']}"}}
        for block in blocks
    ]


def words_of(observation: Mapping[str, Any]) -> str | list[dict[str, Any]]:
    """What the model is told after it acted. The content has a tool's error in words already."""
    said = content(observation.get("content") or ())
    error = observation.get("error")
    return said or (f"Error: {error['message']}" if error else "")


def tool_message(call: ToolCall, told: str | list[dict[str, Any]]) -> dict[str, Any]:
    """The answer to a call."""
    return {"role": "tool", "tool_call_id": call.id, "content": told}


def assistant_message(response: Any) -> dict[str, Any]:
    """The assistant's message in what a chat-completions call returned: a dict, an object, or the message alone.

    >>> assistant_message({"choices": [{"message": {"role": "assistant", "content": "4"}}]})
    {'role': 'assistant', 'content': '4'}
    """
    if isinstance(response, str):
        return {"role": "assistant", "content": response}
    choices = _get(response, "choices")
    message = response if choices is None else _get(choices[0], "message") if choices else None
    if not _has(message, "content") and not _has(message, "tool_calls"):
        # A service that failed says so in this way. It is nothing that a model said, and must not be graded.
        raise ValueError(f"the reply has no message of an assistant; its error: {_get(response, 'error')!r:.{_SHOWN}}")
    made: dict[str, Any] = {"role": "assistant", "content": _get(message, "content")}
    calls = _get(message, "tool_calls")
    if calls:
        made["tool_calls"] = [_plain_call(call, at) for at, call in enumerate(calls)]
    return made


def calls_of(message: Mapping[str, Any]) -> list[ToolCall]:
    """The calls in an assistant's message."""
    return [_read_call(_plain_call(call, at)) for at, call in enumerate(message.get("tool_calls") or ())]


def text_in(message: Mapping[str, Any]) -> str:
    """What an assistant's message says, without its calls."""
    said = message.get("content")
    if isinstance(said, list):
        return "\n".join(str(part.get("text", "")) for part in said if isinstance(part, Mapping))
    return "" if said is None else str(said)


def _get(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _has(thing: Any, name: str) -> bool:
    return name in thing if isinstance(thing, Mapping) else hasattr(thing, name)


def _plain_call(call: Any, at: int) -> dict[str, Any]:
    function = _get(call, "function")
    return {
        "id": str(_get(call, "id") or f"call_{at}"),
        "type": "function",
        "function": {"name": _get(function, "name"), "arguments": _get(function, "arguments")},
    }


def _read_call(call: dict[str, Any]) -> ToolCall:
    name, given = call["function"]["name"], call["function"]["arguments"]
    if not isinstance(name, str) or not name:
        return ToolCall(call["id"], "", {}, f"A call must name a tool, got {name!r:.{_SHOWN}}.")
    try:
        arguments = json.loads(given) if isinstance(given, (str, bytes)) and given else given or {}
    except (ValueError, RecursionError) as error:
        return ToolCall(call["id"], name, {}, f"The arguments of {name} are no JSON ({error}): {given!s:.{_SHOWN}}")
    if not isinstance(arguments, dict) or not all(isinstance(key, str) for key in arguments):
        return ToolCall(call["id"], name, {}, f"The arguments of {name} must be a JSON object: {given!s:.{_SHOWN}}")
    return ToolCall(call["id"], name, arguments)
