"""How records of each kind are described, made and taken apart. The values of a schema without a class are dicts."""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Callable
from functools import reduce
from itertools import combinations
from operator import or_
from typing import Any, NamedTuple

import msgspec
import numpy as np

from paddock.errors import InvalidSpace, InvalidValue
from paddock.spaces.json_schema import DEFINITIONS, Schema, Whole, hoist
from paddock.spaces.records.fields import is_plain, is_pydantic, is_record, open_up
from paddock.spaces.records.nodes import SPACE
from paddock.spaces.records.schema import record_schema

# How much of a class's own error goes into a message.
REASON_LIMIT = 200

_PLACE = re.compile(r"(?P<reason>.*?)(?: - at `(?:key in )?`?\$?\.?(?P<path>[^`]*)`)?", re.DOTALL)


class Kind:
    """A kind of record; this one is of a schema from elsewhere, without a class: its records are dicts.

    ``schema`` is what the class's own library says, without our changes.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def make(self, data: Any) -> Any:
        """Make a record of data that the schema's nodes have read, or raise InvalidValue."""
        return data

    def open(self, data: Any) -> Any:
        """Turn data that may have records, dates and the like in it into data for the schema's nodes."""
        return open_up(data)

    def take_apart(self, record: Any) -> tuple[Any, list[Any] | None]:
        """Turn a record into data for the schema's nodes, and members that it refers to by number."""
        return open_up(record), None


def kind_of(record: Any) -> Kind:
    """The kind of the class ``record``."""
    if not is_record(record):
        raise InvalidSpace(
            f"Struct takes a dataclass, a pydantic model or a msgspec Struct, got {record!r:.100}; "
            "the class itself, not an instance"
        )
    if is_pydantic(record):
        from paddock.spaces.records.pydantic import PydanticKind

        return PydanticKind(record)
    return MsgspecKind(record)


class MsgspecKind(Kind):
    """Dataclasses and msgspec structs."""

    def __init__(self, record: Any) -> None:
        config = getattr(record, "__struct_config__", None)
        if config is not None and config.array_like:
            raise InvalidSpace(f"{record.__name__} has array_like=True, so it has no named fields in plain data")
        self._record = record
        super().__init__(record_schema(record))

    def make(self, data: Any) -> Any:
        try:
            return msgspec.convert(data, self._record, dec_hook=_decode, str_keys=True)
        except msgspec.ValidationError as error:
            match = _PLACE.fullmatch(str(error))
            assert match is not None  # any text matches
            raise refusal(match["path"] or "", match["reason"]) from error


def refusal(path: str, reason: str) -> InvalidValue:
    """The error of a class that refuses data, cut to a length that can't carry much of the data."""
    reason = " ".join(reason.split())
    reason = reason if len(reason) <= REASON_LIMIT else reason[:REASON_LIMIT] + "…"
    return InvalidValue(f"{path}: {reason}" if path else reason, path=path)


def _decode(cls: Any, data: Any) -> Any:
    """Decode a class that msgspec does not know: members of spaces already are what they should be."""
    origin = typing.get_origin(cls) or cls
    return origin(data) if issubclass(origin, np.generic) and not isinstance(data, origin) else data


def members_of(record: Any) -> tuple[Any, ...]:
    """The classes of a union, or the one class that ``record`` is."""
    while typing.get_origin(record) is typing.Annotated or hasattr(record, "__value__"):  # `type A = …` has a value
        record = record.__origin__ if typing.get_origin(record) is typing.Annotated else record.__value__
    if typing.get_origin(record) not in (typing.Union, types.UnionType):
        return (record,)
    return tuple(member for part in typing.get_args(record) for member in members_of(part))


class UnionKind(Kind):
    """Several classes as one kind, under one schema.

    Plain data must say by itself which class it is, and that is checked here. It says so by a field that has other
    constants in each class (the tag of msgspec structs, a ``Literal`` in others), which becomes the discriminator, or
    by the names of its fields: of each two classes one needs a field that the other does not have.
    """

    def __init__(self, records: tuple[Any, ...]) -> None:
        self._kinds: dict[type, Kind] = {record: kind_of(record) for record in records}
        whole = hoist({"anyOf": [Whole(kind.schema) for kind in self._kinds.values()]})
        definitions = whole.setdefault("$defs", {})
        names = [_define(*branch, definitions) for branch in zip(records, whole["anyOf"], strict=True)]
        self._branches = [
            _Branch(kind, definitions[name]) for kind, name in zip(self._kinds.values(), names, strict=True)
        ]
        self._tag, self._by_tag = _find_tag(self._branches)
        self.schema: Schema = {"anyOf": [{"$ref": DEFINITIONS + name} for name in names], "$defs": definitions}
        if self._tag:
            mapping = {tag: DEFINITIONS + names[self._branches.index(branch)] for tag, branch in self._by_tag.items()}
            self.schema["discriminator"] = {"propertyName": self._tag, "mapping": mapping}
            for name in names:  # a default does not help to tell them apart
                required = definitions[name].get("required", [])
                if self._tag not in required:
                    definitions[name] = {**definitions[name], "required": [self._tag, *required]}
            return
        for (one, first), (other, second) in combinations(zip(self._branches, records, strict=True), 2):
            if not (one.lacks(other.required) or other.lacks(one.required)):
                raise InvalidSpace(
                    f"plain data can't say whether it is {first.__name__} or {second.__name__}: give both a field like "
                    f'`kind: Literal["{first.__name__.lower()}"]`, or one of them a field without a default that the '
                    "other does not have"
                )

    def make(self, data: Any) -> Any:
        kind = self._kind_of(data)
        assert kind is not None  # the schema's nodes have read it
        return kind.make(data)

    def open(self, data: Any) -> Any:
        kind = self._kinds.get(type(data)) or self._kind_of(data)
        return open_up(data) if kind is None else kind.open(data)

    def take_apart(self, record: Any) -> tuple[Any, list[Any] | None]:
        return self._kinds[type(record)].take_apart(record)

    def _kind_of(self, data: Any) -> Kind | None:
        """The kind that plain data says it is; None if it says nothing."""
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
    name, number = record.__name__, 2
    while name in definitions:
        name, number = f"{record.__name__}_{number}", number + 1
    definitions[name] = branch
    return name


def _find_tag(branches: list[_Branch]) -> tuple[str, dict[str, _Branch]]:
    """The first field whose constants tell all branches apart, and the branch of each constant."""
    for name in branches[0].fields:
        found = [(tag, branch) for branch in branches for tag in branch.constants(name)]
        by_tag = dict(found)
        if len(by_tag) == len(found) and all(branch.constants(name) for branch in branches):
            return name, by_tag
    return "", {}


class Quick:
    """A quick yes to whether a msgspec struct is a member of its own Struct. Never a no: all else goes the long way.

    Hot: each step of an environment with typed records asks this at both ends. The long way reads the schema; here the
    class's own library does, and only values of the very types that plain data has pass.
    """

    def __init__(self, decode: Callable[[bytes], Any]) -> None:
        self._decode = decode

    @classmethod
    def of(cls, records: tuple[Any, ...], schema: Schema) -> Quick | None:
        """For these records, or None if they are not msgspec structs or ``schema`` has members of spaces in it."""
        if not records or not all(isinstance(one, type) and issubclass(one, msgspec.Struct) for one in records):
            return None
        if SPACE in json.dumps(schema):
            return None
        try:
            return cls(msgspec.msgpack.Decoder(reduce(or_, records)).decode)
        except (TypeError, ValueError):  # a field that it does not know, or a union that it can't tell apart
            return None

    def make(self, value: Any) -> Any:
        """The record that ``value`` is, or that plain data with all its fields in order is; None for anything else."""
        if not is_plain(value):
            return None
        try:
            written = msgspec.msgpack.encode(value)
            made = self._decode(written)
            same = msgspec.msgpack.encode(made) == written
            # A record in it may be of another class that writes the same.
            return made if same and (type(value) is dict or made == value) else None
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
            return None
