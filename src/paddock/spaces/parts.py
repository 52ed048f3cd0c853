"""The spaces that a composite space is made of. One level only: a part may be composite itself."""

from __future__ import annotations

from typing import Any

from paddock.spaces.dict import Dict
from paddock.spaces.graph import Graph
from paddock.spaces.oneof import OneOf
from paddock.spaces.sequence import Sequence
from paddock.spaces.space import Space
from paddock.spaces.tuple import Tuple


def parts(space: Space[Any]) -> list[Space[Any]]:
    """The spaces directly inside a space, in its order; empty for a simple one."""
    match space:
        case Dict():
            return list(space.spaces.values())
        case Tuple() | OneOf():
            return list(space.spaces)
        case Sequence():
            return [space.feature_space]
        case Graph():
            return [space.node_space] if space.edge_space is None else [space.node_space, space.edge_space]
    return []
