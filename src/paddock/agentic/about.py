"""What peers learn of a ToolEnv without running it: ``metadata`` with its tools, its splits and its description.

Schemas are JSON text there: metadata crosses walls that allow few levels, and schemas have many.
"""

from __future__ import annotations

from typing import Any

import msgspec

from paddock.agentic.observations import ToolInfo
from paddock.agentic.tasks import Tasks, told_splits


class Metadata:
    """An attribute that is worked out from the class, or from an instance that has tasks of its own."""

    def __init__(self, declared: dict[str, Any]) -> None:
        self.declared = declared

    def __get__(self, env: Any, cls: Any) -> dict[str, Any]:
        tasks = (cls if env is None else env).tasks
        return {
            "render_modes": [],
            "description": cls.description,
            "tools": [_told(tool.info) for tool in cls.tools.values()],
            "splits": told_splits(tasks) if isinstance(tasks, Tasks) else [],
            **self.declared,
        }


def _told(info: ToolInfo) -> dict[str, Any]:
    output = None if info.output_schema is None else msgspec.json.encode(info.output_schema).decode()
    return {
        "name": info.name,
        "description": info.description,
        "input_schema": msgspec.json.encode(info.input_schema).decode(),
        "output_schema": output,
    }
