"""The JSON Schema of a record: written for a class, tidied to the keywords that we know, compiled to nodes.

Tidying closes every object to undeclared fields. From a class at hand (``strict=False``) unknown keywords are dropped:
they are remarks, and the class is the judge. From a stranger (``strict=True``) they are refused: half a schema would
promise what the other side does not keep.
"""

from __future__ import annotations

import math
import types
import typing
from base64 import b64encode
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import msgspec

from paddock.errors import InvalidSpace
from paddock.spaces.json_form import Repeated, write_form
from paddock.spaces.json_schema import DEFINITIONS, Schema, describe
from paddock.spaces.records.fields import is_pydantic
from paddock.spaces.records.nodes import (
    Anything,
    Array,
    Boolean,
    Constants,
    Draw,
    Member,
    Node,
    Number,
    Object,
    Reference,
    Text,
    Union,
    brief,
    safe_pattern,
)
from paddock.spaces.space import Space

SPACE = "x-paddock-space"
TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")

REMARKS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema"}
)
_HEADS = ("$ref", "anyOf", "oneOf", "allOf")
_SECONDS = 2 * 10**9
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
        if isinstance(data, Repeated):
            raise InvalidSpace(f"{path}: the key {data.key[:40]!r} occurs twice")
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
        if not isinstance(data, dict) or isinstance(data, Repeated):
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

    def _type(self, data: Any, path: str) -> str:
        if data not in TYPES:
            raise InvalidSpace(f"{path}: expected one of {', '.join(TYPES)}, got {brief(data)}")
        return str(data)

    def _count(self, data: Any, path: str) -> int:
        if type(data) is not int or not 0 <= data < 1 << 53:
            raise InvalidSpace(f"{path}: expected an integer of zero or more, got {brief(data)}")
        return data

    def _number(self, data: Any, path: str) -> int | float:
        fits = (type(data) is int and data.bit_length() < 1024) or (type(data) is float and math.isfinite(data))
        if not fits or (path.endswith(".multipleOf") and data <= 0):
            raise InvalidSpace(f"{path}: expected a number, got {brief(data)}")
        return data  # type: ignore[no-any-return]

    def _text(self, data: Any, path: str) -> str:
        if not isinstance(data, str):
            raise InvalidSpace(f"{path}: expected a string, got {brief(data)}")
        return data

    def _flag(self, data: Any, path: str) -> bool:
        if not isinstance(data, bool):
            raise InvalidSpace(f"{path}: expected true or false, got {brief(data)}")
        return data

    def _names(self, data: Any, path: str) -> list[str]:
        if not isinstance(data, list) or not all(isinstance(name, str) for name in data):
            raise InvalidSpace(f"{path}: expected a list of strings, got {brief(data)}")
        return data

    def _constants(self, data: Any, path: str) -> list[Any]:
        if not isinstance(data, list) or not is_json(data):
            raise InvalidSpace(f"{path}: expected a list of JSON values, got {brief(data)}")
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


def compile_schema(schema: Schema, *, judged: bool) -> Node:
    """Compile a tidy schema. ``judged``: a class has the last word, so patterns and formats only guide samples."""
    compiler = _Compiler(judged)
    for name, item in schema.get("$defs", {}).items():
        compiler.definitions[name] = compiler.node(item)
    root = compiler.node(schema)
    _check_ends(compiler.definitions)
    return root


def _check_ends(definitions: dict[str, Node]) -> None:
    """Refuse definitions that consist of nothing but each other."""

    def visit(node: Node, above: tuple[str, ...]) -> None:
        if isinstance(node, Union):
            for branch in node.branches:
                visit(branch, above)
        if isinstance(node, Reference) and node.name not in done:
            if node.name in above:
                raise InvalidSpace(f"schema.$defs: {node.name[:40]!r} is defined by nothing but itself")
            visit(definitions[node.name], (*above, node.name))
            done.add(node.name)

    done: set[str] = set()
    for name in definitions:
        visit(Reference(name, definitions), ())


class _Compiler:
    def __init__(self, judged: bool) -> None:
        self.definitions: dict[str, Node] = {}
        self._judged = judged

    def node(self, schema: Schema | bool, otherwise: str = "") -> Node:
        """The node of one schema; ``otherwise`` is the type where none is given."""
        if schema is True:
            return Anything()
        if schema is False:
            return Union([])
        if SPACE in schema:
            return _member(schema[SPACE])
        if "$ref" in schema:
            return Reference(schema["$ref"].removeprefix(DEFINITIONS), self.definitions)
        if "allOf" in schema and len(schema["allOf"]) != 1:
            raise InvalidSpace(f"schema: allOf of {len(schema['allOf'])} schemas, expected one")
        if "allOf" in schema:
            return self.node(schema["allOf"][0])
        if "anyOf" in schema or "oneOf" in schema:
            return self._union(schema)
        if "const" in schema or "enum" in schema:
            return Constants(schema["enum"] if "enum" in schema else [schema["const"]])
        rule = _NODE_RULES.get(schema.get("type", otherwise))
        return Anything() if rule is None else rule(self, schema)

    def _union(self, schema: Schema) -> Node:
        branches = [self.node(item) for item in schema["anyOf" if "anyOf" in schema else "oneOf"]]
        tagged = schema.get("discriminator")
        if tagged is None:
            return branches[0] if len(branches) == 1 else Union(branches)
        by_tag = {tag: self.node({"$ref": reference}) for tag, reference in tagged["mapping"].items()}
        return Union(branches, tagged["propertyName"], by_tag)

    def _object(self, schema: Schema) -> Node:
        others = schema.get("additionalProperties", True)
        return Object(
            {name: self.node(item) for name, item in schema.get("properties", {}).items()},
            frozenset(schema.get("required", ())),
            others=None if others is False else self.node(others),
            names=self.node(schema["propertyNames"], "string") if "propertyNames" in schema else None,
            least=schema.get("minProperties", 0),
            most=schema.get("maxProperties"),
        )

    def _array(self, schema: Schema) -> Node:
        rest = schema.get("items", True)
        return Array(
            [self.node(item) for item in schema.get("prefixItems", ())],
            None if rest is False else self.node(rest),
            least=schema.get("minItems", 0),
            most=schema.get("maxItems"),
            unique=schema.get("uniqueItems", False),
            ordered=not self._judged,  # classes say "unique" of sets alone
        )

    def _text(self, schema: Schema) -> Node:
        pattern = schema.get("pattern")
        kind = schema.get("contentEncoding") or schema.get("format") or ""
        check, make = _FORMATS.get(kind, (None, None))
        return Text(
            least=schema.get("minLength", 0),
            most=schema.get("maxLength"),
            pattern=None if pattern is None else safe_pattern(pattern),
            check=check,
            make=make,
            judged=self._judged,
            kind=kind,
        )

    def _number(self, schema: Schema) -> Node:
        return Number(
            integer=schema.get("type") == "integer",
            least=schema.get("minimum"),
            most=schema.get("maximum"),
            above=schema.get("exclusiveMinimum"),
            below=schema.get("exclusiveMaximum"),
            step=schema.get("multipleOf"),
        )


_NODE_RULES: dict[str, Callable[[_Compiler, Schema], Node]] = {
    "object": _Compiler._object,
    "array": _Compiler._array,
    "string": _Compiler._text,
    "integer": _Compiler._number,
    "number": _Compiler._number,
    "boolean": lambda compiler, schema: Boolean(),
    "null": lambda compiler, schema: Constants([None]),
}


def _member(form: Any) -> Node:
    from paddock.spaces.json_form import read_form

    return Member(read_form(form, f"$.schema.{SPACE}"))


def _checker(kind: type) -> Callable[[str], Any]:
    def check(text: str) -> None:
        msgspec.convert(text, kind)  # its ValidationError is a ValueError

    return check


def _sample_date(draw: Draw) -> str:
    return datetime.fromtimestamp(draw.below(_SECONDS), timezone.utc).strftime("%Y-%m-%d")


def _sample_time(draw: Draw) -> str:
    return f"{draw.below(24):02}:{draw.below(60):02}:{draw.below(60):02}{'Z' * draw.below(2)}"


# How text of a format is checked and sampled. Other formats are remarks.
_FORMATS: dict[str, tuple[Callable[[str], Any], Callable[[Draw], str]]] = {
    "date-time": (_checker(datetime), lambda draw: f"{_sample_date(draw)}T{_sample_time(draw)}"),
    "date": (_checker(date), _sample_date),
    "time": (_checker(time), _sample_time),
    "duration": (_checker(timedelta), lambda draw: f"PT{draw.below(10**5)}S"),
    "uuid": (_checker(UUID), lambda draw: str(UUID(bytes=draw.random.bytes(16), version=4))),
    "decimal": (_checker(Decimal), lambda draw: f"{draw.below(10**5)}.{draw.below(100):02}"),
    "base64": (_checker(bytes), lambda draw: b64encode(draw.random.bytes(draw.below(13))).decode()),
}


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
