"""The member of a space that is nearest to zero: what padding and delays show where nothing was seen yet.

Users register the zero of their own space classes, as with Gymnasium's function of this name; it counts in parts too.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from paddock.errors import CustomSpaceError, InvalidSpace
from paddock.spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, OneOf, Sequence, Space, Text, Tuple
from paddock.spaces.batch import batch_space
from paddock.spaces.graph import GraphInstance

Array = np.ndarray[Any, Any]


@singledispatch
def create_zero_array(space: Space[Any]) -> Any:
    """Zero, or the bound next to it where zero lies outside; in a composite space the zeros of its parts.

    For a space class of your own: ``create_zero_array.register(Class)``.

    >>> create_zero_array(Tuple([Box(2, 3, (1,)), Text(5, min_length=2, charset="xyz")]))
    (array([2.], dtype=float32), 'xx')
    """
    if not isinstance(space, Space):
        raise InvalidSpace(
            f"The space provided to `create_zero_array` is not a gymnasium Space instance, type: {type(space)}, {space}"
        )
    raise CustomSpaceError(
        f"Space of type `{type(space)}` doesn't have an registered `create_zero_array` function. "
        f"Register `{type(space)}` for `create_zero_array` to support it."
    )


@create_zero_array.register(Box)
def _box(space: Box) -> Array:
    return np.clip(np.zeros(space.shape, space.dtype), space.low, space.high)


@create_zero_array.register(Discrete)
def _discrete(space: Discrete) -> Any:
    return space.start


@create_zero_array.register(MultiDiscrete)
def _multi_discrete(space: MultiDiscrete) -> Array:
    return np.array(space.start, space.dtype)


@create_zero_array.register(MultiBinary)
def _multi_binary(space: MultiBinary) -> Array:
    return np.zeros(space.shape, space.dtype)


@create_zero_array.register(Dict)
def _dict(space: Dict) -> dict[str, Any]:
    return {key: create_zero_array(part) for key, part in space.spaces.items()}


@create_zero_array.register(Tuple)
def _tuple(space: Tuple) -> tuple[Any, ...]:
    return tuple(create_zero_array(part) for part in space.spaces)


@create_zero_array.register(Text)
def _text(space: Text) -> str:
    return space.characters[:1] * space.min_length


@create_zero_array.register(Sequence)
def _sequence(space: Sequence) -> Any:
    return create_zero_array(space.stacked_feature_space) if space.stack else ()


@create_zero_array.register(OneOf)
def _one_of(space: OneOf) -> tuple[int, Any]:
    return 0, create_zero_array(space.spaces[0])


@create_zero_array.register(Graph)
def _graph(space: Graph) -> GraphInstance:
    nodes = create_zero_array(batch_space(space.node_space, 1))
    if space.edge_space is None:
        return GraphInstance(nodes, None, None)
    return GraphInstance(nodes, create_zero_array(batch_space(space.edge_space, 1)), np.zeros((1, 2), np.int64))
