"""Whether two spaces hold values of the same layout: class, shape and dtype, whatever their bounds."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from paddock.errors import CustomSpaceError, InvalidSpace
from paddock.spaces.box import Box
from paddock.spaces.dict import Dict
from paddock.spaces.discrete import Discrete
from paddock.spaces.graph import Graph
from paddock.spaces.multi_binary import MultiBinary
from paddock.spaces.multi_discrete import MultiDiscrete
from paddock.spaces.oneof import OneOf
from paddock.spaces.sequence import Sequence
from paddock.spaces.space import Space
from paddock.spaces.struct import Struct
from paddock.spaces.text import Text
from paddock.spaces.tuple import Tuple


@singledispatch
def is_space_dtype_shape_equiv(space_1: Space[Any], space_2: Space[Any]) -> bool:
    """Whether values of both spaces fit one array: what lanes of a vector environment must agree on.

    >>> is_space_dtype_shape_equiv(Box(0, 1, (2,)), Box(-5, 5, (2,)))
    True
    """
    if isinstance(space_1, Space) and isinstance(space_2, Space):
        raise CustomSpaceError(
            f"`is_space_dtype_shape_equiv` has no rule for {type(space_1).__name__}; "
            f"add one: is_space_dtype_shape_equiv.register({type(space_1).__name__}, your_function)"
        )
    raise InvalidSpace(f"Expected two spaces, got {type(space_1)} and {type(space_2)}")


@is_space_dtype_shape_equiv.register(Box)
@is_space_dtype_shape_equiv.register(Discrete)
@is_space_dtype_shape_equiv.register(MultiDiscrete)
@is_space_dtype_shape_equiv.register(MultiBinary)
def _arrays(space_1: Space[Any], space_2: Any) -> bool:
    return type(space_1) is type(space_2) and space_1.shape == space_2.shape and space_1.dtype == space_2.dtype


@is_space_dtype_shape_equiv.register(Text)
def _texts(space_1: Text, space_2: Any) -> bool:
    return (
        isinstance(space_2, Text)
        and space_1.max_length == space_2.max_length
        and space_1.character_set == space_2.character_set
    )


@is_space_dtype_shape_equiv.register(Dict)
def _dicts(space_1: Dict, space_2: Any) -> bool:
    return (
        isinstance(space_2, Dict)
        and space_1.keys() == space_2.keys()
        and all(is_space_dtype_shape_equiv(part, space_2[key]) for key, part in space_1.spaces.items())
    )


@is_space_dtype_shape_equiv.register(Tuple)
@is_space_dtype_shape_equiv.register(OneOf)
def _tuples(space_1: Tuple | OneOf, space_2: Any) -> bool:
    kind = Tuple if isinstance(space_1, Tuple) else OneOf
    return (
        isinstance(space_2, kind)
        and len(space_1) == len(space_2)
        and all(is_space_dtype_shape_equiv(*pair) for pair in zip(space_1.spaces, space_2.spaces, strict=True))
    )


@is_space_dtype_shape_equiv.register(Graph)
def _graphs(space_1: Graph, space_2: Any) -> bool:
    if not (isinstance(space_2, Graph) and is_space_dtype_shape_equiv(space_1.node_space, space_2.node_space)):
        return False
    if space_1.edge_space is None or space_2.edge_space is None:
        return space_1.edge_space is space_2.edge_space
    return is_space_dtype_shape_equiv(space_1.edge_space, space_2.edge_space)


@is_space_dtype_shape_equiv.register(Sequence)
def _sequences(space_1: Sequence, space_2: Any) -> bool:
    return (
        isinstance(space_2, Sequence)
        and space_1.stack is space_2.stack
        and is_space_dtype_shape_equiv(space_1.feature_space, space_2.feature_space)
    )


@is_space_dtype_shape_equiv.register(Struct)
def _structs(space_1: Struct, space_2: Any) -> bool:
    return isinstance(space_2, Struct) and space_1 == space_2
