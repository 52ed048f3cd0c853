"""Typed records: a member is an instance of a dataclass, a pydantic model or a msgspec struct whose fields are valid.

A Struct that was read from JSON has no class: its members are dicts with the same fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, reduce
from importlib import import_module
from operator import or_
from typing import TYPE_CHECKING, Any, Literal, overload

import msgspec
import numpy as np

from paddock.errors import InvalidSpace, InvalidValue
from paddock.spaces.records.fields import DEPTH_LIMIT, difference, is_plain, open_up
from paddock.spaces.space import Space, T_co

if TYPE_CHECKING:
    from paddock.spaces.json_schema import Schema


# The class's own code may refuse what its schema allows.
SAMPLE_TRIES = 100
# paddock's own records, which both ends of a wire know: they arrive as records, all others as dicts of their fields.
# A name from elsewhere chooses among these classes and nothing else. It ends in a number: raise it when a field
# changes, and an end with other fields takes the record for one that it does not know.
# By text: they live in layers above this one, and are loaded when the first one arrives.
_HOMES = {
    "agentic.CallTool.1": ("paddock.agentic.messages", "CallTool"),
    "agentic.ListTools.1": ("paddock.agentic.messages", "ListTools"),
    "agentic.Say.1": ("paddock.agentic.messages", "Say"),
    "agentic.Observation.1": ("paddock.agentic.messages", "Observation"),
}
_NAMES = {home: name for name, home in _HOMES.items()}
# The names that their Structs have in JSON.
_UNIONS = {
    "Observation": ("agentic.Observation.1",),
    "CallTool | ListTools | Say": ("agentic.CallTool.1", "agentic.ListTools.1", "agentic.Say.1"),
}


class Struct(Space[T_co]):
    """Instances of ``record``. Plain data of the same fields becomes one with `validate`, and back with `to_plain`.

    ``Struct(A | B)`` has instances of either; plain data must say which it is: by a tag, or by the fields it has.

    Arrays and other members of spaces are fields like ``Annotated[np.ndarray, Box(-1, 1, (2,))]``. Floats are finite
    and text is Unicode, because JSON has no others; fields that are not declared are refused.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Move:
    ...     to: int
    ...     piece: str = "pawn"
    >>> space = Struct(Move)
    >>> Move(3) in space, Move("x") in space
    (True, False)
    >>> space.validate({"to": 5})
    Move(to=5, piece='pawn')
    >>> space.validate({"to": "x"})
    Traceback (most recent call last):
    paddock.errors.InvalidValue: to: expected int, got 'x'
    """

    records: tuple[type[T_co], ...]
    name: str

    @overload
    def __init__(self, record: type[T_co], seed: int | np.random.Generator | None = None) -> None: ...
    @overload  # a union has no type that a checker could say here
    def __init__(self: Struct[Any], record: Any, seed: int | np.random.Generator | None = None) -> None: ...
    def __init__(self, record: Any, seed: int | np.random.Generator | None = None) -> None:
        from paddock.spaces.records.kinds import split_union

        self._set_up(split_union(record))
        super().__init__(None, None, seed)

    def _set_up(self, records: tuple[Any, ...], name: str = "", schema: Schema | None = None) -> None:
        """Prepare for these classes, or for a schema without a class."""
        from paddock.spaces.records.kinds import Kind, Record, json_decoder, kind_of, union_node, union_schema
        from paddock.spaces.records.nodes import compile_schema
        from paddock.spaces.records.schema import tidy

        kinds = [Kind(schema)] if schema is not None else [kind_of(record) for record in records]
        self.records, self.name = records, " | ".join(record.__name__ for record in records) or name
        self._described = kinds[0].schema if len(kinds) == 1 else union_schema(records, kinds)
        self._schema = tidy(self._described, strict=not records)
        root: Any = compile_schema(self._schema, judged=bool(records))
        self._node = Record(kinds[0], root) if len(kinds) == 1 else union_node(root, kinds)
        self._decode = json_decoder(records, self._schema)
        self._own = bool(records) and all(map(known_name, records))

    @property
    def record(self) -> type[T_co] | None:
        """The class, where there is just one."""
        return self.records[0] if len(self.records) == 1 else None

    @staticmethod
    def from_schema(schema: Mapping[str, Any], name: str = "", *, seed: int | None = None) -> Struct[dict[str, Any]]:
        """A Struct without a class: its members are dicts that the JSON Schema allows.

        Takes what `json_schema` gives, also from strangers. An unknown keyword is an InvalidSpace. A pattern that could
        take long to match is left to the other side.

        >>> space = Struct.from_schema({"type": "object", "properties": {"to": {"type": "integer"}}})
        >>> {"to": 3} in space, {"to": 3, "more": 1} in space
        (True, False)
        """
        space: Struct[dict[str, Any]] = Struct.__new__(Struct)
        given: Any = schema if isinstance(schema, dict) or not isinstance(schema, Mapping) else dict(schema)
        space._set_up((), name, given)
        Space.__init__(space, None, None, seed)
        return space

    @property
    def is_np_flattenable(self) -> Literal[False]:
        return False

    def validate(self, value: Any) -> T_co:
        """The record that ``value`` is, or that its fields describe; InvalidValue names the field that is wrong.

        An instance of the class comes back as the same object.
        """
        is_instance = type(value) in self.records
        made = self._read_quickly(value)
        if made is not None:
            return value if is_instance else made  # type: ignore[no-any-return]
        made = self._read(value, plain=False)
        if not is_instance:
            return made  # type: ignore[no-any-return]
        place = difference(made, value)
        if place is not None:
            raise InvalidValue(
                f"{place or self.name}: not what {self.name} makes of its own plain form; "
                "check the types of the values in it",
                path=place,
            )
        return value  # type: ignore[no-any-return]

    def to_plain(self, value: Any) -> dict[str, Any]:
        """A member as JSON data: a dict of its fields. `validate` gives the member back."""
        made = self._read_quickly(value)
        if made is None:
            return self._read(self.validate(value), plain=True)  # type: ignore[no-any-return]
        return msgspec.to_builtins(value if type(value) in self.records else made)  # type: ignore[no-any-return]

    def written(self, value: Any) -> bytes | None:
        """The JSON text of a record, the same data as ``to_plain``; None if that is not known without a longer look."""
        if type(value) not in self.records:
            return None
        if self._own and value.is_simple():  # no need to read it again to see that it says the same
            try:
                return msgspec.json.encode(value)
            except Exception:  # text or an integer that msgspec can't write
                return None
        found = self._read_written(value)
        return None if found is None else found[1]

    def _read(self, value: Any, *, plain: bool) -> Any:
        from paddock.spaces.records.nodes import Mismatch, Walk

        if len(self.records) > 1 and type(value) in self.records:
            value = open_up(value)  # fields that say which of them it is
        try:
            return self._node.read(value, Walk(plain=plain))
        except Mismatch as mismatch:
            path = mismatch.path
            raise InvalidValue(f"{path or self.name or 'value'}: {mismatch.reason}", path=path) from None

    def _read_quickly(self, value: Any) -> Any:
        """The record that ``value`` is or describes, if msgspec can tell by itself: it reads what it writes.

        None is not a no: it goes the long way. Hot: each step with typed records asks this at both ends.
        """
        found = self._read_written(value)
        return None if found is None else found[0]

    def _read_written(self, value: Any) -> tuple[Any, bytes] | None:
        """The same, with its JSON text."""
        if self._decode is None:
            return None
        try:
            written = msgspec.json.encode(value)
            made = self._decode(written)
            if type(value) in self.records:
                same = made == value
            else:  # fields with defaults may be missing
                same = value.items() <= msgspec.to_builtins(made).items()
        except Exception:  # the class may raise anything
            return None
        # Text with few brackets can't nest deeper than the long way allows.
        shallow = written.count(b"{") + written.count(b"[") <= DEPTH_LIMIT or is_plain(value)
        return (made, written) if same is True and shallow else None

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is an instance of the class itself, not of a subclass, with valid fields. Never raises."""
        try:
            if self.records:
                return type(x) in self.records and self.validate(x) is x
            return isinstance(x, dict) and difference(self.validate(x), x) is None
        except Exception:
            return False

    def sample(self, mask: None = None, probability: None = None) -> T_co:
        """A random member, as far as the types say what one is; a class that refuses all of them is an InvalidSpace.

        Takes no mask.
        """
        if mask is not None or probability is not None:
            raise InvalidSpace(f"Struct has no mask or probability for its samples, got {mask or probability!r:.100}")
        from paddock.spaces.records.nodes import Draw

        reason: object = None
        for _ in range(SAMPLE_TRIES):
            try:
                return self.validate(self._node.sample(Draw(self.np_random), 0))
            except InvalidValue as error:
                reason = error
        raise InvalidSpace(
            f"{self!r} refused {SAMPLE_TRIES} random values, the last because of {reason}; "
            "draw members of it by code of your own"
        )

    def to_jsonable(self, sample_n: Iterable[T_co]) -> list[Any]:
        return [self.to_plain(sample) for sample in sample_n]

    def from_jsonable(self, sample_n: list[Any]) -> list[Any]:
        return [self.validate(data) for data in sample_n]

    @property
    def described(self) -> dict[str, Any]:
        """The JSON Schema as the class's own library writes it."""
        return self._described

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema in the JSON form of the space: the keywords we know, closed to unknown fields."""
        return self._schema

    def __repr__(self) -> str:
        return f"Struct({self.name})" if self.records else f"Struct.from_schema({self.name!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct):
            return False
        return (self.records, self.name, self._schema) == (other.records, other.name, other._schema)

    def __hash__(self) -> int:
        return hash(("Struct", self.records, self.name))

    def __deepcopy__(self, memo: dict[int, Any]) -> Struct[T_co]:
        from copy import deepcopy

        # The nodes are shared: nothing in them changes but streams, which every sample seeds again.
        copied: Struct[T_co] = Struct.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        copied._np_random = deepcopy(self._np_random, memo)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        return {key: self.__dict__[key] for key in ("records", "name", "_schema", "_shape", "dtype", "_np_random")}

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self._set_up(self.records, self.name, None if self.records else self._schema)


def known_name(cls: type) -> str | None:
    """The name of a class on the wire, or None if the other end need not know it."""
    return _NAMES.get((cls.__module__, cls.__qualname__))


@cache
def _class(name: str) -> Any:
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def known_class(name: str) -> Any:
    """The class of that name; None for any other."""
    return _class(name) if name in _HOMES else None


def known_record(name: str) -> Any:
    """The class or union of a Struct of that name; None for any other."""
    classes = map(_class, _UNIONS.get(name, ()))
    return reduce(or_, classes) if name in _UNIONS else None
