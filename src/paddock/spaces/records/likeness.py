"""Where what was given differs from what its own plain form makes. An int may stand for a float, nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.spaces.records.fields import fields_of


def difference(made: Any, given: Any, path: str = "") -> str | None:
    """The path of the first place where ``given`` is not ``made``, types included; None where all is the same."""
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
    return None if _same_leaf(made, given) else path


def _in_items(made: dict[Any, Any], given: dict[Any, Any], path: str) -> str | None:
    if made.keys() != given.keys():
        return path
    for key, item in made.items():
        found = difference(item, given[key], f"{path}.{key}" if path else str(key))
        if found is not None:
            return found
    return None


def _same_leaf(made: Any, given: Any) -> bool:
    if isinstance(made, np.ndarray):
        return (
            isinstance(given, np.ndarray)
            and (made.dtype, made.shape) == (given.dtype, given.shape)
            and made.tobytes() == given.tobytes()
        )
    if isinstance(made, float) and type(given) is int:
        return bool(made == given)
    return isinstance(given, type(made)) and isinstance(given, bool) is isinstance(made, bool) and bool(made == given)
