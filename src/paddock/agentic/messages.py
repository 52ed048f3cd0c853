"""What passes between an agent and its environment: content, messages, actions and observations. No tokens here.

The docstrings of the records are part of their schemas, which peers see.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec

MAX_IMAGE_CHARS = 1 << 24

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

_ATOMS = frozenset((str, int, bool, type(None)))
_TEXT, _NAME = frozenset((str,)), frozenset((str, type(None)))


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """A block of text."""

    text: str


class Image(msgspec.Struct, frozen=True, tag_field="type", tag="image"):
    """A picture; ``data`` is its file in base64, as JSON and MCP have it."""

    data: str
    mime_type: str = "image/png"

    @staticmethod
    def of(file: bytes, mime_type: str = "image/png") -> Image:
        return Image(base64.b64encode(file).decode("ascii"), mime_type)


class Message(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    role: Role
    content: list[Text | Image]


def check_blocks(content: Any) -> list[Text | Image]:
    """Turn content into a list of blocks. TypeError or ValueError for anything that peers would not take.

    The classes of blocks do not check their fields, so this does.
    """
    blocks = to_blocks(content)
    for block in blocks:
        for value in (block.text,) if isinstance(block, Text) else (block.data, block.mime_type):
            if not isinstance(value, str):
                raise TypeError(f"{type(value).__name__} in a block of content, expected str")
            value.encode()  # a lone surrogate is not text
        if isinstance(block, Image) and (len(block.data) > MAX_IMAGE_CHARS or not block.data.isascii()):
            raise ValueError(f"an image of {len(block.data)} characters, expected at most {MAX_IMAGE_CHARS} of base64")
    return blocks


def to_blocks(content: Any) -> list[Text | Image]:
    """Turn content into a list of blocks, unchecked. TypeError for a value that is not content."""
    if content is None:
        return []
    if isinstance(content, (Text, Image)):
        return [content]
    if isinstance(content, str):
        return [Text(content)]
    if isinstance(content, Iterable) and not isinstance(content, (bytes, dict)):
        return [block for part in content for block in to_blocks(part)]
    raise TypeError(f"{type(content).__name__} is not content: expected text, Text, Image or a list of them")


# Actions: what an agent may do. OpenEnv's wire spells them alike.


class CallTool(msgspec.Struct, frozen=True, tag_field="type", tag="call_tool"):
    """Call ``tool_name``. Arguments that its signature refuses come back as a tool error, never as an exception."""

    tool_name: str
    arguments: dict[str, Any] = {}

    def is_simple(self) -> bool:
        """Whether a short look shows that all fields are valid, and their own JSON form."""
        if type(self.tool_name) is not str or type(self.arguments) is not dict:
            return False
        return _TEXT.issuperset(map(type, self.arguments)) and _ATOMS.issuperset(map(type, self.arguments.values()))


class ListTools(msgspec.Struct, frozen=True, tag_field="type", tag="list_tools"):
    """Which tools there are; a step that changes nothing."""

    def is_simple(self) -> bool:
        return True


class Say(msgspec.Struct, frozen=True, tag_field="type", tag="say"):
    """Words instead of a tool call: an answer, or a move in a game of words."""

    text: str

    def is_simple(self) -> bool:
        return type(self.text) is str


Action: TypeAlias = CallTool | ListTools | Say


# Observations: what comes back to the agent.

# OpenEnv's names.
ErrorType: TypeAlias = Literal["execution_error", "invalid_args", "transport_error", "tool_not_found", "timeout"]


class ToolError(msgspec.Struct, frozen=True):
    """Why a tool gave no result, in words for the model."""

    error_type: ErrorType
    message: str


class ToolInfo(msgspec.Struct, frozen=True):
    """A tool as its callers see it; ``input_schema`` is a JSON Schema of an object."""

    name: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None


class Observation(msgspec.Struct, kw_only=True):
    """``content`` is for the model to read. ``messages`` begin a conversation: a reset has them, most steps do not.

    After a tool call ``tool_name`` says which, and one of ``result`` (what the tool returned, as plain data) and
    ``error`` is there; ``content`` has either in words. ``tools`` answers ListTools, and a reset.
    """

    content: list[Text | Image] = []
    messages: list[Message] = []
    tool_name: str | None = None
    result: Any = None
    error: ToolError | None = None
    tools: list[ToolInfo] | None = None

    def is_simple(self) -> bool:
        """Whether it is plainly the result of a call: text and a few values, as nearly all are."""
        if self.error is not None or self.tools is not None or type(self.messages) is not list or self.messages:
            return False
        if type(self.tool_name) not in _NAME or type(self.result) not in _ATOMS or type(self.content) is not list:
            return False
        for block in self.content:  # noqa: SIM110  # half the time of a generator
            if type(block) is not Text or type(block.text) is not str:
                return False
        return True


# Prepared here, before anyone uses it: the process crashes if a second thread meets nested classes that msgspec (0.22)
# is still preparing.
msgspec.msgpack.Decoder(Observation)
