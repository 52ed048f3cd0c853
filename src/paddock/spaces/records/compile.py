"""A tidy schema as nodes. Where a class has the last word, patterns and formats only guide samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddock.errors import InvalidSpace
from paddock.spaces.records.containers import Array, Object, Reference, Union
from paddock.spaces.records.hoist import DEFINITIONS, Schema
from paddock.spaces.records.leaves import Anything, Boolean, Constants, Member, Number, Text
from paddock.spaces.records.pattern import safe_pattern
from paddock.spaces.records.tidy import SPACE
from paddock.spaces.records.walk import Draw, Node

_SECONDS = 2 * 10**9


def compile_schema(schema: Schema, *, judged: bool) -> Node:
    """The node of the whole schema. ``judged``: a class will judge what was read."""
    compiler = _Compiler(judged)
    for name, item in schema.get("$defs", {}).items():
        compiler.definitions[name] = compiler.node(item)
    root = compiler.node(schema)
    _check_ends(compiler.definitions)
    return root


def _check_ends(definitions: dict[str, Node]) -> None:
    """Refuse definitions that are nothing but each other."""

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
        rule = _RULES.get(schema.get("type", otherwise))
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


_RULES: dict[str, Callable[[_Compiler, Schema], Node]] = {
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


def _reader_of(name: str, module: str) -> Callable[[str], Any]:
    def check(text: str) -> None:
        from importlib import import_module

        from msgspec import convert

        convert(text, getattr(import_module(module), name))  # its ValidationError is a ValueError

    return check


def _some_date(draw: Draw) -> str:
    from datetime import datetime, timezone

    return datetime.fromtimestamp(draw.below(_SECONDS), timezone.utc).strftime("%Y-%m-%d")


def _some_time(draw: Draw) -> str:
    return f"{draw.below(24):02}:{draw.below(60):02}:{draw.below(60):02}{'Z' * draw.below(2)}"


def _some_uuid(draw: Draw) -> str:
    from uuid import UUID

    return str(UUID(bytes=draw.random.bytes(16), version=4))


def _some_bytes(draw: Draw) -> str:
    from base64 import b64encode

    return b64encode(draw.random.bytes(draw.below(13))).decode()


# How text of a format is checked, and what it may look like. Other formats are remarks.
_FORMATS: dict[str, tuple[Callable[[str], Any] | None, Callable[[Draw], str] | None]] = {
    "date-time": (_reader_of("datetime", "datetime"), lambda draw: f"{_some_date(draw)}T{_some_time(draw)}"),
    "date": (_reader_of("date", "datetime"), _some_date),
    "time": (_reader_of("time", "datetime"), _some_time),
    "duration": (_reader_of("timedelta", "datetime"), lambda draw: f"PT{draw.below(10**5)}S"),
    "uuid": (_reader_of("UUID", "uuid"), _some_uuid),
    "decimal": (_reader_of("Decimal", "decimal"), lambda draw: f"{draw.below(10**5)}.{draw.below(100):02}"),
    "base64": (_reader_of("bytes", "builtins"), _some_bytes),
}
