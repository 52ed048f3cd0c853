"""What an agent and an environment of tools said to each other, as a chat; and what a policy's answer asks for.

A policy may answer with an action, with text, with a list of actions or with an assistant's message; other environments
get whatever it returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from paddock.agentic.actions import Action, CallTool, ListTools, Say
from paddock.agentic.chat_form import (
    ToolCall,
    assistant_message,
    calls_of,
    openai_tools,
    opening,
    plain_observation,
    text_in,
    tool_message,
    words_of,
)
from paddock.agentic.observations import Observation
from paddock.core.env import Env
from paddock.core.problem import kind
from paddock.hosting.tool_list import told_tools

_ACTIONS = (CallTool, ListTools, Say)
_OF_MESSAGES = ("choices", "content", "tool_calls")


@dataclass(frozen=True)
class Asked:
    """One step that is asked for. ``call`` is there if a message asked; its ``problem`` then is told, nothing run."""

    action: Any
    call: ToolCall | None = None


class Conversation:
    """The messages so far; ``tools`` in the form of a chat. ``speaks`` is False for other environments."""

    def __init__(self, env: Env[Any, Any]) -> None:
        told = told_tools(env.metadata)
        self.speaks = told is not None
        self.tools = openai_tools(told or [])
        self.messages: list[dict[str, Any]] = []
        self._calls = 0

    def begin(self, observation: Any) -> Any:
        """The observation of a reset; as the policy shall see it."""
        if not self.speaks:
            return observation
        self.messages = opening(plain_observation(observation))
        return typed(observation)

    def asked(self, answer: Any) -> list[Asked]:
        """The steps that the policy's answer asks for, which joins the messages. TypeError for no answer."""
        if not self.speaks:
            return [Asked(answer)]
        if isinstance(answer, (list, tuple)) and answer and all(isinstance(one, _ACTIONS) for one in answer):
            return [asked for one in answer for asked in self._of_action(one)]
        if isinstance(answer, _ACTIONS):
            return self._of_action(answer)
        if isinstance(answer, Mapping) and "type" in answer and "role" not in answer:
            return self._of_action(msgspec.convert(dict(answer), Action))
        if not isinstance(answer, (str, Mapping)) and not any(hasattr(answer, name) for name in _OF_MESSAGES):
            raise TypeError(f"the policy returned {kind(answer)}; expected an action, text or an assistant's message")
        message = assistant_message(answer)
        self.messages.append(message)
        calls = calls_of(message)
        return [Asked(CallTool(call.name, call.arguments), call) for call in calls] or [Asked(Say(text_in(message)))]

    def _of_action(self, action: Any) -> list[Asked]:
        if isinstance(action, CallTool):
            self._calls += 1
            function = {"name": action.tool_name, "arguments": msgspec.json.encode(action.arguments).decode()}
            made = {"id": f"call_{self._calls}", "type": "function", "function": function}
            self.messages.append({"role": "assistant", "content": None, "tool_calls": [made]})
            return [Asked(action, ToolCall(made["id"], action.tool_name, action.arguments))]  # type: ignore[arg-type]
        if isinstance(action, Say):
            self.messages.append({"role": "assistant", "content": action.text})
        return [Asked(action)]

    def told(self, asked: Asked, observation: Any) -> Any:
        """What came of a step; as the policy shall see it."""
        if not self.speaks:
            return observation
        plain = plain_observation(observation)
        if asked.call is not None:
            self.answer(asked, words_of(plain))
        elif isinstance(asked.action, Say) and (words := words_of(plain)):
            self.messages.append({"role": "user", "content": words})
        if plain.get("messages"):
            self.messages += opening({"messages": plain["messages"]})
        return typed(observation)

    def answer(self, asked: Asked, words: Any) -> None:
        """Answer a call; what no message asked for has no answer."""
        if asked.call is not None:
            self.messages.append(tool_message(asked.call, words))


def typed(observation: Any) -> Any:
    """An Observation, also of one that came from afar as a dict; anything else as it is."""
    try:
        return msgspec.convert(observation, Observation) if isinstance(observation, dict) else observation
    except msgspec.ValidationError:
        return observation
