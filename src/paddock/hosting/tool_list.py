"""The tools that a far environment says it has, from its ``metadata``. What is no tool is left out, not believed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

KEY = "tools"  # in ``env.metadata``
_MOST = 256


class _Told(msgspec.Struct):
    name: str
    description: str = ""
    input_schema: str = "{}"
    output_schema: str | None = None


def told_tools(metadata: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Name, description, input_schema and output_schema of each; None for an environment without tools."""
    found = metadata.get(KEY)
    if not isinstance(found, (list, tuple)):
        return None
    tools: dict[str, dict[str, Any]] = {}
    for one in found[:_MOST]:
        try:
            told = msgspec.convert(one, _Told)
        except msgspec.ValidationError:
            continue
        schema = _schema(told.input_schema)
        if schema is not None and told.name:
            tools.setdefault(
                told.name,
                {
                    "name": told.name,
                    "description": told.description,
                    "input_schema": schema,
                    "output_schema": _schema(told.output_schema),
                },
            )
    return list(tools.values())


def _schema(text: str | None) -> dict[str, Any] | None:
    try:
        return None if text is None else msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None
