"""A tool's JSON Schema as the signature and the docstring of a function, for libraries that read tools from functions.

They turn it into a schema again, and by fewer words than JSON Schema has. What gets lost on that way (the fields of an
object, say) is told in the argument's description.
"""

from __future__ import annotations

import inspect
import json
import keyword
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union

_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": None,
}
_DEEPEST = 8  # of a schema; deeper parts, and those that contain themselves, may be anything
_LONGEST = 600  # characters of JSON in a description
_HEADS = {"Args:": "Arguments:", "Returns:": "Gives:", "Raises:": "Refuses:"}  # where readers of docstrings cut


@dataclass(frozen=True)
class ToolSignature:
    """``name`` and the parameters are Python's; ``arguments`` says which argument of the tool each parameter is."""

    name: str
    signature: inspect.Signature
    docstring: str
    arguments: dict[str, str]


def tool_signature(
    name: str, description: str, schema: Mapping[str, Any], *, taken: Container[str] = ()
) -> ToolSignature:
    """How a tool looks as a method; its name is changed where Python, or ``taken``, has another use for it.

    >>> schema = {"properties": {"from": {"type": "integer", "description": "the square"}}, "required": ["from"]}
    >>> tool = tool_signature("move", "Move a piece.", schema)
    >>> tool.signature
    <Signature (self, from_: int) -> str>
    >>> print(tool.docstring)
    Move a piece.
    <BLANKLINE>
    Args:
        from_: the square
    """
    properties, required = schema.get("properties") or {}, set(schema.get("required") or ())
    definitions = schema.get("$defs") or schema.get("definitions") or {}
    parameters, lines, arguments = [], list[str](), dict[str, str]()
    # Python wants those without a default first.
    for argument in sorted(properties, key=lambda one: one not in required):
        part = properties[argument] if isinstance(properties[argument], dict) else {}
        python = python_name(argument, {"self", *arguments})
        arguments[python] = argument
        parameters.append(_parameter(python, part, definitions, required=argument in required))
        lines.append(f"    {python}: {_description(argument, part, definitions)}")
    text = _without_heads(description.strip()) or f"{name}."
    receiver = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return ToolSignature(
        name=python_name(name, taken),
        signature=inspect.Signature([receiver, *parameters], return_annotation=str),
        docstring="\n".join([text, "", "Args:", *lines]) if lines else text,
        arguments=arguments,
    )


def python_name(name: str, taken: Container[str] = ()) -> str:
    """A public Python name like ``name`` that is neither a keyword nor ``taken``."""
    name = re.sub(r"\W", "_", name, flags=re.ASCII).lstrip("_") or "tool"
    if name[0].isdigit():
        name = f"n{name}"
    while keyword.iskeyword(name) or name in taken:
        name += "_"
    return name


def _parameter(name: str, part: dict[str, Any], definitions: dict[str, Any], *, required: bool) -> inspect.Parameter:
    hint = python_type(part, definitions)
    default: Any = inspect.Parameter.empty
    if not required:
        default = part.get("default")
        if default is None and hint is not Any:
            hint = Union[hint, None]  # noqa: UP007 - a hint that is a value
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=hint, default=default)


def python_type(part: Any, definitions: Mapping[str, Any] | None = None, depth: int = 0) -> Any:
    """The hint of what a JSON Schema allows, or of somewhat more; ``Any`` where no hint says it.

    >>> python_type({"type": "array", "items": {"enum": ["a", "b"]}})
    list[typing.Literal['a', 'b']]
    """
    if not isinstance(part, dict) or depth > _DEEPEST:
        return Any
    definitions = definitions or {}
    if isinstance(reference := part.get("$ref"), str):
        return python_type(definitions.get(reference.rpartition("/")[2]), definitions, depth + 1)
    choices = [part["const"]] if "const" in part else part.get("enum")
    if isinstance(choices, list) and choices and all(isinstance(one, (str, int, float, type(None))) for one in choices):
        return Literal[tuple(choices)]
    for word in ("anyOf", "oneOf"):
        if isinstance(part.get(word), list) and part[word]:
            return _union([python_type(one, definitions, depth + 1) for one in part[word]])
    kinds = part.get("type")
    if isinstance(kinds, list) and kinds:
        return _union([python_type({**part, "type": kind}, definitions, depth + 1) for kind in kinds])
    if kinds == "array" and isinstance(part.get("items"), dict):
        return list[python_type(part["items"], definitions, depth + 1)]  # type: ignore[misc]
    return _TYPES.get(kinds, Any) if isinstance(kinds, str) else Any


def _union(hints: list[Any]) -> Any:
    return Any if Any in hints else Union[tuple(hints)]  # noqa: UP007 - a hint that is a value


def _description(name: str, part: dict[str, Any], definitions: dict[str, Any]) -> str:
    """One line, for only a new line tells the end of one argument's text."""
    said = part.get("description") or part.get("title")
    text = " ".join(said.split()) if isinstance(said, str) else ""
    text = text or f"the {name.replace('_', ' ')}."
    if _has_fields(part, definitions):
        text += f" As JSON Schema: {_told(part, definitions)}"
    # "(choices: …)" at the end is read as an enum.
    return re.sub(r"\(choices:", "(one of:", _without_heads(text), flags=re.IGNORECASE)


def _has_fields(part: Any, definitions: dict[str, Any], depth: int = 0) -> bool:
    if isinstance(part, list):
        return any(_has_fields(one, definitions, depth + 1) for one in part)
    if not isinstance(part, dict) or depth > _DEEPEST:
        return False
    if part.get("properties") or "$ref" in part:
        return True
    return any(_has_fields(part.get(word), definitions, depth + 1) for word in ("items", "anyOf", "oneOf"))


def _told(part: dict[str, Any], definitions: dict[str, Any]) -> str:
    """The schema as JSON, with what it refers to; cut where that is long."""
    told = json.dumps({**part, "$defs": definitions} if definitions else part, separators=(",", ":"), default=str)
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]}…"


def _without_heads(text: str) -> str:
    for head, other in _HEADS.items():
        text = text.replace(head, other)
    return text
