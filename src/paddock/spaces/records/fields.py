"""The fields of a record under the names of its plain form. Only the class is asked: an instance may lie."""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from paddock.errors import InvalidValue

# As deep as values nest on the wire.
DEPTH_LIMIT = 64

_ABSENT = object()
_PLAIN = frozenset({type(None), bool, int, float, str, np.ndarray})
_ATOMS = frozenset((type(None), bool, int, str))
_PLAIN_DEPTH = 24
Leaf = Callable[[Any], Any]


def is_pydantic(cls: Any) -> bool:
    """Whether ``cls`` is a model or a dataclass of pydantic 2."""
    return isinstance(cls, type) and hasattr(cls, "__pydantic_validator__")


def is_record(cls: Any) -> bool:
    """Whether ``cls`` is a dataclass, a pydantic model or a msgspec struct."""
    return isinstance(cls, type) and (
        "__dataclass_fields__" in dir(cls) or hasattr(cls, "__struct_fields__") or is_pydantic(cls)
    )


def fields_of(value: Any) -> dict[str, Any] | None:
    """The fields of a record, one level deep, under the names that its plain form has; None for anything else.

    A field that was never set is left out.
    """
    cls: Any = type(value)
    if hasattr(cls, "__struct_encode_fields__"):
        config = cls.__struct_config__
        found = {} if config.tag is None else {config.tag_field: config.tag}
        for name, outside in zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True):
            item = getattr(value, name, msgspec.UNSET)
            if item is not msgspec.UNSET:
                found[outside] = item
        return found
    if is_pydantic(cls):
        fields = getattr(cls, "__pydantic_fields__", None)  # since pydantic 2.10, and always of its dataclasses
        found = {}
        for name, field in (cls.model_fields if fields is None else fields).items():
            outside = field.validation_alias
            found[outside if isinstance(outside, str) else name] = getattr(value, name, _ABSENT)
        found = {name: item for name, item in found.items() if item is not _ABSENT}
        return {**found, **(getattr(value, "__pydantic_extra__", None) or {})}
    if hasattr(cls, "__dataclass_fields__"):
        from dataclasses import fields as dataclass_fields

        found = {field.name: getattr(value, field.name, _ABSENT) for field in dataclass_fields(value)}
        return {name: item for name, item in found.items() if item is not _ABSENT}
    return None


def leaf_of_msgspec(value: Any) -> Any:
    """A date, bytes or the like as msgspec writes it in JSON; itself where msgspec has no such form."""
    try:
        return msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError):
        return value


def leaf_of_pydantic(value: Any) -> Any:
    """The same as pydantic writes it, which is not the same for bytes."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, ValueError):
        return value


def open_up(value: Any, depth: int = 0, leaf: Leaf = leaf_of_msgspec) -> Any:
    """``value`` with dicts for records, values for enums and text for dates and the like; arrays stay what they are.

    A value without a plain form stays too: reading the result by a schema refuses it.
    """
    if type(value) in _PLAIN or isinstance(value, np.generic):
        return value
    if depth > DEPTH_LIMIT:
        raise InvalidValue(f"the value is nested deeper than {DEPTH_LIMIT} levels, or holds itself")
    if isinstance(value, enum.Enum):
        return open_up(value.value, depth + 1, leaf)
    fields = fields_of(value)
    if fields is not None:
        leaf = leaf_of_pydantic if is_pydantic(type(value)) else leaf
    elif isinstance(value, dict):
        fields = {key if type(key) is str else _key(key): item for key, item in value.items()}
    if fields is not None:
        return {key: open_up(item, depth + 1, leaf) for key, item in fields.items()}
    if isinstance(value, tuple):
        # Tuples stay tuples (a Tuple space asks for one), and those with names keep them (a graph is one).
        items = [open_up(item, depth + 1, leaf) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [open_up(item, depth + 1, leaf) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted([open_up(item, depth + 1, leaf) for item in value], key=order_key)
    return value if isinstance(value, (int, float, str)) else leaf(value)


def order_key(item: Any) -> str:
    """The key that sorts the items of a set, whose own order changes from process to process."""
    return json.dumps(item, sort_keys=True, default=id)


def _key(key: Any) -> Any:
    """A key as in JSON: a number as its digits. Itself where there is no such form."""
    return next(iter(leaf_of_msgspec({key: None})))


def difference(made: Any, given: Any, path: str = "") -> str | None:
    """The path of the first place where ``given`` is not ``made``, types included; None if they are the same.

    An int may stand for a float, nothing else.
    """
    if made is given:
        return None
    kind = type(made)
    fields = fields_of(made)
    if fields is not None:
        return _in_items(fields, fields_of(given) or {}, path) if type(given) is kind else path
    if isinstance(made, dict):
        return _in_items(made, given, path) if isinstance(given, dict) else path
    if isinstance(made, (list, tuple)):
        if not isinstance(given, kind) or len(given) != len(made):
            return path
        for i, (one, other) in enumerate(zip(made, given, strict=True)):
            found = difference(one, other, f"{path}[{i}]")
            if found is not None:
                return found
        return None
    if isinstance(made, np.ndarray):
        same = (
            isinstance(given, np.ndarray)
            and (made.dtype, made.shape) == (given.dtype, given.shape)
            and made.tobytes() == given.tobytes()
        )
    elif isinstance(made, float) and type(given) is int:
        same = bool(made == given)
    else:
        same = isinstance(given, kind) and isinstance(given, bool) is isinstance(made, bool) and bool(made == given)
    return None if same else path


def _in_items(made: dict[Any, Any], given: dict[Any, Any], path: str) -> str | None:
    if made.keys() != given.keys():
        return path
    for key, item in made.items():
        found = difference(item, given[key], f"{path}.{key}" if path else str(key))
        if found is not None:
            return found
    return None


def is_plain(value: Any, left: int = _PLAIN_DEPTH) -> bool:
    """Whether a value is nothing but structs, lists, dicts with text as keys, finite numbers, text and None."""
    kind = type(value)
    if kind in _ATOMS:
        return True
    if kind is float:
        return math.isfinite(value)
    if not left:
        return False
    left -= 1
    if kind is list:
        return all(type(item) in _ATOMS or is_plain(item, left) for item in value)
    if kind is dict:
        return all(type(key) is str for key in value) and all(
            type(item) in _ATOMS or is_plain(item, left) for item in value.values()
        )
    fields = getattr(kind, "__struct_fields__", None)
    if fields is None or not isinstance(value, msgspec.Struct):
        return False
    for name in fields:
        item = getattr(value, name)
        if type(item) not in _ATOMS and not is_plain(item, left):
            return False
    return True
