"""The member of a space that is nearest to zero: what padding and clearing put where nothing was seen yet."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.errors import CustomSpaceError
from paddock.spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, OneOf, Sequence, Space, Text, Tuple
from paddock.spaces.batch import batch_space
from paddock.spaces.graph import GraphInstance


def zero_of(space: Space[Any]) -> Any:
    """Zero, or the bound next to it where zero lies outside; in a composite space the zeros of its parts."""
    match space:
        case Box():
            return np.clip(np.zeros(space.shape, space.dtype), space.low, space.high)
        case Discrete():
            return space.start
        case MultiDiscrete():
            return np.array(space.start, space.dtype)
        case MultiBinary():
            return np.zeros(space.shape, space.dtype)
        case Dict():
            return {key: zero_of(part) for key, part in space.spaces.items()}
        case Tuple():
            return tuple(zero_of(part) for part in space.spaces)
        case Text():
            return space.characters[:1] * space.min_length
        case Sequence():
            return zero_of(space.stacked_feature_space) if space.stack else ()
        case OneOf():
            return 0, zero_of(space.spaces[0])
        case Graph():
            nodes = zero_of(batch_space(space.node_space, 1))
            if space.edge_space is None:
                return GraphInstance(nodes, None, None)
            return GraphInstance(nodes, zero_of(batch_space(space.edge_space, 1)), np.zeros((1, 2), np.int64))
    raise CustomSpaceError(f"{type(space).__name__} has no zero that paddock knows. Pass a padding value of your own.")
