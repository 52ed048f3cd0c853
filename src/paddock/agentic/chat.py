"""Observations, tools and calls in the form of chat-completions APIs, and the Conversation of one episode.

Whatever a model wrote is data that may be anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from paddock.agentic.messages import Action, CallTool, ListTools, Observation, Say
from paddock.core.env import Env
from paddock.core.problem import kind
from paddock.errors import InvalidAction, InvalidValue, NotTransferable
from paddock.hosting.messages import read_tools

ACTIONS = (CallTool, ListTools, Say)
_MESSAGE_FIELDS = ("choices", "content", "tool_calls")
_QUOTE_CHARS = 200  # of what a model wrote, in errors about it


class StepRequest(msgspec.Struct, frozen=True):
    """A step that a policy asks for. With a ``call`` that has a ``problem``, nothing runs and the model reads why."""

    action: Any
    call: ToolCall | None = None


class Conversation:
    """The messages so far, and the tools. ``speaks`` is False for environments without tools, which have neither."""

    def __init__(self, env: Env[Any, Any]) -> None:
        tools = read_tools(env.metadata)
        self.speaks = tools is not None
        self.tools = openai_tools(tools or [])
        self.messages: list[dict[str, Any]] = []
        self._calls = 0

    def begin(self, observation: Any) -> Any:
        """Open with the observation of a reset. Returns it as the policy sees it."""
        if not self.speaks:
            return observation
        self.messages = opening_messages(plain_observation(observation))
        return to_observation(observation)

    def read_answer(self, answer: Any) -> list[StepRequest]:
        """Add the policy's answer to the messages, and return the steps that it asks for.

        It may be an action, a list of actions, text or an assistant's message; TypeError for anything else.
        Environments without tools take anything.
        """
        if not self.speaks:
            return [StepRequest(answer)]
        if isinstance(answer, ACTIONS):
            return [self._add_action(answer)]
        if isinstance(answer, (list, tuple)) and answer and all(isinstance(one, ACTIONS) for one in answer):
            return [self._add_action(one) for one in answer]
        if isinstance(answer, Mapping) and "type" in answer and "role" not in answer:
            return [self._add_action(msgspec.convert(dict(answer), Action))]
        if not isinstance(answer, (str, Mapping)) and not any(hasattr(answer, name) for name in _MESSAGE_FIELDS):
            raise TypeError(f"the policy returned {kind(answer)}; expected an action, text or an assistant's message")
        message = assistant_message(answer)
        self.messages.append(message)
        requests = [StepRequest(CallTool(call.name, call.arguments), call) for call in message_calls(message)]
        return requests or [StepRequest(Say(message_text(message)))]

    def _add_action(self, action: Any) -> StepRequest:
        if isinstance(action, CallTool):
            self._calls += 1
            id = f"call_{self._calls}"
            function = {"name": action.tool_name, "arguments": msgspec.json.encode(action.arguments).decode()}
            call = {"id": id, "type": "function", "function": function}
            self.messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            return StepRequest(action, ToolCall(id, action.tool_name, action.arguments))
        if isinstance(action, Say):
            self.messages.append({"role": "assistant", "content": action.text})
        return StepRequest(action)

    def add_observation(self, request: StepRequest, observation: Any) -> Any:
        """Add the outcome of a step to the messages. Returns it as the policy sees it."""
        if not self.speaks:
            return observation
        opening: list[dict[str, Any]] = []
        if type(observation) is Observation and observation.is_simple():  # the short way, which nearly all can go
            words: Any = "\n".join([block.text for block in observation.content])  # type: ignore[union-attr]
        else:
            plain = plain_observation(observation)
            words = reply_content(plain)
            if plain.get("messages"):
                opening = opening_messages({"messages": plain["messages"]})
        if request.call is not None:
            self.reply(request, words)
        elif isinstance(request.action, Say) and words:
            self.messages.append({"role": "user", "content": words})
        self.messages += opening
        return to_observation(observation)

    def reply(self, request: StepRequest, words: Any) -> None:
        """Reply to a tool call; an action that is not one gets no reply."""
        if request.call is not None:
            self.messages.append({"role": "tool", "tool_call_id": request.call.id, "content": words})


def to_observation(observation: Any) -> Any:
    """Return an Observation, even if it came over a wire as a dict; anything else unchanged."""
    try:
        return msgspec.convert(observation, Observation) if isinstance(observation, dict) else observation
    except msgspec.ValidationError:
        return observation


class ToolCall(msgspec.Struct, frozen=True):
    """A call that a model asked for. ``problem``: why it can't be called, in words for the model."""

    id: str
    name: str
    arguments: dict[str, Any]
    problem: str | None = None

    @property
    def action(self) -> dict[str, Any]:
        return call_tool_action(self.name, self.arguments)


def call_tool_action(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the plain form of CallTool."""
    return {"type": "call_tool", "tool_name": name, "arguments": arguments}


def say_action(text: str) -> dict[str, Any]:
    """Return the plain form of Say."""
    return {"type": "say", "text": text}


def refusal_text(error: Exception) -> str | None:
    """Explain to the agent why its action was refused; None for errors that are not the action's fault."""
    if isinstance(error, (InvalidAction, InvalidValue)):
        return str(error)
    # If a remote environment can't send its result back, that is its own fault, and the path is another.
    if isinstance(error, NotTransferable) and error.path.startswith("actions"):
        return f"This can't be sent to the environment: {error}"
    return None


def plain_observation(observation: Any) -> dict[str, Any]:
    """Return an Observation as a dict, as it comes over a wire; anything else as its text."""
    plain = msgspec.to_builtins(observation) if isinstance(observation, msgspec.Struct) else observation
    return plain if isinstance(plain, dict) else {"content": [{"type": "text", "text": str(plain)}]}


def openai_tools(tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Turn tools, as an observation or a description has them, into the ``tools`` of a request."""
    return [
        {
            "type": "function",
            "function": {"name": one["name"], "description": one["description"], "parameters": one["input_schema"]},
        }
        for one in tools
    ]


def opening_messages(observation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the messages that begin a conversation: the observation's, or its content as a message of the user."""
    messages = observation.get("messages") or [{"role": "user", "content": observation.get("content") or []}]
    return [{"role": message["role"], "content": _openai_content(message["content"])} for message in messages]


def _openai_content(blocks: Iterable[Mapping[str, Any]]) -> str | list[dict[str, Any]]:
    """Return text if there are no images, else the parts of a message."""
    blocks = list(blocks)
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return [
        {"type": "text", "text": block["text"]}
        if block["type"] == "text"
        else {"type": "image_url", "image_url": {"url": f"data:{block['mime_type']};base64,{block['data']}"}}
        for block in blocks
    ]


def reply_content(observation: Mapping[str, Any]) -> str | list[dict[str, Any]]:
    """Return what the model reads after it acted. If a tool failed, the content already says so in words."""
    content = _openai_content(observation.get("content") or ())
    error = observation.get("error")
    return content or (f"Error: {error['message']}" if error else "")


def assistant_message(response: Any) -> dict[str, Any]:
    """Read the assistant's message from a chat-completions response: a dict, an object, or the message alone.

    >>> assistant_message({"choices": [{"message": {"role": "assistant", "content": "4"}}]})
    {'role': 'assistant', 'content': '4'}
    """
    if isinstance(response, str):
        return {"role": "assistant", "content": response}
    choices = _get(response, "choices")
    message = response if choices is None else _get(choices[0], "message") if choices else None
    if not _has(message, "content") and not _has(message, "tool_calls"):
        # This is how a service reports that it failed. No model said it, so it must not be graded.
        error = _get(response, "error")
        raise ValueError(f"the reply has no message of an assistant; its error: {error!r:.{_QUOTE_CHARS}}")
    # All of it goes back to the model with the next turn: reasoning, say. Fields without a value say nothing.
    fields = {name: value for name, value in to_dict(message).items() if value is not None}
    plain: dict[str, Any] = {"role": "assistant", "content": None, **fields}
    if calls := plain.pop("tool_calls", None):
        plain["tool_calls"] = [_plain_call(call, at) for at, call in enumerate(calls)]
    return plain


def to_dict(thing: Any) -> dict[str, Any]:
    """Turn a part of a response into a dict, be it one already or an object of a client's."""
    if isinstance(thing, Mapping):
        return dict(thing)
    dump = getattr(thing, "model_dump", None)
    return dict(dump(mode="json")) if callable(dump) else {n: v for n, v in vars(thing).items() if n[:1] != "_"}


def message_calls(message: Mapping[str, Any]) -> list[ToolCall]:
    """Read the calls in an assistant's message."""
    return [_read_call(_plain_call(call, at)) for at, call in enumerate(message.get("tool_calls") or ())]


def message_text(message: Mapping[str, Any]) -> str:
    """Return the text of an assistant's message, without its calls."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return "" if content is None else str(content)


def _get(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _has(thing: Any, name: str) -> bool:
    return name in thing if isinstance(thing, Mapping) else hasattr(thing, name)


def _plain_call(call: Any, at: int) -> dict[str, Any]:
    function = _get(call, "function")
    return {
        **to_dict(call),
        "id": str(_get(call, "id") or f"call_{at}"),
        "type": "function",
        "function": {"name": _get(function, "name"), "arguments": _get(function, "arguments")},
    }


def _read_call(call: dict[str, Any]) -> ToolCall:
    id, name, text = call["id"], call["function"]["name"], call["function"]["arguments"]
    if not isinstance(name, str) or not name:
        return ToolCall(id, "", {}, f"A call must name a tool, got {name!r:.{_QUOTE_CHARS}}.")
    try:
        arguments = json.loads(text) if isinstance(text, (str, bytes)) and text else text or {}
    except (ValueError, RecursionError) as error:
        return ToolCall(id, name, {}, f"The arguments of {name} are not JSON ({error}): {text!s:.{_QUOTE_CHARS}}")
    if not isinstance(arguments, dict) or not all(isinstance(key, str) for key in arguments):
        return ToolCall(id, name, {}, f"The arguments of {name} must be a JSON object: {text!s:.{_QUOTE_CHARS}}")
    return ToolCall(id, name, arguments)
