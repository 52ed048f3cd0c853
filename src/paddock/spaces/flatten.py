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
    match space:
        case Box() | MultiBinary():
            return math.prod(space.shape)
        case Discrete():
            return int(space.n)
        case MultiDiscrete():
            return int(np.sum(space.nvec))
        case Text():
            return space.max_length
        case Tuple() | Dict() if space.is_np_flattenable:
            return sum(flatdim(part) for part in parts(space))
        case OneOf():
            return 1 + max(flatdim(part) for part in space.spaces)
        case Graph():
            raise InvalidSpace("Cannot get flattened size as the Graph Space has a dynamic size.")
        case Space() if space.is_np_flattenable is False:
            raise _not_flat(space)
    raise _no_rule("flatdim", space)


def _flat_dtype(space: Space[Any]) -> np.dtype[Any]:
    """The dtype of ``flatten_space(space)``, without making that space."""
    match space:
        case Text():
            return np.dtype(np.int32)
        case Tuple() | Dict():
            return np.result_type(*(_flat_dtype(part) for part in parts(space)))
        case OneOf():
            dtype = np.result_type(*(_flat_dtype(part) for part in space.spaces))
            last_index = len(space.spaces) - 1
            # The index of the subspace stands in the same array and must fit too.
            limit = 1 if dtype.kind == "b" else np.iinfo(dtype).max if dtype.kind in "iu" else last_index
            return dtype if last_index <= limit else np.result_type(dtype, np.min_scalar_type(last_index))
    if space.dtype is None:
        raise _not_flat(space)
    return space.dtype


@singledispatch
def flatten(space: Space[Any], x: Any) -> FlatType:
    """``x``, a member of ``space``, as a flat array; it is a member of ``flatten_space(space)``.

    >>> flatten(Discrete(4), 2)
    array([0, 0, 1, 0])
    """
    match space:
        case Box() | MultiBinary():
            return np.asarray(x, dtype=space.dtype).flatten()
        case Discrete():
            one_hot = np.zeros(space.n, dtype=space.dtype)
            one_hot[x - space.start] = 1
            return one_hot
        case MultiDiscrete():
            ends = np.cumsum(space.nvec, dtype=np.int64)
            one_hot = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=space.dtype)
            # In int64: for small dtypes neither the difference nor the offsets need fit.
            chosen = np.asarray(x, dtype=np.int64).reshape(-1) - space.start.reshape(-1).astype(np.int64)
            one_hot[ends - space.nvec.reshape(-1) + chosen] = 1
            return one_hot
        case Text():
            indices = np.full(space.max_length, len(space.character_list), dtype=np.int32)
            indices[: len(x)] = [space.character_index(char) for char in x]
            return indices
        case Dict():
            flat: dict[str, Any] = {key: flatten(part, x[key]) for key, part in space.spaces.items()}
            return np.concatenate(list(flat.values())) if space.is_np_flattenable else flat
        case Tuple():
            pieces: list[Any] = [flatten(part, value) for part, value in zip(space.spaces, x, strict=True)]
            return np.concatenate(pieces) if space.is_np_flattenable else tuple(pieces)
        case OneOf():
            return _flatten_one_of(space, *x)
        case Sequence():
            if not space.stack:
                return tuple(flatten(space.feature_space, item) for item in x)
            return _convert_batch(iterate(space.stacked_feature_space, x), space.feature_space, flatten)  # type: ignore[no-any-return]
        case Graph():
            return _convert_graph(space, x, space.batch_node_space, space.batch_edge_space, flatten)
    raise _no_rule("flatten", space)


def _flatten_one_of(space: OneOf, index: int, value: Any) -> NDArray[Any]:
    flat = np.asarray(flatten(space.spaces[index], value))
    padded = np.empty(flatdim(space), dtype=_flat_dtype(space))
    padded[0] = index
    padded[1 : 1 + flat.size] = flat
    padded[1 + flat.size :] = flat[:1]  # a value that surely lies within the bounds
    return padded


def _convert_graph(space: Graph, x: GraphInstance, nodes: Space[Any], edges: Any, function: Any) -> GraphInstance:
    """Flatten or unflatten a graph whose nodes and edges are batches, members of these spaces."""
    converted = _convert_batch(iterate(nodes, x.nodes), space.node_space, function)
    if x.edges is None:
        return GraphInstance(converted, None, x.edge_links)
    if space.edge_space is None:
        raise InvalidSpace(f"The graph has edges but the edge space of {space} is None.")
    return GraphInstance(converted, _convert_batch(iterate(edges, x.edges), space.edge_space, function), x.edge_links)


def _convert_batch(items: Iterable[Any], space: Space[Any], function: Any) -> Any:
    """Flatten or unflatten each of ``items``, members of ``space`` before or after, and batch the results."""
    converted = [function(space, item) for item in items]
    target = flatten_space(space) if function is flatten else space
    return concatenate(target, converted, create_empty_array(target, n=len(converted)))


@singledispatch
def unflatten(space: Space[Any], x: FlatType) -> Any:
    """The member of ``space`` that `flatten` turned into ``x``."""
    flat: Any = x  # what it is follows from the space
    match space:
        case Box() | MultiBinary():
            return np.asarray(flat, dtype=space.dtype).reshape(space.shape)
        case Discrete():
            (hot,) = np.nonzero(flat)
            if len(hot) == 0:
                raise _not_one_hot(f"{flat} is not a valid one-hot encoded vector", space)
            return space.start + hot[0].astype(space.dtype)
        case MultiDiscrete():
            (hot,) = np.nonzero(flat)
            if len(hot) != space.nvec.size or len(hot) == 0:
                raise _not_one_hot(f"{flat} is not a concatenation of one-hot encoded vectors", space)
            offsets = np.cumsum(space.nvec, dtype=np.int64) - space.nvec.reshape(-1)
            return np.asarray((hot - offsets).astype(space.dtype).reshape(space.shape) + space.start)
        case Text():
            characters = space.character_list
            # Beside a float Box the indices are floats.
            return "".join([characters[int(index)] for index in flat if index < len(characters)])
        case Dict():
            pieces = _pieces(space, flat, dict)
            if not isinstance(pieces, dict):
                pieces = dict(zip(space.spaces, pieces, strict=True))
            return {key: unflatten(part, pieces[key]) for key, part in space.spaces.items()}
        case Tuple():
            pieces = _pieces(space, flat, tuple)
            return tuple(unflatten(part, piece) for part, piece in zip(space.spaces, pieces, strict=True))
        case OneOf():
            index = np.int64(flat[0])
            part = space.spaces[index]
            return index, unflatten(part, flat[1 : 1 + flatdim(part)].astype(_flat_dtype(part)))
        case Sequence():
            if not space.stack:
                return tuple(unflatten(space.feature_space, item) for item in flat)
            return _convert_batch(iterate(flatten_space(space.feature_space), flat), space.feature_space, unflatten)
        case Graph():
            edges = None if space.edge_space is None else flatten_space(space.edge_space)
            return _convert_graph(space, flat, flatten_space(space.node_space), edges, unflatten)
    raise _no_rule("unflatten", space)


def _not_one_hot(problem: str, space: Space[Any]) -> InvalidSpace:
    return InvalidSpace(
        f"{problem} and can not be unflattened to space {space}. "
        "Not all valid samples in a flattened space can be unflattened."
    )


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


@singledispatch
def flatten_space(space: Space[Any]) -> Box | Dict | Sequence | Tuple | Graph:
    """The space of the flat members: a Box, or the same structure with flat parts where one array is not possible.

    >>> flatten_space(Dict(position=Discrete(2), velocity=Box(0, 1, (2, 2))))
    Box(0.0, 1.0, (6,), float64)
    """
    match space:
        case Box():
            uniform = space._uniform_like((flatdim(space),))
            return uniform or Box(space.low.reshape(-1), space.high.reshape(-1), dtype=space.dtype)
        case Discrete() | MultiBinary() | MultiDiscrete():
            return Box(0, 1, (flatdim(space),), space.dtype)
        case Text():
            return Box(0, len(space.character_list), (space.max_length,), np.int32)
        case Dict():
            flat = {key: flatten_space(part) for key, part in space.spaces.items()}
            return (
                _join_boxes(list(flat.values())) if space.is_np_flattenable else Dict(flat, sort_keys=space.sort_keys)
            )
        case Tuple():
            pieces = [flatten_space(part) for part in space.spaces]
            return _join_boxes(pieces) if space.is_np_flattenable else Tuple(pieces)
        case OneOf():
            boxes: list[Any] = [flatten_space(part) for part in space.spaces]
            low, high = (np.empty(flatdim(space), _flat_dtype(space)) for _ in range(2))
            low[0], high[0] = 0, len(boxes) - 1
            low[1:], high[1:] = min(np.min(box.low) for box in boxes), max(np.max(box.high) for box in boxes)
            return Box(low, high, dtype=low.dtype)
        case Sequence():
            return Sequence(flatten_space(space.feature_space), stack=space.stack)
        case Graph():
            edges = None if space.edge_space is None else flatten_space(space.edge_space)
            return Graph(flatten_space(space.node_space), edges)
    raise _no_rule("flatten_space", space)


def _join_boxes(boxes: list[Any]) -> Box:
    low, high = np.concatenate([box.low for box in boxes]), np.concatenate([box.high for box in boxes])
    return Box(low, high, dtype=np.result_type(*[box.dtype for box in boxes]))


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
