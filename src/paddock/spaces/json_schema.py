"""The JSON Schema (draft 2020-12) of a space's values, in the form that `value_to_json` writes.

Large arrays with differing bounds are described by their extremes, so a schema may admit values that
`value_from_json` refuses; it never refuses a member.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.errors import CustomSpaceError
from paddock.spaces.box import Box
from paddock.spaces.dict import Dict
from paddock.spaces.discrete import Discrete
from paddock.spaces.graph import Graph
from paddock.spaces.json_value import check_keys
from paddock.spaces.multi_binary import MultiBinary
from paddock.spaces.multi_discrete import MultiDiscrete
from paddock.spaces.oneof import OneOf
from paddock.spaces.sequence import Sequence
from paddock.spaces.space import Space
from paddock.spaces.struct import Struct
from paddock.spaces.text import Text
from paddock.spaces.tuple import Tuple

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DEFINITIONS = "#/$defs/"

# Beyond this many elements (characters), differing bounds (the character set) are not spelled out one by one.
DETAIL_LIMIT = 1024
PATTERN_LIMIT = 256

Schema = dict[str, Any]


def json_schema(space: Space[Any]) -> Schema:
    """The schema of the values of ``space``."""
    return {"$schema": DIALECT, **hoist(describe(space))}


@singledispatch
def describe(space: Space[Any]) -> Schema:
    """The rule of `json_schema` for one class of spaces; spaces of your own register theirs."""
    match space:
        case Box() if space._low.uniform and space._high.uniform:
            corner = (0,) * len(space.shape)
            return _nest_in_arrays(_number(space.low[corner], space.high[corner]), space.shape)
        case Box():
            return _arrays(space.low, space.high)
        case Discrete():
            return {"type": "integer", "minimum": space._first, "maximum": space._end - 1}
        case MultiDiscrete():
            return _arrays(space.start, space._last)
        case MultiBinary():
            return _nest_in_arrays({"enum": [0, 1]}, space.shape)
        case Text():
            return _text(space)
        case Tuple():
            return _list_of([describe(part) for part in space.spaces])
        case Dict():
            check_keys(space)
            return _object({key: describe(part) for key, part in space.spaces.items()})
        case OneOf():
            pairs = [[{"const": i}, describe(part)] for i, part in enumerate(space.spaces)]
            return {"anyOf": [{"type": "array", "prefixItems": pair, "items": False, "minItems": 2} for pair in pairs]}
        case Sequence():
            return {"type": "array", "items": describe(space.feature_space)}
        case Struct():
            return Whole(space.described)
        case Graph():
            return _graph(space)
    name = type(space).__name__
    raise CustomSpaceError(
        f"{name} has no JSON Schema; add a rule: paddock.spaces.json_schema.describe.register({name}, ...)"
    )


def _arrays(low: NDArray[Any], high: NDArray[Any]) -> Schema:
    if low.size == 0:
        return _nest_in_arrays({}, low.shape)
    if low.size > DETAIL_LIMIT:
        return _nest_in_arrays(_number(low.min(), high.max()), low.shape)
    if low.ndim == 0:
        return _number(low[()], high[()])
    return _list_of([_arrays(*pair) for pair in zip(np.asarray(low), np.asarray(high), strict=True)])


def _nest_in_arrays(leaf: Schema, shape: tuple[int, ...]) -> Schema:
    for size in reversed(shape):
        leaf = {"type": "array", "items": leaf, "minItems": size, "maxItems": size}
    return leaf


def _list_of(parts: list[Schema]) -> Schema:
    if not parts:
        return {"type": "array", "maxItems": 0}
    if all(part == parts[0] for part in parts):
        return {"type": "array", "items": parts[0], "minItems": len(parts), "maxItems": len(parts)}
    return {"type": "array", "prefixItems": parts, "items": False, "minItems": len(parts), "maxItems": len(parts)}


def _number(low: Any, high: Any) -> Schema:
    kind, least, most = np.asarray(low).dtype.kind, low.item(), high.item()
    if kind == "b":
        return {"enum": [value for value in (False, True) if least <= value <= most]}
    schema: Schema = {"type": "number" if kind == "f" else "integer"}
    names = []
    for keyword, bound in (("minimum", least), ("maximum", most)):
        if math.isfinite(bound):
            schema[keyword] = bound
        else:
            names.append(str(bound))
    return {"anyOf": [schema, {"enum": sorted(set(names))}]} if names else schema


def _text(space: Text) -> Schema:
    schema: Schema = {"type": "string", "minLength": space.min_length, "maxLength": space.max_length}
    characters = space.characters
    if not characters:
        schema["maxLength"] = 0
    elif len(characters) <= PATTERN_LIMIT:
        # In the spelling that all dialects of regular expressions share.
        escaped = [char if char.isalnum() or ord(char) > 0xFFFF else f"\\u{ord(char):04x}" for char in characters]
        schema["pattern"] = f"^[{''.join(escaped)}]*$"
    return schema


def _graph(space: Graph) -> Schema:
    edges: Schema = {"type": "null"}
    links: Schema = {"type": "null"}
    if space.edge_space is not None:
        link = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2}
        edges = {"anyOf": [edges, {"type": "array", "items": describe(space.edge_space)}]}
        links = {"anyOf": [links, {"type": "array", "items": link}]}
    nodes = {"type": "array", "items": describe(space.node_space)}
    return _object({"nodes": nodes, "edges": edges, "edge_links": links})


def _object(properties: dict[str, Schema]) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


class Whole(dict[str, Any]):
    """A schema with definitions of its own. Not told by its keys: a field of a Dict may be called ``$defs`` too."""


def hoist(schema: Schema) -> Schema:
    """``schema`` with the definitions of all its parts at its top, where references are looked up.

    Names that clash get a number.
    """
    top: Schema = {}

    def find_name(name: str, definition: Any) -> str:
        free, number = name, 2
        while free in top and top[free] != definition:
            free, number = f"{name}_{number}", number + 1
        top.setdefault(free, definition)
        return free

    def lift(part: Any, names: dict[str, str]) -> Any:
        if isinstance(part, list):
            return [lift(item, names) for item in part]
        if not isinstance(part, dict):
            return part
        if isinstance(part, Whole):
            own = part.get("$defs", {})
            names = {name: find_name(name, definition) for name, definition in own.items()}
            top.update({names[name]: lift(definition, names) for name, definition in own.items()})
            part = {key: item for key, item in part.items() if key != "$defs"}
        found = {key: lift(item, names) for key, item in part.items()}
        reference = found.get("$ref")
        if isinstance(reference, str) and (name := reference.removeprefix(DEFINITIONS)) in names:
            found["$ref"] = DEFINITIONS + names[name]
        return found

    lifted: Schema = lift(schema, {})
    return {**lifted, "$defs": top} if top else lifted
