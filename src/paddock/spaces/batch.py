"""Batched values: n members of a space in one value with a leading axis. Spaces of your own register rules here.

Arrays gain an axis, Tuple and Dict batch each part, and everything else (Text, Sequence, Graph, OneOf, Struct, spaces
without a rule) becomes a tuple of n members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as AbstractSequence
from copy import deepcopy
from functools import singledispatch
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from paddock.errors import CustomSpaceError, InvalidSpace
from paddock.spaces.box import Box
from paddock.spaces.dict import Dict
from paddock.spaces.discrete import Discrete
from paddock.spaces.graph import Graph, GraphInstance
from paddock.spaces.multi_binary import MultiBinary
from paddock.spaces.multi_discrete import MultiDiscrete
from paddock.spaces.oneof import OneOf
from paddock.spaces.sequence import Sequence
from paddock.spaces.space import ArraySpace, Space
from paddock.spaces.struct import Struct
from paddock.spaces.text import Text
from paddock.spaces.tuple import Tuple


def no_rule(function: str, space: Any) -> CustomSpaceError | InvalidSpace:
    """The error for a space without a rule, and for what is not a space."""
    if isinstance(space, Space):
        return CustomSpaceError(
            f"Space of type `{type(space)}` doesn't have an registered `{function}` function. "
            f"Register `{type(space)}` for `{function}` to support it."
        )
    return InvalidSpace(
        f"The space provided to `{function}` is not a gymnasium Space instance, type: {type(space)}, {space}"
    )


@singledispatch
def batch_space(space: Space[Any], n: int = 1) -> Space[Any]:
    """The space of ``n`` members at once. Its random stream is a copy, so sampling one leaves the other alone.

    >>> batch_space(Box(0, 1, (3,)), 5)
    Box(0.0, 1.0, (5, 3), float32)
    """
    match space:
        case Box():
            uniform = space._uniform_like((n, *space.shape), space._copy_np_random())
            if uniform is not None:
                return uniform
            repeats = (n,) + (1,) * len(space.shape)
            low, high = np.tile(space.low, repeats), np.tile(space.high, repeats)
            return Box(low, high, dtype=space.dtype, seed=space._copy_np_random())
        case Discrete():
            nvec, start = (np.full((n,), value, dtype=space.dtype) for value in (space.n, space.start))
            return MultiDiscrete(nvec, dtype=space.n.dtype, seed=space._copy_np_random(), start=start)
        case MultiDiscrete():
            repeats = (n,) + (1,) * space.nvec.ndim
            low, high = np.tile(space.start, repeats), np.tile(space._last, repeats)
            return Box(low, high, dtype=space.dtype, seed=space._copy_np_random())
        case MultiBinary():
            return Box(0, 1, (n, *space.shape), space.dtype, space._copy_np_random())
        case Dict():
            parts = {key: batch_space(part, n) for key, part in space.spaces.items()}
            return Dict(parts, space._copy_np_random(), sort_keys=space.sort_keys)
        case Tuple():
            return Tuple(tuple(batch_space(part, n) for part in space.spaces), space._copy_np_random())
        case Space():
            batched = Tuple(tuple(deepcopy(space) for _ in range(n)), space._copy_np_random())
            # Copies of one stream would all give the same samples.
            batched.seed([int(seed) for seed in space._copy_np_random().integers(0, 10**8, n)])
            return batched
    raise no_rule("batch_space", space)


@singledispatch
def batch_differing_spaces(spaces: Any) -> Space[Any]:
    """The space of one member of each: spaces of one class that differ in their bounds.

    >>> batch_differing_spaces([Discrete(3), Discrete(5)])
    MultiDiscrete([3 5])
    """
    if len(spaces) == 0:
        raise InvalidSpace("Expects a non-empty list of spaces")
    kind = type(spaces[0])
    if not all(isinstance(space, kind) for space in spaces):
        raise InvalidSpace(
            f"Expects all spaces to be of the same type, actual types: {[type(space) for space in spaces]}"
        )
    if kind not in batch_differing_spaces.registry:
        raise InvalidSpace(
            f"Requires the Space type to have a registered `batch_differing_space`, {kind} has none, "
            f"current list: {list(batch_differing_spaces.registry)}"
        )
    return batch_differing_spaces.dispatch(kind)(spaces)


def _same(what: str, values: list[Any]) -> None:
    if any(value != values[0] for value in values):
        raise InvalidSpace(f"Expected all {what} to be equal, actually {values}")


@batch_differing_spaces.register(Box)
def _differing_boxes(spaces: AbstractSequence[Box]) -> Box:
    _same("dtypes", [space.dtype for space in spaces])
    _same("Box.low shape", [space.shape for space in spaces])
    low, high = np.array([space.low for space in spaces]), np.array([space.high for space in spaces])
    return Box(low, high, dtype=spaces[0].dtype, seed=spaces[0]._copy_np_random())


@batch_differing_spaces.register(Discrete)
def _differing_discretes(spaces: AbstractSequence[Discrete]) -> MultiDiscrete:
    return MultiDiscrete(
        nvec=np.array([space.n for space in spaces]),
        dtype=max((space.n.dtype for space in spaces), key=lambda dtype: dtype.itemsize),
        seed=spaces[0]._copy_np_random(),
        start=np.array([space.start for space in spaces]),
    )


@batch_differing_spaces.register(MultiDiscrete)
def _differing_multi_discretes(spaces: AbstractSequence[MultiDiscrete]) -> Box:
    _same("dtypes", [space.dtype for space in spaces])
    _same("MultiDiscrete.nvec shape", [space.shape for space in spaces])
    low, high = np.array([space.start for space in spaces]), np.array([space._last for space in spaces])
    return Box(low, high, dtype=spaces[0].dtype, seed=spaces[0]._copy_np_random())


@batch_differing_spaces.register(MultiBinary)
def _differing_multi_binaries(spaces: AbstractSequence[MultiBinary]) -> Box:
    _same("MultiBinary shapes", [space.shape for space in spaces])
    return Box(0, 1, (len(spaces), *spaces[0].shape), spaces[0].dtype, spaces[0]._copy_np_random())


@batch_differing_spaces.register(Tuple)
def _differing_tuples(spaces: AbstractSequence[Tuple]) -> Tuple:
    _same("Tuple lengths", [len(space) for space in spaces])
    columns = zip(*[space.spaces for space in spaces], strict=True)
    return Tuple(tuple(batch_differing_spaces(column) for column in columns), spaces[0]._copy_np_random())


@batch_differing_spaces.register(Dict)
def _differing_dicts(spaces: AbstractSequence[Dict]) -> Dict:
    if not all(space.keys() == spaces[0].keys() for space in spaces):
        raise InvalidSpace(
            f"Expected all Dict spaces to have the same keys, actually {[list(space.keys()) for space in spaces]}"
        )
    parts = {key: batch_differing_spaces([space[key] for space in spaces]) for key in spaces[0].spaces}
    return Dict(parts, spaces[0]._copy_np_random(), sort_keys=spaces[0].sort_keys)


@batch_differing_spaces.register(Graph)
@batch_differing_spaces.register(Text)
@batch_differing_spaces.register(Sequence)
@batch_differing_spaces.register(OneOf)
@batch_differing_spaces.register(Struct)
def _differing_others(spaces: AbstractSequence[Space[Any]]) -> Tuple:
    return Tuple([deepcopy(space) for space in spaces], spaces[0]._copy_np_random())


@singledispatch
def iterate(space: Space[Any], items: Any) -> Iterator[Any]:
    """The single members in ``items``, a member of the batched space ``space``, one after the other.

    >>> [position.tolist() for position in iterate(Box(0, 9, (2, 2), int), np.array([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]
    """
    raise no_rule("iterate", space)


@iterate.register(Discrete)
def _iterate_discrete(space: Discrete, items: Any) -> NoReturn:
    raise InvalidSpace("Unable to iterate over a space of type `Discrete`.")


@iterate.register(Box)
@iterate.register(MultiDiscrete)
@iterate.register(MultiBinary)
def _iterate_array(space: Space[Any], items: Any) -> Iterator[Any]:
    try:
        return iter(items)
    except TypeError as error:
        raise InvalidSpace(f"Unable to iterate over the following elements: {items}") from error


@iterate.register(Tuple)
def _iterate_tuple(space: Tuple, items: Any) -> Iterator[Any]:
    without_rule = [type(part) for part in space.spaces if type(part) not in iterate.registry]
    if not without_rule:
        return zip(*[iterate(part, items[i]) for i, part in enumerate(space.spaces)], strict=True)
    # A batch of spaces without a rule is a tuple of members.
    try:
        return iter(items)
    except Exception as error:
        raise CustomSpaceError(
            f"Could not iterate through {space} as no custom iterate function is registered for {without_rule} and "
            f"`iter(items)` raised the following error: {error}."
        ) from error


@iterate.register(Dict)
def _iterate_dict(space: Dict, items: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    columns = [iterate(part, items[key]) for key, part in space.spaces.items()]
    for each in zip(*columns, strict=True):
        yield dict(zip(space.spaces, each, strict=True))


def row(space: Space[Any], batch: Any, lane: int) -> Any:
    """One lane's member of a batch of the single ``space``; tuples and dicts have their lanes inside their parts."""
    if isinstance(space, Tuple):
        return tuple(row(part, rows, lane) for part, rows in zip(space.spaces, batch, strict=True))
    if isinstance(space, Dict):
        return {key: row(part, batch[key], lane) for key, part in space.spaces.items()}
    return batch[lane]


@singledispatch
def concatenate(
    space: Space[Any], items: Iterable[Any], out: tuple[Any, ...] | Mapping[str, Any] | NDArray[Any] | None
) -> tuple[Any, ...] | dict[str, Any] | NDArray[Any]:
    """Put members of ``space`` into ``out``, which `create_empty_array` made, and return it.

    Returns another object where the batch is a tuple or dict; the arrays in it are those of ``out``.
    """
    room: Any = out
    match space:
        case ArraySpace():
            members = list(items)
            # np.stack refuses to stack nothing.
            return room if not members and len(room) == 0 else np.stack(members, axis=0, out=room)  # type: ignore[no-any-return]
        case Dict():
            members, parts = list(items), space.spaces.items()
            return {key: concatenate(part, [m[key] for m in members], room[key]) for key, part in parts}
        case Tuple():
            members = list(items)
            return tuple(concatenate(part, [m[i] for m in members], room[i]) for i, part in enumerate(space.spaces))
        case Space():
            return tuple(items)
    raise no_rule("concatenate", space)


@singledispatch
def create_empty_array(
    space: Space[Any], n: int = 1, fn: Callable[..., Any] = np.zeros
) -> tuple[Any, ...] | dict[str, Any] | NDArray[Any] | None:
    """Room for ``n`` members, for `concatenate`. ``fn`` makes the arrays: ``np.zeros``, ``np.empty``, ...

    The content need not be a member: zeros may lie outside a Box.
    """
    match space:
        case ArraySpace():
            return fn((n, *space.shape), dtype=space.dtype)  # type: ignore[no-any-return]
        case Text():
            return (space.characters[:1] * space.min_length,) * n
        case Dict():
            return {key: create_empty_array(part, n=n, fn=fn) for key, part in space.spaces.items()}
        case Tuple():
            return tuple(create_empty_array(part, n=n, fn=fn) for part in space.spaces)
        case Graph():
            return tuple(_empty_graph(space, fn) for _ in range(n))
        case Sequence():
            return tuple(create_empty_array(space.feature_space, n=1, fn=fn) if space.stack else () for _ in range(n))
        case OneOf():
            return ((),) * n
        case Space():
            return None
    raise no_rule("create_empty_array", space)


def _empty_graph(space: Graph, fn: Callable[..., Any]) -> GraphInstance:
    nodes = create_empty_array(space.node_space, n=1, fn=fn)
    if space.edge_space is None:
        return GraphInstance(nodes, None, None)
    return GraphInstance(nodes, create_empty_array(space.edge_space, n=1, fn=fn), fn((1, 2), dtype=np.int64))


@singledispatch
def create_zero_array(space: Space[Any]) -> Any:
    """The member nearest to zero: zero itself, or the bound next to it; in a composite space that of each part.

    For a space class of your own: ``create_zero_array.register(Class)``.

    >>> create_zero_array(Tuple([Box(2, 3, (1,)), Text(5, min_length=2, charset="xyz")]))
    (array([2.], dtype=float32), 'xx')
    """
    match space:
        case Box():
            return np.clip(np.zeros(space.shape, space.dtype), space.low, space.high)
        case Discrete():
            return space.start
        case MultiDiscrete():
            return np.array(space.start, space.dtype)
        case MultiBinary():
            return np.zeros(space.shape, space.dtype)
        case Text():
            return space.characters[:1] * space.min_length
        case Dict():
            return {key: create_zero_array(part) for key, part in space.spaces.items()}
        case Tuple():
            return tuple(create_zero_array(part) for part in space.spaces)
        case Sequence():
            return create_zero_array(space.stacked_feature_space) if space.stack else ()
        case OneOf():
            return 0, create_zero_array(space.spaces[0])
        case Graph():
            nodes = create_zero_array(batch_space(space.node_space, 1))
            if space.edge_space is None:
                return GraphInstance(nodes, None, None)
            return GraphInstance(nodes, create_zero_array(batch_space(space.edge_space, 1)), np.zeros((1, 2), np.int64))
    raise no_rule("create_zero_array", space)


@singledispatch
def is_space_dtype_shape_equiv(space_1: Space[Any], space_2: Space[Any]) -> bool:
    """Whether both spaces have the same class, shape and dtype, whatever their bounds: what lanes must agree on.

    >>> is_space_dtype_shape_equiv(Box(0, 1, (2,)), Box(-5, 5, (2,)))
    True
    """
    equivalent = is_space_dtype_shape_equiv
    match space_1, space_2:
        case ArraySpace(), _:
            return type(space_1) is type(space_2) and space_1.shape == space_2.shape and space_1.dtype == space_2.dtype
        case Text(), Text():
            return space_1.max_length == space_2.max_length and space_1.character_set == space_2.character_set
        case Dict(), Dict():
            parts = space_1.spaces.items()
            return space_1.keys() == space_2.keys() and all(equivalent(part, space_2[key]) for key, part in parts)
        case Tuple(), Tuple():
            return len(space_1) == len(space_2) and all(map(equivalent, space_1.spaces, space_2.spaces))
        case OneOf(), OneOf():
            return len(space_1) == len(space_2) and all(map(equivalent, space_1.spaces, space_2.spaces))
        case Graph(), Graph():
            if not equivalent(space_1.node_space, space_2.node_space):
                return False
            if space_1.edge_space is None or space_2.edge_space is None:
                return space_1.edge_space is space_2.edge_space
            return equivalent(space_1.edge_space, space_2.edge_space)
        case Sequence(), Sequence():
            return space_1.stack is space_2.stack and equivalent(space_1.feature_space, space_2.feature_space)
        case Struct(), Struct():
            return space_1 == space_2
        case ((Text() | Dict() | Tuple() | OneOf() | Graph() | Sequence() | Struct()), _):
            return False
        case Space(), Space():
            raise CustomSpaceError(
                f"`is_space_dtype_shape_equiv` has no rule for {type(space_1).__name__}; "
                f"add one: is_space_dtype_shape_equiv.register({type(space_1).__name__}, your_function)"
            )
    raise InvalidSpace(f"Expected two spaces, got {type(space_1)} and {type(space_2)}")
