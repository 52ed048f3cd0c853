"""A JSON Schema cut down to the keywords that we know, with every object closed to fields that nobody declared.

From a class at hand (``strict=False``) the rest is dropped: such keywords are remarks, and the class is the judge. From
a stranger (``strict=True``) the rest is refused: half a schema would promise what the other side does not keep.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from paddock.errors import InvalidSpace
from paddock.spaces.json_guard import Repeated
from paddock.spaces.records.hoist import DEFINITIONS, Schema
from paddock.spaces.records.walk import shown

SPACE = "x-paddock-space"
TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")

REMARKS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema"}
)
_HEADS = ("$ref", "anyOf", "oneOf", "allOf")


def tidy(schema: Any, *, strict: bool, path: str = "schema") -> Schema:
    """The schema of a record, as we understand it; InvalidSpace with the path of what is wrong."""
    root = _Tidier(strict).schema(schema, path, root=True)
    for name, (place, target) in root.pop("$refs").items():
        if target not in root.get("$defs", {}):
            raise InvalidSpace(f"{place}: no definition {target[:40]!r}, expected a name in $defs ({name[:60]})")
    return root


class _Tidier:
    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._references: dict[str, tuple[str, str]] = {}

    def schema(self, data: Any, path: str, root: bool = False) -> Schema:
        if isinstance(data, Repeated):
            raise InvalidSpace(f"{path}: the key {data.key[:40]!r} stands twice")
        if not isinstance(data, dict):
            raise InvalidSpace(f"{path}: expected an object that is a JSON Schema, got {shown(data)}")
        if SPACE in data:  # beside it stands the same in other words, for readers who do not know it
            return {key: item for key, item in data.items() if key == SPACE or (key in REMARKS and is_json(item))}
        found: Schema = {}
        for key, item in data.items():
            place = f"{path}.{str(key)[:40]}"
            if key == "$schema" or (key in REMARKS and not is_json(item)):
                continue
            if key in REMARKS:
                found[key] = item
            elif key == "$defs" and root:
                found[key] = self._named(item, place)
            elif (rule := _RULES.get(key)) is not None:
                found[key] = rule(self, item, place)
            elif self._strict:
                raise InvalidSpace(f"{place}: unknown keyword; a Struct takes {', '.join(_RULES)}")
        self._check_head(found, path)
        if "properties" in found:
            found.setdefault("additionalProperties", False)
        if root:
            found["$refs"] = self._references
        return found

    def _check_head(self, found: Schema, path: str) -> None:
        """Refuse, or drop, what would narrow a union or a reference further: it is no keyword of them."""
        head = next((name for name in _HEADS if name in found), None)
        if head is None:
            return
        for key in [key for key in found if key not in REMARKS and key not in (head, "discriminator", "$defs")]:
            if self._strict:
                raise InvalidSpace(f"{path}.{key}: this keyword can't stand beside {head}")
            del found[key]

    def _named(self, data: Any, path: str) -> Schema:
        if not isinstance(data, dict) or isinstance(data, Repeated):
            raise InvalidSpace(f"{path}: expected an object of schemas, each name once, got {shown(data)}")
        return {name: self.schema(item, f"{path}.{name[:40]}") for name, item in data.items()}

    def _many(self, data: Any, path: str) -> list[Schema]:
        if not isinstance(data, list):
            raise InvalidSpace(f"{path}: expected a list of schemas, got {shown(data)}")
        return [self.schema(item, f"{path}[{i}]") for i, item in enumerate(data)]

    def _one(self, data: Any, path: str) -> Schema | bool:
        return data if isinstance(data, bool) else self.schema(data, path)

    def _reference(self, data: Any, path: str) -> str:
        if not isinstance(data, str) or not data.startswith(DEFINITIONS):
            raise InvalidSpace(f"{path}: expected a reference {DEFINITIONS}…, got {shown(data)}")
        self._references[data] = (path, data.removeprefix(DEFINITIONS))
        return data

    def _discriminator(self, data: Any, path: str) -> dict[str, Any]:
        fits = isinstance(data, dict) and isinstance(data.get("propertyName"), str)
        mapping = data.get("mapping") if fits else None
        if not isinstance(mapping, dict) or data.keys() != {"propertyName", "mapping"}:
            raise InvalidSpace(f"{path}: expected propertyName and mapping, got {shown(data)}")
        return {**data, "mapping": {tag: self._reference(ref, f"{path}.mapping") for tag, ref in mapping.items()}}

    def _type(self, data: Any, path: str) -> str:
        if data not in TYPES:
            raise InvalidSpace(f"{path}: expected one of {', '.join(TYPES)}, got {shown(data)}")
        return str(data)

    def _count(self, data: Any, path: str) -> int:
        if type(data) is not int or not 0 <= data < 1 << 53:
            raise InvalidSpace(f"{path}: expected an integer of zero or more, got {shown(data)}")
        return data

    def _number(self, data: Any, path: str) -> int | float:
        fits = (type(data) is int and data.bit_length() < 1024) or (type(data) is float and math.isfinite(data))
        if not fits or (path.endswith(".multipleOf") and data <= 0):
            raise InvalidSpace(f"{path}: expected a number, got {shown(data)}")
        return data  # type: ignore[no-any-return]

    def _text(self, data: Any, path: str) -> str:
        if not isinstance(data, str):
            raise InvalidSpace(f"{path}: expected a string, got {shown(data)}")
        return data

    def _flag(self, data: Any, path: str) -> bool:
        if not isinstance(data, bool):
            raise InvalidSpace(f"{path}: expected true or false, got {shown(data)}")
        return data

    def _names(self, data: Any, path: str) -> list[str]:
        if not isinstance(data, list) or not all(isinstance(name, str) for name in data):
            raise InvalidSpace(f"{path}: expected a list of strings, got {shown(data)}")
        return data

    def _constants(self, data: Any, path: str) -> list[Any]:
        if not isinstance(data, list) or not is_json(data):
            raise InvalidSpace(f"{path}: expected a list of JSON values, got {shown(data)}")
        return data

    def _constant(self, data: Any, path: str) -> Any:
        return self._constants([data], path)[0]


_RULES: dict[str, Callable[[_Tidier, Any, str], Any]] = {
    "type": _Tidier._type,
    "properties": _Tidier._named,
    "required": _Tidier._names,
    "additionalProperties": _Tidier._one,
    "propertyNames": _Tidier._one,
    "items": _Tidier._one,
    "prefixItems": _Tidier._many,
    "anyOf": _Tidier._many,
    "oneOf": _Tidier._many,
    "allOf": _Tidier._many,
    "discriminator": _Tidier._discriminator,
    "$ref": _Tidier._reference,
    "enum": _Tidier._constants,
    "const": _Tidier._constant,
    **dict.fromkeys(
        ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"), _Tidier._count
    ),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _Tidier._number),
    **dict.fromkeys(("pattern", "format", "contentEncoding", "contentMediaType"), _Tidier._text),
    "uniqueItems": _Tidier._flag,
}


def is_json(data: Any) -> bool:
    """Whether ``data`` can stand in JSON text."""
    if isinstance(data, float):
        return math.isfinite(data)
    if isinstance(data, list):
        return all(map(is_json, data))
    if isinstance(data, dict):
        return all(isinstance(key, str) for key in data) and all(map(is_json, data.values()))
    return data is None or isinstance(data, (str, int))
