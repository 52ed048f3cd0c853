"""How a conversation begins: what ``begin`` returned, or the prompt of the task, as messages."""

from __future__ import annotations

from typing import Any

from paddock.agentic.content import Image, Message, Text, checked_blocks


def opening(begun: Any) -> tuple[list[Message], list[Text | Image]]:
    """The messages, and the content of the last one: what the agent is to answer. TypeError for what is neither.

    >>> opening("Guess.")
    ([Message(role='user', content=[Text(text='Guess.')])], [Text(text='Guess.')])
    """
    if isinstance(begun, Message):
        begun = [begun]
    if isinstance(begun, (list, tuple)) and begun and all(isinstance(part, Message) for part in begun):
        messages = [Message(part.role, checked_blocks(part.content)) for part in begun]
        return messages, list(messages[-1].content)
    content = [] if begun == "" else checked_blocks(begun)
    return [Message("user", content)] if content else [], list(content)
