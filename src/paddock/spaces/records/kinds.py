"""What stands behind a Struct: classes of records, and how data becomes one of them."""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Callable
from functools import reduce
from itertools import combinations
from operator import or_
from typing import Any

import msgspec
import numpy as np

from paddock.errors import InvalidSpace
from paddock.spaces.json_schema import DEFINITIONS, Schema, Whole, hoist
from paddock.spaces.records.fields import is_pydantic, is_record, leaf_of_msgspec, open_up
from paddock.spaces.records.nodes import SPACE, Draw, Mismatch, Node, Union, Walk
from paddock.spaces.records.schema import record_schema

# How much of a class's own error goes into a message.
REASON_LIMIT = 200

_PLACE = re.compile(r"(?P<reason>.*?)(?: - at `(?:key in )?`?\$?(?P<path>[^`]*)`)?", re.DOTALL)


class Kind:
    """A kind of record; this one is of a schema from elsewhere, without a class: its records are dicts.

    ``schema`` is what the class's own library says, without our changes; ``leaf`` writes dates and the like as it does.
    """

    leaf = staticmethod(leaf_of_msgspec)

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def make(self, data: Any) -> Any:
        """Make a record of data that the schema's nodes have read, or raise Mismatch."""
        return data


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
            raise refuse_record(match["reason"], match["path"] or "") from error


def refuse_record(reason: str, path: str) -> Mismatch:
    """The error of a class that refuses data, cut to a length that can't carry much of the data."""
    reason = " ".join(reason.split())
    return Mismatch(reason if len(reason) <= REASON_LIMIT else reason[:REASON_LIMIT] + "…", path)


def _decode(cls: Any, data: Any) -> Any:
    """Decode a class that msgspec does not know: members of spaces already are what they should be."""
    origin = typing.get_origin(cls) or cls
    return origin(data) if issubclass(origin, np.generic) and not isinstance(data, origin) else data


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


class Record:
    """A node that makes a record of what another node has read."""

    def __init__(self, kind: Kind, node: Node) -> None:
        self._kind, self._node = kind, node

    def read(self, data: Any, walk: Walk) -> Any:
        read = self._node.read(open_up(data, leaf=self._kind.leaf), walk)
        return read if walk.plain else self._kind.make(read)

    def sample(self, draw: Draw, depth: int) -> Any:
        return self._node.sample(draw, depth)


def split_union(record: Any) -> tuple[Any, ...]:
    """The classes of a union, or the one class that ``record`` is."""
    while typing.get_origin(record) is typing.Annotated or hasattr(record, "__value__"):  # `type A = …` has a value
        record = record.__origin__ if typing.get_origin(record) is typing.Annotated else record.__value__
    if typing.get_origin(record) not in (typing.Union, types.UnionType):
        return (record,)
    return tuple(member for part in typing.get_args(record) for member in split_union(part))


def union_schema(records: tuple[Any, ...], kinds: list[Kind]) -> Schema:
    """One schema for several classes; InvalidSpace unless plain data says by itself which of them it is.

    It says so by a field that has other constants in each class (the tag of msgspec structs, a ``Literal`` in others),
    which becomes the discriminator, or by the names of its fields: of each two classes one needs a field that the other
    does not have.
    """
    whole = hoist({"anyOf": [Whole(kind.schema) for kind in kinds]})
    definitions = whole.setdefault("$defs", {})
    names = [_define(*branch, definitions) for branch in zip(records, whole["anyOf"], strict=True)]
    schema: Schema = {"anyOf": [{"$ref": DEFINITIONS + name} for name in names], "$defs": definitions}
    branches = [definitions[name] for name in names]
    for tag in branches[0].get("properties", {}):
        constants = [_constants(branch, tag) for branch in branches]
        if all(constants) and len(set().union(*constants)) == sum(map(len, constants)):
            break
    else:
        for (one, first), (other, second) in combinations(zip(branches, records, strict=True), 2):
            if not (_lacks_fields(one, other) or _lacks_fields(other, one)):
                raise InvalidSpace(
                    f"plain data can't say whether it is {first.__name__} or {second.__name__}: give both a field like "
                    f'`kind: Literal["{first.__name__.lower()}"]`, or one of them a field without a default that the '
                    "other does not have"
                )
        return schema
    mapping = {value: DEFINITIONS + name for name, values in zip(names, constants, strict=True) for value in values}
    schema["discriminator"] = {"propertyName": tag, "mapping": mapping}
    for name, branch in zip(names, branches, strict=True):  # a default does not help to tell them apart
        required = branch.get("required", [])
        definitions[name] = branch if tag in required else {**branch, "required": [tag, *required]}
    return schema


def _define(record: type, branch: Schema, definitions: Schema) -> str:
    """The name under which a branch is defined; pydantic writes a class that does not hold itself out in place."""
    if "$ref" in branch:
        return str(branch["$ref"]).removeprefix(DEFINITIONS)
    name, number = record.__name__, 2
    while name in definitions:
        name, number = f"{record.__name__}_{number}", number + 1
    definitions[name] = branch
    return name


def _constants(branch: Schema, name: str) -> list[str]:
    """The values of a field that has no others; empty where it may be something else than text."""
    schema = branch.get("properties", {}).get(name, {})
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return values if all(isinstance(value, str) for value in values) else []


def _lacks_fields(branch: Schema, other: Schema) -> bool:
    """Whether no data can be of both, because ``branch`` does not allow a field that ``other`` requires."""
    closed = not branch.get("additionalProperties", False)
    return closed and not set(other.get("required", ())) <= branch.get("properties", {}).keys()


def union_node(root: Union, kinds: list[Kind]) -> Union:
    """The node of a union's schema, with branches that make records."""
    nodes = {branch.name: Record(kind, branch) for kind, branch in zip(kinds, root.branches, strict=True)}
    return Union([*nodes.values()], root.tag, {tag: nodes[branch.name] for tag, branch in root.by_tag.items()})


def json_decoder(records: tuple[Any, ...], schema: Schema) -> Callable[[bytes], Any] | None:
    """Decode JSON text of these records by msgspec, which knows all that ``schema`` says; None if it does not."""
    # Members of spaces are unknown to it, and it writes a set in another order each time.
    text = json.dumps(schema)
    if not records or any(map(is_pydantic, records)) or SPACE in text or "uniqueItems" in text:
        return None
    if len(records) == 1 and getattr(getattr(records[0], "__struct_config__", None), "tag", None) is not None:
        return None  # it does not ask for the tag of the only class
    try:
        return msgspec.json.Decoder(reduce(or_, records)).decode
    except (TypeError, ValueError):  # a union that it can't tell apart
        return None
