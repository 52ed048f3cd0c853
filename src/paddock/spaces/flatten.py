"""Flat arrays from structured values and back. Discrete becomes one-hot, so most flat arrays do not unflatten.

Where no single array is possible (Graph, Sequence, or a composite with one) the structure stays and its parts are flat.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import singledispatch
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from paddock.errors import CustomSpaceError, InvalidSpace
from paddock.spaces.batch import concatenate, create_empty_array, is_space_dtype_shape_equiv, iterate
from paddock.spaces.box import Box
from paddock.spaces.dict import Dict
from paddock.spaces.discrete import Discrete
from paddock.spaces.graph import Graph, GraphInstance
from paddock.spaces.multi_binary import MultiBinary
from paddock.spaces.multi_discrete import MultiDiscrete
from paddock.spaces.oneof import OneOf
from paddock.spaces.sequence import Sequence
from paddock.spaces.space import Space
from paddock.spaces.text import Text
from paddock.spaces.tuple import Tuple

__all__ = ["FlatType", "T", "flatdim", "flatten", "flatten_space", "is_space_dtype_shape_equiv", "unflatten"]


T = TypeVar("T")
FlatType: TypeAlias = NDArray[Any] | dict[str, Any] | tuple[Any, ...] | GraphInstance


def _no_rule(function: str, space: Any) -> CustomSpaceError:
    return CustomSpaceError(
        f"Unknown space: `{space}`. `{function}` has no rule for {type(space).__name__}; "
        f"add one: {function}.register({type(space).__name__}, your_function)"
    )


def _not_flat(space: Any) -> InvalidSpace:
    return InvalidSpace(
        f"{space} cannot be flattened to a numpy array, probably because it contains a `Graph` or `Sequence` subspace"
    )


@singledispatch
def flatdim(space: Space[Any]) -> int:
    """How many numbers a flat member has.

    >>> flatdim(Dict(position=Discrete(2), velocity=Discrete(3)))
    5
    """
    if isinstance(space, Space) and space.is_np_flattenable is False:
        raise _not_flat(space)
    raise _no_rule("flatdim", space)


@flatdim.register(Box)
@flatdim.register(MultiBinary)
def _flatdim_array(space: Box | MultiBinary) -> int:
    return math.prod(space.shape)


@flatdim.register(Discrete)
def _flatdim_discrete(space: Discrete) -> int:
    return int(space.n)


@flatdim.register(MultiDiscrete)
def _flatdim_multi_discrete(space: MultiDiscrete) -> int:
    return int(np.sum(space.nvec))


@flatdim.register(Text)
def _flatdim_text(space: Text) -> int:
    return space.max_length


@flatdim.register(Tuple)
@flatdim.register(Dict)
def _flatdim_composite(space: Tuple | Dict) -> int:
    if not space.is_np_flattenable:
        raise _not_flat(space)
    return sum(flatdim(part) for part in parts(space))


@flatdim.register(OneOf)
def _flatdim_one_of(space: OneOf) -> int:
    return 1 + max(flatdim(part) for part in space.spaces)


@flatdim.register(Graph)
def _flatdim_graph(space: Graph) -> int:
    raise InvalidSpace("Cannot get flattened size as the Graph Space has a dynamic size.")


@singledispatch
def _flat_dtype(space: Space[Any]) -> np.dtype[Any]:
    """The dtype of ``flatten_space(space)``, without making that space."""
    if space.dtype is None:
        raise _not_flat(space)
    return space.dtype


@_flat_dtype.register(Text)
def _flat_dtype_text(space: Text) -> np.dtype[Any]:
    return np.dtype(np.int32)


@_flat_dtype.register(Tuple)
@_flat_dtype.register(Dict)
def _flat_dtype_composite(space: Tuple | Dict) -> np.dtype[Any]:
    return np.result_type(*(_flat_dtype(part) for part in parts(space)))


@_flat_dtype.register(OneOf)
def _flat_dtype_one_of(space: OneOf) -> np.dtype[Any]:
    dtype = np.result_type(*(_flat_dtype(part) for part in space.spaces))
    last_index = len(space.spaces) - 1
    # The index of the subspace stands in the same array and must fit too.
    limit = 1 if dtype.kind == "b" else np.iinfo(dtype).max if dtype.kind in "iu" else last_index
    return dtype if last_index <= limit else np.result_type(dtype, np.min_scalar_type(last_index))


@singledispatch
def flatten(space: Space[Any], x: Any) -> FlatType:
    """``x``, a member of ``space``, as a flat array; it is a member of ``flatten_space(space)``.

    >>> flatten(Discrete(4), 2)
    array([0, 0, 1, 0])
    """
    raise _no_rule("flatten", space)


@flatten.register(Box)
@flatten.register(MultiBinary)
def _flatten_array(space: Box | MultiBinary, x: Any) -> NDArray[Any]:
    return np.asarray(x, dtype=space.dtype).flatten()


@flatten.register(Discrete)
def _flatten_discrete(space: Discrete, x: Any) -> NDArray[Any]:
    one_hot = np.zeros(space.n, dtype=space.dtype)
    one_hot[x - space.start] = 1
    return one_hot


@flatten.register(MultiDiscrete)
def _flatten_multi_discrete(space: MultiDiscrete, x: Any) -> NDArray[Any]:
    ends = np.cumsum(space.nvec, dtype=np.int64)
    one_hot = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=space.dtype)
    # In int64: for small dtypes neither the difference nor the offsets need fit.
    chosen = np.asarray(x, dtype=np.int64).reshape(-1) - space.start.reshape(-1).astype(np.int64)
    one_hot[ends - space.nvec.reshape(-1) + chosen] = 1
    return one_hot


@flatten.register(Text)
def _flatten_text(space: Text, x: str) -> NDArray[np.int32]:
    indices = np.full(space.max_length, len(space.character_list), dtype=np.int32)
    indices[: len(x)] = [space.character_index(char) for char in x]
    return indices


@flatten.register(Tuple)
def _flatten_tuple(space: Tuple, x: Any) -> tuple[Any, ...] | NDArray[Any]:
    flat: list[Any] = [flatten(part, value) for part, value in zip(space.spaces, x, strict=True)]
    return np.concatenate(flat) if space.is_np_flattenable else tuple(flat)


@flatten.register(Dict)
def _flatten_dict(space: Dict, x: dict[str, Any]) -> dict[str, Any] | NDArray[Any]:
    flat: dict[str, Any] = {key: flatten(part, x[key]) for key, part in space.spaces.items()}
    return np.concatenate(list(flat.values())) if space.is_np_flattenable else flat


@flatten.register(OneOf)
def _flatten_one_of(space: OneOf, x: tuple[int, Any]) -> NDArray[Any]:
    index, value = x
    flat = np.asarray(flatten(space.spaces[index], value))
    padded = np.empty(flatdim(space), dtype=_flat_dtype(space))
    padded[0] = index
    padded[1 : 1 + flat.size] = flat
    padded[1 + flat.size :] = flat[:1]  # a value that surely lies within the bounds
    return padded


@flatten.register(Sequence)
def _flatten_sequence(space: Sequence, x: Any) -> Any:
    if not space.stack:
        return tuple(flatten(space.feature_space, item) for item in x)
    return _convert_batch(iterate(space.stacked_feature_space, x), space.feature_space, flatten)


@flatten.register(Graph)
def _flatten_graph(space: Graph, x: GraphInstance) -> GraphInstance:
    nodes = _convert_batch(iterate(space.batch_node_space, x.nodes), space.node_space, flatten)
    if x.edges is None:
        return GraphInstance(nodes, None, x.edge_links)
    if space.edge_space is None or space.batch_edge_space is None:
        raise InvalidSpace(f"The graph has edges but the edge space of {space} is None.")
    edges = _convert_batch(iterate(space.batch_edge_space, x.edges), space.edge_space, flatten)
    return GraphInstance(nodes, edges, x.edge_links)


def _convert_batch(items: Iterable[Any], space: Space[Any], function: Any) -> Any:
    """Flatten or unflatten each of ``items``, members of ``space`` before or after, and batch the results."""
    converted = [function(space, item) for item in items]
    target = flatten_space(space) if function is flatten else space
    return concatenate(target, converted, create_empty_array(target, n=len(converted)))


@singledispatch
def unflatten(space: Space[Any], x: FlatType) -> Any:
    """The member of ``space`` that `flatten` turned into ``x``."""
    raise _no_rule("unflatten", space)


@unflatten.register(Box)
@unflatten.register(MultiBinary)
def _unflatten_array(space: Box | MultiBinary, x: Any) -> NDArray[Any]:
    return np.asarray(x, dtype=space.dtype).reshape(space.shape)


@unflatten.register(Discrete)
def _unflatten_discrete(space: Discrete, x: NDArray[Any]) -> Any:
    (hot,) = np.nonzero(x)
    if len(hot) == 0:
        raise InvalidSpace(
            f"{x} is not a valid one-hot encoded vector and can not be unflattened to space {space}. "
            "Not all valid samples in a flattened space can be unflattened."
        )
    return space.start + hot[0].astype(space.dtype)


@unflatten.register(MultiDiscrete)
def _unflatten_multi_discrete(space: MultiDiscrete, x: NDArray[Any]) -> NDArray[Any]:
    (hot,) = np.nonzero(x)
    if len(hot) != space.nvec.size or len(hot) == 0:
        raise InvalidSpace(
            f"{x} is not a concatenation of one-hot encoded vectors and can not be unflattened to space {space}. "
            "Not all valid samples in a flattened space can be unflattened."
        )
    offsets = np.cumsum(space.nvec, dtype=np.int64) - space.nvec.reshape(-1)
    return np.asarray((hot - offsets).astype(space.dtype).reshape(space.shape) + space.start)


@unflatten.register(Text)
def _unflatten_text(space: Text, x: NDArray[Any]) -> str:
    characters = space.character_list
    # Beside a float Box the indices are floats.
    return "".join([characters[int(index)] for index in x if index < len(characters)])


@unflatten.register(Tuple)
def _unflatten_tuple(space: Tuple, x: Any) -> tuple[Any, ...]:
    pieces = _pieces(space, x, tuple)
    return tuple(unflatten(part, piece) for part, piece in zip(space.spaces, pieces, strict=True))


@unflatten.register(Dict)
def _unflatten_dict(space: Dict, x: Any) -> dict[str, Any]:
    pieces = _pieces(space, x, dict)
    if isinstance(pieces, dict):
        return {key: unflatten(part, pieces[key]) for key, part in space.spaces.items()}
    return {key: unflatten(part, piece) for (key, part), piece in zip(space.spaces.items(), pieces, strict=True)}


def _pieces(space: Tuple | Dict, x: Any, structure: type) -> Any:
    """The flat arrays of the parts: cut out of one array, or as they are where the structure stayed."""
    expected: Any = np.ndarray if space.is_np_flattenable else structure
    if not isinstance(x, expected):
        raise InvalidSpace(f"{space} unflattens a {expected.__name__}, not a {type(x)}")
    if expected is not np.ndarray:
        return x
    sizes = [flatdim(part) for part in parts(space)]
    if x.shape != (sum(sizes),):
        raise InvalidSpace(f"{space} unflattens an array of shape {(sum(sizes),)}, not {x.shape}")
    ends = np.cumsum(sizes, dtype=np.int64).tolist()
    return [x[end - size : end] for end, size in zip(ends, sizes, strict=True)]


@unflatten.register(OneOf)
def _unflatten_one_of(space: OneOf, x: NDArray[Any]) -> tuple[Any, Any]:
    index = np.int64(x[0])
    part = space.spaces[index]
    return index, unflatten(part, x[1 : 1 + flatdim(part)].astype(_flat_dtype(part)))


@unflatten.register(Sequence)
def _unflatten_sequence(space: Sequence, x: Any) -> Any:
    if not space.stack:
        return tuple(unflatten(space.feature_space, item) for item in x)
    return _convert_batch(iterate(flatten_space(space.feature_space), x), space.feature_space, unflatten)


@unflatten.register(Graph)
def _unflatten_graph(space: Graph, x: GraphInstance) -> GraphInstance:
    nodes = _convert_batch(iterate(flatten_space(space.node_space), x.nodes), space.node_space, unflatten)
    if x.edges is None:
        return GraphInstance(nodes, None, x.edge_links)
    if space.edge_space is None:
        raise InvalidSpace(f"The graph has edges but the edge space of {space} is None.")
    edges = _convert_batch(iterate(flatten_space(space.edge_space), x.edges), space.edge_space, unflatten)
    return GraphInstance(nodes, edges, x.edge_links)


@singledispatch
def flatten_space(space: Space[Any]) -> Box | Dict | Sequence | Tuple | Graph:
    """The space of the flat members: a Box, or the same structure with flat parts where one array is not possible.

    >>> flatten_space(Dict(position=Discrete(2), velocity=Box(0, 1, (2, 2))))
    Box(0.0, 1.0, (6,), float64)
    """
    raise _no_rule("flatten_space", space)


@flatten_space.register(Box)
def _flatten_space_box(space: Box) -> Box:
    uniform = space._uniform_like((flatdim(space),))
    return uniform or Box(space.low.reshape(-1), space.high.reshape(-1), dtype=space.dtype)


@flatten_space.register(Discrete)
@flatten_space.register(MultiBinary)
@flatten_space.register(MultiDiscrete)
def _flatten_space_one_hot(space: Discrete | MultiBinary | MultiDiscrete) -> Box:
    return Box(0, 1, (flatdim(space),), space.dtype)


@flatten_space.register(Text)
def _flatten_space_text(space: Text) -> Box:
    return Box(0, len(space.character_list), (space.max_length,), np.int32)


@flatten_space.register(Tuple)
def _flatten_space_tuple(space: Tuple) -> Box | Tuple:
    flat = [flatten_space(part) for part in space.spaces]
    return _join_boxes(flat) if space.is_np_flattenable else Tuple(flat)


@flatten_space.register(Dict)
def _flatten_space_dict(space: Dict) -> Box | Dict:
    flat = {key: flatten_space(part) for key, part in space.spaces.items()}
    return _join_boxes(list(flat.values())) if space.is_np_flattenable else Dict(flat, sort_keys=space.sort_keys)


def _join_boxes(boxes: list[Any]) -> Box:
    low, high = np.concatenate([box.low for box in boxes]), np.concatenate([box.high for box in boxes])
    return Box(low, high, dtype=np.result_type(*[box.dtype for box in boxes]))


@flatten_space.register(OneOf)
def _flatten_space_one_of(space: OneOf) -> Box:
    flat: list[Any] = [flatten_space(part) for part in space.spaces]
    dtype = _flat_dtype(space)
    low, high = np.empty(flatdim(space), dtype), np.empty(flatdim(space), dtype)
    low[0], high[0] = 0, len(flat) - 1
    low[1:], high[1:] = min(np.min(box.low) for box in flat), max(np.max(box.high) for box in flat)
    return Box(low, high, dtype=dtype)


@flatten_space.register(Sequence)
def _flatten_space_sequence(space: Sequence) -> Sequence:
    return Sequence(flatten_space(space.feature_space), stack=space.stack)


@flatten_space.register(Graph)
def _flatten_space_graph(space: Graph) -> Graph:
    edges = None if space.edge_space is None else flatten_space(space.edge_space)
    return Graph(flatten_space(space.node_space), edges)


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
