"""How a record of some kind is described, made and taken apart. The values of a schema without a class are dicts."""

from __future__ import annotations

import re
import typing
from typing import Any, Protocol

import numpy as np

from paddock.errors import InvalidSpace, InvalidValue
from paddock.spaces.records.annotations import record_schema
from paddock.spaces.records.fields import is_pydantic, is_record, open_up
from paddock.spaces.records.hoist import Schema

# What an error of a class's own code may add to a message.
REASON_LIMIT = 200

_PLACE = re.compile(r"(?P<reason>.*?)(?: - at `(?:key in )?`?\$?\.?(?P<path>[^`]*)`)?", re.DOTALL)


class Kind(Protocol):
    """A kind of record. ``schema`` is what its own library says, without our changes."""

    schema: Schema

    def make(self, data: Any) -> Any:
        """A record of data that the schema's nodes have read, or InvalidValue."""
        ...

    def open(self, data: Any) -> Any:
        """Data that may have records, dates and the like in it, for the schema's nodes."""
        ...

    def take_apart(self, record: Any) -> tuple[Any, list[Any] | None]:
        """Data for the schema's nodes, and members that it refers to by number."""
        ...


def kind_of(record: Any) -> Kind:
    """How to deal with the class ``record``."""
    if not is_record(record):
        raise InvalidSpace(
            f"Struct takes a dataclass, a pydantic model or a msgspec Struct, got {record!r:.100}; "
            "the class itself, not an instance"
        )
    if is_pydantic(record):
        from paddock.spaces.records.pydantic import PydanticKind

        return PydanticKind(record)
    return MsgspecKind(record)


class MsgspecKind:
    """Dataclasses and msgspec structs."""

    def __init__(self, record: Any) -> None:
        config = getattr(record, "__struct_config__", None)
        if config is not None and config.array_like:
            raise InvalidSpace(f"{record.__name__} has array_like=True, so it has no named fields in plain data")
        self._record = record
        self.schema = record_schema(record)

    def make(self, data: Any) -> Any:
        import msgspec

        try:
            return msgspec.convert(data, self._record, dec_hook=_decode, str_keys=True)
        except msgspec.ValidationError as error:
            match = _PLACE.fullmatch(str(error))
            assert match is not None  # any text matches
            raise refusal(match["path"] or "", match["reason"]) from error

    def open(self, data: Any) -> Any:
        return open_up(data)

    def take_apart(self, record: Any) -> tuple[Any, list[Any] | None]:
        return open_up(record), None


class Untyped:
    """A schema from elsewhere."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def make(self, data: Any) -> Any:
        return data

    def open(self, data: Any) -> Any:
        return open_up(data)

    def take_apart(self, record: Any) -> tuple[Any, list[Any] | None]:
        return open_up(record), None


def refusal(path: str, reason: str) -> InvalidValue:
    """What a class has against the data, cut to a length that can't carry much of it."""
    reason = " ".join(reason.split())
    reason = reason if len(reason) <= REASON_LIMIT else reason[:REASON_LIMIT] + "…"
    return InvalidValue(f"{path}: {reason}" if path else reason, path=path)


def _decode(cls: Any, data: Any) -> Any:
    """What msgspec asks for classes that it does not know: members of spaces are what they should be already."""
    origin = typing.get_origin(cls) or cls
    return origin(data) if issubclass(origin, np.generic) and not isinstance(data, origin) else data
