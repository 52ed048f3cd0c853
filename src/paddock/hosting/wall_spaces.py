"""How large values of a stranger's space may become here. A short text can describe a space too large to make room for.

``from_json`` bounds what rebuilding takes; this bounds what a sample, a buffer or a batch of it would take.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paddock.hosting.wall_members import violation
from paddock.sandbox.plain_text import brief, drives_terminal
from paddock.spaces import Box, Dict, Graph, MultiBinary, MultiDiscrete, Sequence, Space, Text
from paddock.spaces.json_form import from_json
from paddock.spaces.parts import parts

_JSON_BYTES = 1 << 22
_OBJECT_BYTES = 64  # about what Python takes for a small value
# What a sample of one holds, and some more: about 3 members, and 10 nodes with up to 90 edges.
_MEMBERS, _NODES, _EDGES = 8, 10, 90


def read_space(text: Any, path: str, *, limit: int) -> Space[Any]:
    """The space that a worker described, or EnvironmentViolation."""
    if type(text) is not str:
        raise violation(path, "it has no form on the wire: it is of a class of the environment's own")
    if len(text) > _JSON_BYTES:
        raise violation(path, f"its description has more than {_JSON_BYTES} bytes")
    try:
        space = from_json(text)
    except Exception as error:  # InvalidSpace; a Warning, where the user made them errors
        raise violation(path, f"it is malformed: {brief(str(error), 300)}") from None
    check_space(space, path, limit=limit)
    return space


def check_space(space: Space[Any], path: str, *, limit: int) -> None:
    """Refuse a space whose values would take too much, or may drive a terminal."""
    check_size(space, path, limit=limit)
    _check_characters(space, path)


def check_size(space: Space[Any], path: str, *, limit: int, count: int = 1) -> None:
    """Refuse a space of which ``count`` values take more than ``limit`` bytes."""
    size = count * value_bytes(space)
    if size > limit:
        what = "a value" if count == 1 else f"values of {count} lanes"
        raise violation(path, f"{what} may take {size} bytes, more than the {limit} that this side makes room for")


def value_bytes(space: Space[Any]) -> int:
    """About what one sample takes; where its size is not fixed, what an unlucky one does."""
    if isinstance(space, (Box, MultiBinary, MultiDiscrete)):
        return math.prod(space.shape) * np.dtype(space.dtype).itemsize
    if isinstance(space, Text):
        return 4 * space.max_length
    if isinstance(space, Sequence):
        return _OBJECT_BYTES + _MEMBERS * value_bytes(space.feature_space)
    if isinstance(space, Graph):
        edges = 0 if space.edge_space is None else value_bytes(space.edge_space)
        return _OBJECT_BYTES + _NODES * value_bytes(space.node_space) + _EDGES * edges
    return _OBJECT_BYTES + sum(value_bytes(part) for part in parts(space))


def _check_characters(space: Space[Any], path: str) -> None:
    """Text observations pass as they are, so no space may declare characters that drive a terminal."""
    if isinstance(space, Text):
        found = drives_terminal("".join(space.character_list))
    elif isinstance(space, Dict):
        found = next(filter(None, map(drives_terminal, space.spaces)), None)
    else:
        found = None
    if found is not None:
        raise violation(path, f"it declares the character U+{ord(found):04X}, which drives a terminal")
    for part in parts(space):
        _check_characters(part, path)
