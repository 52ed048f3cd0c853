"""Definitions of Structs inside other spaces, brought to the top of the schema: references are looked up there."""

from __future__ import annotations

from typing import Any

DEFINITIONS = "#/$defs/"

Schema = dict[str, Any]


class Whole(dict[str, Any]):
    """A schema with definitions of its own. A class, because a field of a Dict may be called ``$defs`` too."""


def hoist(schema: Schema) -> Schema:
    """``schema`` with all definitions at its top; names that clash get a number."""
    top: Schema = {}

    def lift(part: Any, names: dict[str, str]) -> Any:
        if isinstance(part, list):
            return [lift(item, names) for item in part]
        if not isinstance(part, dict):
            return part
        if isinstance(part, Whole):
            own = part.get("$defs", {})
            names = {name: _free_name(name, definition, top) for name, definition in own.items()}
            top.update({names[name]: lift(definition, names) for name, definition in own.items()})
            part = {key: item for key, item in part.items() if key != "$defs"}
        return {
            key: _renamed(item, names) if key == "$ref" and isinstance(item, str) else lift(item, names)
            for key, item in part.items()
        }

    lifted: Schema = lift(schema, {})
    return {**lifted, "$defs": top} if top else lifted


def _free_name(name: str, definition: Any, taken: Schema) -> str:
    free, number = name, 2
    while free in taken and taken[free] != definition:
        free, number = f"{name}_{number}", number + 1
    taken.setdefault(free, definition)
    return free


def _renamed(reference: str, names: dict[str, str]) -> str:
    name = reference.removeprefix(DEFINITIONS)
    return DEFINITIONS + names[name] if name in names else reference
