"""The fields of a record, by their names outside. Only the class is asked what it is: an instance may lie."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from paddock.errors import InvalidValue

# As deep as values nest on the wire.
DEPTH_LIMIT = 64

_ABSENT = object()
_PLAIN = frozenset({type(None), bool, int, float, str, np.ndarray})


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
    cls = type(value)
    if hasattr(cls, "__struct_encode_fields__"):
        return _struct_fields(value, cls)
    if is_pydantic(cls):
        return _pydantic_fields(value, cls)
    if hasattr(cls, "__dataclass_fields__"):
        from dataclasses import fields

        found = {field.name: getattr(value, field.name, _ABSENT) for field in fields(value)}
        return {name: item for name, item in found.items() if item is not _ABSENT}
    return None


def _struct_fields(value: Any, cls: Any) -> dict[str, Any]:
    from msgspec import UNSET

    config = cls.__struct_config__
    found = {} if config.tag is None else {config.tag_field: config.tag}
    for name, outside in zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True):
        item = getattr(value, name, UNSET)
        if item is not UNSET:
            found[outside] = item
    return found


def _pydantic_fields(value: Any, cls: Any) -> dict[str, Any]:
    found = {}
    fields = getattr(cls, "__pydantic_fields__", None)  # since pydantic 2.10, and of its dataclasses since ever
    for name, field in (cls.model_fields if fields is None else fields).items():
        outside = field.validation_alias
        found[outside if isinstance(outside, str) else name] = getattr(value, name, _ABSENT)
    found = {name: item for name, item in found.items() if item is not _ABSENT}
    return {**found, **(getattr(value, "__pydantic_extra__", None) or {})}


Leaf = Callable[[Any], Any]


def leaf_of_msgspec(value: Any) -> Any:
    """A date, bytes or the like as msgspec writes it in JSON; itself where msgspec has no such form."""
    from msgspec import to_builtins

    try:
        return to_builtins(value, str_keys=True)
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

    What has no plain form stays too: whoever reads the result by a schema will refuse it.
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
    """What the items of a set are put in order by: their own order changes from process to process."""
    return json.dumps(item, sort_keys=True, default=id)


def _key(key: Any) -> Any:
    """A key as JSON has it: a number as its digits. Itself where there is no such form."""
    return next(iter(leaf_of_msgspec({key: None})))
