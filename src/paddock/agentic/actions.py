"""What an agent may do: call a tool, ask which there are, or say something. OpenEnv's wire spells them alike."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec


class CallTool(msgspec.Struct, frozen=True, tag_field="type", tag="call_tool"):
    """Call ``tool_name``. Arguments that its signature refuses come back as a tool error, never as an exception."""

    tool_name: str
    arguments: dict[str, Any] = {}


class ListTools(msgspec.Struct, frozen=True, tag_field="type", tag="list_tools"):
    """Which tools there are; a step that changes nothing."""


class Say(msgspec.Struct, frozen=True, tag_field="type", tag="say"):
    """Words instead of a tool call: an answer, or a move in a game of words."""

    text: str


Action: TypeAlias = CallTool | ListTools | Say
