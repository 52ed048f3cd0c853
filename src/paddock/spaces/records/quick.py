"""A quick yes to whether a record is a member of its own Struct. It never says no: all else goes the long way.

Hot: each step of an environment with typed records is asked this at both ends. The long way reads the schema; here the
class's own library does, and nothing is let pass but values of the very types that plain data has.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any

import msgspec

from paddock.spaces.records.hoist import Schema
from paddock.spaces.records.plain import is_plain
from paddock.spaces.records.tidy import SPACE


class Quick:
    """For msgspec structs without members of spaces in them: ``of`` gives None for any other record."""

    def __init__(self, decode: Callable[[bytes], Any]) -> None:
        self._decode = decode

    @classmethod
    def of(cls, records: tuple[Any, ...], schema: Schema) -> Quick | None:
        """``schema``: that of the Struct, where such members can be seen."""
        if not records or not all(isinstance(one, type) and issubclass(one, msgspec.Struct) for one in records):
            return None
        if SPACE in json.dumps(schema):
            return None
        try:
            return cls(msgspec.msgpack.Decoder(reduce(or_, records)).decode)
        except (TypeError, ValueError):  # a field that it does not know, or a union that it can't tell apart
            return None

    def make(self, value: Any) -> Any:
        """The record that ``value`` is, or that plain data is in all its fields and their order; None for any other."""
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
