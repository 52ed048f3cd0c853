"""The JSON Schema of a record: written for a class, or tidied to the keywords that we know.

Tidying closes every object to undeclared fields. From a class at hand (``strict=False``) unknown keywords are dropped:
they are remarks, and the class is the judge. From a stranger (``strict=True``) they are refused: half a schema would
promise what the other side does not keep.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from paddock.errors import InvalidSpace
from paddock.spaces.json_form import write_form
from paddock.spaces.json_schema import DEFINITIONS, Schema, describe
from paddock.spaces.records.fields import is_pydantic
from paddock.spaces.records.nodes import SPACE, brief
from paddock.spaces.space import Space

TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")

REMARKS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema"}
)
_HEADS = ("$ref", "anyOf", "oneOf", "allOf")
_UNKNOWN = "x-paddock-unknown"


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
        if not isinstance(data, dict):
            raise InvalidSpace(f"{path}: expected an object that is a JSON Schema, got {brief(data)}")
        if SPACE in data:  # the other keywords say the same for readers who do not know this one
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
        # Keywords that would narrow a union or a reference further are refused, or dropped.
        head = next((name for name in _HEADS if name in found), None)
        for key in [] if head is None else [*found]:
            if key in REMARKS or key in (head, "discriminator", "$defs"):
                continue
            if self._strict:
                raise InvalidSpace(f"{path}.{key}: this keyword can't stand beside {head}")
            del found[key]
        if "properties" in found:
            found.setdefault("additionalProperties", False)
        if root:
            found["$refs"] = self._references
        return found

    def _named(self, data: Any, path: str) -> Schema:
        if not isinstance(data, dict):
            raise InvalidSpace(f"{path}: expected an object of schemas, each name once, got {brief(data)}")
        return {name: self.schema(item, f"{path}.{name[:40]}") for name, item in data.items()}

    def _many(self, data: Any, path: str) -> list[Schema]:
        if not isinstance(data, list):
            raise InvalidSpace(f"{path}: expected a list of schemas, got {brief(data)}")
        return [self.schema(item, f"{path}[{i}]") for i, item in enumerate(data)]

    def _one(self, data: Any, path: str) -> Schema | bool:
        return data if isinstance(data, bool) else self.schema(data, path)

    def _reference(self, data: Any, path: str) -> str:
        if not isinstance(data, str) or not data.startswith(DEFINITIONS):
            raise InvalidSpace(f"{path}: expected a reference {DEFINITIONS}…, got {brief(data)}")
        self._references[data] = (path, data.removeprefix(DEFINITIONS))
        return data

    def _discriminator(self, data: Any, path: str) -> dict[str, Any]:
        fits = isinstance(data, dict) and isinstance(data.get("propertyName"), str)
        mapping = data.get("mapping") if fits else None
        if not isinstance(mapping, dict) or data.keys() != {"propertyName", "mapping"}:
            raise InvalidSpace(f"{path}: expected propertyName and mapping, got {brief(data)}")
        return {**data, "mapping": {tag: self._reference(ref, f"{path}.mapping") for tag, ref in mapping.items()}}


Rule = Callable[[_Tidier, Any, str], Any]


def _leaf(expected: str, fits: Callable[[Any], bool]) -> Rule:
    """The rule of a keyword whose value stays as it is."""

    def rule(tidier: _Tidier, data: Any, path: str) -> Any:
        if not fits(data):
            raise InvalidSpace(f"{path}: expected {expected}, got {brief(data)}")
        return data

    return rule


def _is_number(data: Any) -> bool:
    return (type(data) is int and data.bit_length() < 1024) or (type(data) is float and math.isfinite(data))


def _are_names(data: Any) -> bool:
    return isinstance(data, list) and all(isinstance(name, str) for name in data)


_COUNT = _leaf("an integer of zero or more", lambda data: type(data) is int and 0 <= data < 1 << 53)
_NUMBER = _leaf("a number", _is_number)
_STRING = _leaf("a string", lambda data: isinstance(data, str))
_RULES: dict[str, Rule] = {
    "type": _leaf(f"one of {', '.join(TYPES)}", lambda data: data in TYPES),
    "properties": _Tidier._named,
    "required": _leaf("a list of strings", _are_names),
    **dict.fromkeys(("additionalProperties", "propertyNames", "items"), _Tidier._one),
    **dict.fromkeys(("prefixItems", "anyOf", "oneOf", "allOf"), _Tidier._many),
    "discriminator": _Tidier._discriminator,
    "$ref": _Tidier._reference,
    "enum": _leaf("a list of JSON values", lambda data: isinstance(data, list) and is_json(data)),
    "const": _leaf("a JSON value", lambda data: is_json(data)),
    **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"), _COUNT),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
    "multipleOf": _leaf("a number", lambda data: _is_number(data) and data > 0),
    **dict.fromkeys(("pattern", "format", "contentEncoding", "contentMediaType"), _STRING),
    "uniqueItems": _leaf("true or false", lambda data: isinstance(data, bool)),
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


def space_schema(space: Space[Any]) -> Schema:
    """The schema of a space's members, with the form of the space itself for readers who know that keyword."""
    return {**describe(space), SPACE: write_form(space, "$")}


def record_schema(record: type) -> Schema:
    """The schema of a dataclass or msgspec struct; InvalidSpace names a field that can have none.

    msgspec writes it, but asks about a class that it does not know without naming the field. So each annotation with a
    space is described by itself and put into its field afterwards.
    """
    records: dict[type, dict[str, Any]] = {}
    _collect(record, records)
    places = [(cls, name, hint) for cls, hints in records.items() for name, hint in hints.items()]
    translated = [(cls, name, _translate(hint)) for cls, name, hint in places]
    changed = [place for place, (*_, hint) in zip(translated, places, strict=True) if place[2] is not hint]
    try:
        found, definitions = msgspec.json.schema_components(
            [*records, *(hint for *_, hint in changed)],
            schema_hook=_describe_class,
            ref_template=DEFINITIONS + "{name}",
        )
    except (TypeError, ValueError, NameError) as error:
        raise InvalidSpace(f"{record.__name__} has no JSON Schema: {error}") from error
    names = {cls: schema["$ref"].removeprefix(DEFINITIONS) for cls, schema in zip(records, found, strict=False)}
    for (cls, name, _), schema in zip(changed, found[len(records) :], strict=True):
        fields = definitions[names[cls]]["properties"]
        fields[_outside(cls, name)] = schema
    for definition_name, definition in definitions.items():
        for field, schema in definition.get("properties", {}).items():
            if (unknown := _find_unknown(schema)) is not None:
                raise InvalidSpace(
                    f"{definition_name}.{field}: {unknown} has no JSON Schema, so {record.__name__} can't be a Struct. "
                    "For an array: Annotated[np.ndarray, Box(...)]; for a pydantic model: make the record around it "
                    "one too"
                )
    return {"$ref": DEFINITIONS + names[record], "$defs": definitions}


def _collect(hint: Any, found: dict[type, dict[str, Any]]) -> None:
    """The records in an annotation, each with the annotations of its fields."""
    if isinstance(hint, type) and hint not in found and _is_ours(hint):
        try:
            hints = typing.get_type_hints(hint, include_extras=True)
        except Exception as error:  # a name that is not there, or whatever evaluating an annotation raises
            raise InvalidSpace(f"the annotations of {hint.__name__} can't be evaluated: {error}") from error
        own = getattr(hint, "__struct_fields__", None) or vars(hint).get("__dataclass_fields__", ())
        found[hint] = {name: hints[name] for name in own}
        for item in found[hint].values():
            _collect(item, found)
    for item in typing.get_args(hint):
        _collect(item, found)


def _is_ours(cls: type) -> bool:
    return not is_pydantic(cls) and (hasattr(cls, "__struct_fields__") or hasattr(cls, "__dataclass_fields__"))


def _translate(hint: Any) -> Any:
    """``hint`` with a class of its own for each part that is annotated with a space; otherwise unchanged."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        space = next((item for item in inside[1:] if isinstance(item, Space)), None)
        if space is not None:
            return type("AnnotatedWithSpace", (), {"space": space})
        base = _translate(inside[0])
        whole = (base, *inside[1:])
        return hint if base is inside[0] else Annotated[whole]
    if origin is None or origin is typing.Literal:
        return hint
    changed = tuple(_translate(item) for item in inside)
    if all(one is other for one, other in zip(changed, inside, strict=True)):
        return hint
    if origin in (typing.Union, types.UnionType):
        return typing.Union[changed]  # noqa: UP007 - made at run time
    return origin[changed]


def _describe_class(cls: Any) -> Schema:
    """Describe a class that msgspec does not know."""
    space = getattr(cls, "space", None)
    if isinstance(space, Space):
        return space_schema(space)
    return {_UNKNOWN: getattr(cls, "__name__", str(cls))}


def _outside(cls: Any, name: str) -> str:
    """The name of a field in plain data."""
    names = getattr(cls, "__struct_fields__", None)
    return name if names is None else str(cls.__struct_encode_fields__[names.index(name)])


def _find_unknown(schema: Any) -> str | None:
    parts: Any = ()
    if isinstance(schema, dict):
        if _UNKNOWN in schema:
            return str(schema[_UNKNOWN])
        parts = schema.values()
    elif isinstance(schema, list):
        parts = schema
    return next((found for found in map(_find_unknown, parts) if found is not None), None)
