"""pydantic models as records, and spaces as annotations in them. Imported only when a class is a model."""

from __future__ import annotations

from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import core_schema

from paddock.errors import InvalidSpace, InvalidValue
from paddock.spaces.json_schema import Schema
from paddock.spaces.json_value import encode
from paddock.spaces.records.fields import leaf_of_pydantic
from paddock.spaces.records.kinds import Kind, refuse_record
from paddock.spaces.records.nodes import Member, Mismatch, Walk, format_part
from paddock.spaces.records.schema import space_schema
from paddock.spaces.space import Space


class PydanticKind(Kind):
    """Models, and dataclasses of pydantic's own."""

    leaf = staticmethod(leaf_of_pydantic)

    def __init__(self, record: Any) -> None:
        self._adapter: Any = TypeAdapter(record)
        try:
            super().__init__(self._adapter.json_schema())
        except (PydanticUserError, TypeError) as error:
            raise InvalidSpace(f"{record.__name__} has no JSON Schema: {error}") from error

    def make(self, data: Any) -> Any:
        # Not strict: JSON has no tuples and dates, and the schema's nodes were strict about the rest.
        try:
            return self._adapter.validate_python(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            raise refuse_record(first["msg"], "".join(map(format_part, first["loc"]))) from error


def core_schema_of(space: Space[Any], source: Any, handler: Any) -> Any:
    """How pydantic validates and writes a field that is annotated with ``space``."""
    node = Member(space)

    def read(data: Any) -> Any:
        try:
            return node.read(data, Walk(plain=False))
        except Mismatch as mismatch:
            raise ValueError(f"{mismatch.path}: {mismatch.reason}".removeprefix(": ")) from None

    def write(member: Any) -> Any:
        if not space.contains(member):
            raise InvalidValue(f"{type(member).__name__} is not a member of {space!r:.100}")
        return encode(space, member)

    return core_schema.no_info_plain_validator_function(
        read, serialization=core_schema.plain_serializer_function_ser_schema(write, when_used="json")
    )


def json_schema_of(space: Space[Any], schema: Any, handler: Any) -> Schema:
    """What stands in the JSON Schema of the model."""
    return space_schema(space)
