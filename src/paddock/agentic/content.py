"""What a model reads: blocks of text and images, and messages made of them. Nothing here knows tokens."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec

IMAGE_CHARS = 1 << 24

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """A block of text."""

    text: str


class Image(msgspec.Struct, frozen=True, tag_field="type", tag="image"):
    """A picture; ``data`` is its file in base64, as JSON and MCP have it."""

    data: str
    mime_type: str = "image/png"

    @staticmethod
    def of(file: bytes, mime_type: str = "image/png") -> Image:
        """An image of the bytes of its file."""
        return Image(base64.b64encode(file).decode("ascii"), mime_type)


Block: TypeAlias = "Text | Image"
Content: TypeAlias = "str | Text | Image | Iterable[str | Text | Image]"


class Message(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    role: Role
    content: list[Text | Image]


def blocks_of(content: Any) -> list[Text | Image]:
    """``content`` as a list of blocks; TypeError for what is none."""
    if content is None:
        return []
    if isinstance(content, (Text, Image)):
        return [content]
    if isinstance(content, str):
        return [Text(content)]
    if isinstance(content, Iterable) and not isinstance(content, (bytes, dict)):
        return [block for part in content for block in blocks_of(part)]
    raise TypeError(f"{type(content).__name__} is no content: expected text, Text, Image or a list of them")


def checked_blocks(content: Any) -> list[Text | Image]:
    """As ``blocks_of``, and TypeError or ValueError for blocks that hold what they should not.

    Their classes believe whatever they are given, and whoever is sent such a block would not take it.
    """
    blocks = blocks_of(content)
    for block in blocks:
        for value in (block.text,) if isinstance(block, Text) else (block.data, block.mime_type):
            if not isinstance(value, str):
                raise TypeError(f"{type(value).__name__} in a block of content, expected str")
            value.encode()  # a lone surrogate is no text
        if isinstance(block, Image) and (len(block.data) > IMAGE_CHARS or not block.data.isascii()):
            raise ValueError(f"an image of {len(block.data)} characters, expected at most {IMAGE_CHARS} of base64")
    return blocks


def text_of(blocks: Iterable[Text | Image]) -> str:
    """The text in the blocks; an image stands there as its type."""
    return "\n".join(block.text if isinstance(block, Text) else f"[{block.mime_type}]" for block in blocks)
