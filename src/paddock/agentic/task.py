"""A piece of work for an agent. ``hidden`` is for the environment and its grader alone: no peer ever gets it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.agentic.content import Message


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """``seed`` begins its episode unless ``reset`` is given another. ``metadata`` is public, as the prompt is."""

    prompt: str | list[Message] = ""
    seed: int | None = None
    metadata: dict[str, Any] = {}
    hidden: dict[str, Any] = {}

    def public(self) -> dict[str, Any]:
        """The row that peers see."""
        row: dict[str, Any] = msgspec.to_builtins(self)
        del row["hidden"]
        return row


def task_name(row: Mapping[str, Any], seed: int | None) -> str:
    """What people call the task of a row that has its place: ``test[3]``; where there is none, the seed."""
    return f"{row.get('split', '')}[{row['index']}]" if "index" in row else f"seed {seed}"
