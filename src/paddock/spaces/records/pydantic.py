"""pydantic models as records, and spaces as annotations in them. Imported only when a class is a model."""

from __future__ import annotations

from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import core_schema

from paddock.errors import InvalidSpace, InvalidValue
from paddock.spaces.json_schema import Schema
from paddock.spaces.json_value import encode
from paddock.spaces.records.fields import leaf_of_pydantic, open_up
from paddock.spaces.records.kinds import Kind, refusal
from paddock.spaces.records.nodes import KEPT, Member, Mismatch, Walk, join
from paddock.spaces.records.schema import space_schema
from paddock.spaces.space import Space


class PydanticKind(Kind):
    """Models, and dataclasses of pydantic's own."""

    def __init__(self, record: Any) -> None:
        self._adapter: Any = TypeAdapter(record)
        try:
            self.schema: Schema = self._adapter.json_schema()
        except (PydanticUserError, TypeError) as error:
            raise InvalidSpace(f"{record.__name__} has no JSON Schema: {error}") from error

    def make(self, data: Any) -> Any:
        # Not strict: JSON has no tuples and dates, and the schema's nodes were strict about the rest.
        try:
            return self._adapter.validate_python(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            raise refusal(join(first["loc"]), first["msg"]) from error

    def open(self, data: Any) -> Any:
        return open_up(data, leaf=leaf_of_pydantic)

    def take_apart(self, record: Any) -> tuple[Any, list[Any] | None]:
        kept: list[Any] = []
        try:
            data = self._adapter.dump_python(
                record, mode="json", by_alias=True, round_trip=True, warnings="error", context={KEPT: kept}
            )
        except Exception:
            # A field holds what it should not, and anything may come of that: opened by hand, its place is found.
            return open_up(record), None
        return data, kept


def core_schema_of(space: Space[Any], source: Any, handler: Any) -> Any:
    """How pydantic validates and writes a field that is annotated with ``space``."""
    node = Member(space)

    def read(data: Any) -> Any:
        try:
            return node.read(data, Walk(plain=False))
        except Mismatch as mismatch:
            raise ValueError(f"{mismatch.path}: {mismatch.reason}".removeprefix(": ")) from None

    def write(member: Any, info: Any) -> Any:
        context = info.context
        if isinstance(context, dict) and KEPT in context:
            context[KEPT].append(member)
            return {KEPT: len(context[KEPT]) - 1}
        if not space.contains(member):
            raise InvalidValue(f"{type(member).__name__} is not a member of {space!r:.100}")
        return encode(space, member)

    return core_schema.no_info_plain_validator_function(
        read,
        serialization=core_schema.plain_serializer_function_ser_schema(write, info_arg=True, when_used="json"),
    )


def json_schema_of(space: Space[Any], schema: Any, handler: Any) -> Schema:
    """What stands in the JSON Schema of the model."""
    return space_schema(space)
