"""Where a refused value stands in what was to be sent: ``info['viewer']``. Slow, for messages of errors alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from paddock.spaces.graph import GraphInstance


def place_of(target: Any, value: Any, path: str) -> str | None:
    """The path of ``target`` itself, not of an equal, within ``value``."""
    return _search(target, value, path, set())


def kind_of(value: Any) -> str:
    """The name of the value's class, with its module unless that is builtins."""
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _search(target: Any, value: Any, path: str, seen: set[int]) -> str | None:
    if value is target:
        return path
    if id(value) in seen:
        return None
    seen.add(id(value))
    for place, part in _parts(value, path):
        found = _search(target, part, place, seen)
        if found is not None:
            return found
    return None


def _parts(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"a key of {path}", key
            yield f"{path}[{_short(key)}]", item
    elif isinstance(value, GraphInstance):
        for name, item in value._asdict().items():
            yield f"{path}.{name}", item
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield f"{path}[{index}]", item
    elif type(value) is np.ndarray and value.dtype.kind == "O":
        for place in np.ndindex(value.shape):
            yield f"{path}[{', '.join(map(str, place))}]", value[place]


def _short(key: Any) -> str:
    text = repr(key) if isinstance(key, (str, int, float, bytes, tuple)) else f"a {kind_of(key)}"
    return text if len(text) <= 60 else text[:60] + "…"
