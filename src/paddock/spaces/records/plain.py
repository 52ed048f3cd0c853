"""Whether a value is plain data: no arrays, no subclasses, nothing that JSON has no form for."""

from __future__ import annotations

import math
from typing import Any

import msgspec

_DEPTH = 24
_ATOMS = frozenset((type(None), bool, int, str))


def is_plain(value: Any, left: int = _DEPTH) -> bool:
    """Whether there is nothing in it but structs, lists, dicts with text as keys, and finite numbers, text and None."""
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
