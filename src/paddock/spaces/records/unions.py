"""Several classes of records as one kind. Plain data must say by itself which of them it is: that is checked at once.

It says so by a field that has other constants in each class (the tag of msgspec structs, a ``Literal`` in others), or
by the names of its fields: of each two classes one needs a field that the other does not have.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

from paddock.errors import InvalidSpace
from paddock.spaces.records.fields import open_up
from paddock.spaces.records.hoist import DEFINITIONS, Schema, Whole, hoist
from paddock.spaces.records.kinds import Kind, kind_of


def members_of(record: Any) -> tuple[Any, ...]:
    """The classes of a union, or the one class that ``record`` is."""
    while typing.get_origin(record) is typing.Annotated or hasattr(record, "__value__"):  # `type A = …` has a value
        record = record.__origin__ if typing.get_origin(record) is typing.Annotated else record.__value__
    if typing.get_origin(record) not in (typing.Union, types.UnionType):
        return (record,)
    return tuple(member for part in typing.get_args(record) for member in members_of(part))


class UnionKind:
    """The kinds of ``records`` under one schema, with a discriminator where a field is one."""

    def __init__(self, records: tuple[Any, ...]) -> None:
        self._kinds: dict[type, Kind] = {record: kind_of(record) for record in records}
        whole = hoist({"anyOf": [Whole(kind.schema) for kind in self._kinds.values()]})
        definitions = whole.setdefault("$defs", {})
        names = [_define(*branch, definitions) for branch in zip(records, whole["anyOf"], strict=True)]
        self._branches = [
            _Branch(kind, definitions[name]) for kind, name in zip(self._kinds.values(), names, strict=True)
        ]
        self._tag, self._by_tag = _tag_of(self._branches)
        self.schema: Schema = {"anyOf": [{"$ref": DEFINITIONS + name} for name in names], "$defs": definitions}
        if self._tag:
            mapping = {tag: DEFINITIONS + names[self._branches.index(branch)] for tag, branch in self._by_tag.items()}
            self.schema["discriminator"] = {"propertyName": self._tag, "mapping": mapping}
            for name in names:  # a default of it is no help to who has to tell them apart
                definitions[name] = _requiring(definitions[name], self._tag)
        else:
            _check_apart(self._branches, records)

    def make(self, data: Any) -> Any:
        kind = self._told(data)
        assert kind is not None  # the schema's nodes have read it
        return kind.make(data)

    def open(self, data: Any) -> Any:
        kind = self._kinds.get(type(data)) or self._told(data)
        return open_up(data) if kind is None else kind.open(data)

    def take_apart(self, record: Any) -> tuple[Any, list[Any] | None]:
        return self._kinds[type(record)].take_apart(record)

    def _told(self, data: Any) -> Kind | None:
        """The kind of which plain data says that it is; None where it says nothing."""
        if not isinstance(data, dict):
            return None
        if self._tag:
            tag = data.get(self._tag)
            branch = self._by_tag.get(tag) if isinstance(tag, str) else None
        else:
            branch = next((branch for branch in self._branches if branch.has_names_of(data)), None)
        return None if branch is None else branch.kind


class _Branch(NamedTuple):
    kind: Kind
    definition: Schema

    @property
    def fields(self) -> dict[str, Any]:
        found: dict[str, Any] = self.definition.get("properties", {})
        return found

    @property
    def required(self) -> set[str]:
        return set(self.definition.get("required", ()))

    @property
    def open(self) -> bool:
        return bool(self.definition.get("additionalProperties", False))

    def lacks(self, names: set[str]) -> bool:
        """Whether data with these fields can't be of this branch."""
        return not self.open and not names <= self.fields.keys()

    def has_names_of(self, data: dict[Any, Any]) -> bool:
        return self.required <= data.keys() and not self.lacks(set(data))

    def constants(self, name: str) -> list[str]:
        """The values of a field that has no others; empty where it may be something else than text."""
        schema = self.fields.get(name, {})
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        return values if all(isinstance(value, str) for value in values) else []


def _define(record: type, branch: Schema, definitions: Schema) -> str:
    """The name under which a branch is defined; pydantic writes a class that does not hold itself out in place."""
    if "$ref" in branch:
        return str(branch["$ref"]).removeprefix(DEFINITIONS)
    name = next(name for name in _names(record.__name__) if name not in definitions)
    definitions[name] = branch
    return name


def _names(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}_{number}"
        number += 1


def _requiring(definition: Schema, name: str) -> Schema:
    required = definition.get("required", [])
    return definition if name in required else {**definition, "required": [name, *required]}


def _tag_of(branches: list[_Branch]) -> tuple[str, dict[str, _Branch]]:
    """The first field whose constants tell all branches apart, and who has which."""
    for name in branches[0].fields:
        found = [(tag, branch) for branch in branches for tag in branch.constants(name)]
        by_tag = dict(found)
        if len(by_tag) == len(found) and all(branch.constants(name) for branch in branches):
            return name, by_tag
    return "", {}


def _check_apart(branches: list[_Branch], records: tuple[Any, ...]) -> None:
    for (one, first), (other, second) in combinations(zip(branches, records, strict=True), 2):
        if not (one.lacks(other.required) or other.lacks(one.required)):
            raise InvalidSpace(
                f"plain data can't say whether it is {first.__name__} or {second.__name__}: give both a field like "
                f'`kind: Literal["{first.__name__.lower()}"]`, or one of them a field without a default that the other '
                "does not have"
            )
