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
    raise no_rule("batch_space", space)


@batch_space.register(Box)
def _batch_box(space: Box, n: int = 1) -> Box:
    uniform = space._uniform_like((n, *space.shape), space._copy_np_random())
    if uniform is not None:
        return uniform
    repeats = (n,) + (1,) * len(space.shape)
    low, high = np.tile(space.low, repeats), np.tile(space.high, repeats)
    return Box(low, high, dtype=space.dtype, seed=space._copy_np_random())


@batch_space.register(Discrete)
def _batch_discrete(space: Discrete, n: int = 1) -> MultiDiscrete:
    nvec, start = (np.full((n,), value, dtype=space.dtype) for value in (space.n, space.start))
    return MultiDiscrete(nvec, dtype=space.n.dtype, seed=space._copy_np_random(), start=start)


@batch_space.register(MultiDiscrete)
def _batch_multi_discrete(space: MultiDiscrete, n: int = 1) -> Box:
    repeats = (n,) + (1,) * space.nvec.ndim
    low, high = np.tile(space.start, repeats), np.tile(space._last, repeats)
    return Box(low, high, dtype=space.dtype, seed=space._copy_np_random())


@batch_space.register(MultiBinary)
def _batch_multi_binary(space: MultiBinary, n: int = 1) -> Box:
    return Box(0, 1, (n, *space.shape), space.dtype, space._copy_np_random())


@batch_space.register(Tuple)
def _batch_tuple(space: Tuple, n: int = 1) -> Tuple:
    return Tuple(tuple(batch_space(part, n) for part in space.spaces), space._copy_np_random())


@batch_space.register(Dict)
def _batch_dict(space: Dict, n: int = 1) -> Dict:
    parts = {key: batch_space(part, n) for key, part in space.spaces.items()}
    return Dict(parts, space._copy_np_random(), sort_keys=space.sort_keys)


@batch_space.register(Space)
def _batch_any(space: Space[Any], n: int = 1) -> Tuple:
    batched = Tuple(tuple(deepcopy(space) for _ in range(n)), space._copy_np_random())
    # Copies of one stream would all give the same samples.
    batched.seed([int(seed) for seed in space._copy_np_random().integers(0, 10**8, n)])
    return batched


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
    raise no_rule("concatenate", space)


@concatenate.register(ArraySpace)
def _concatenate_arrays(space: Space[Any], items: Iterable[Any], out: NDArray[Any]) -> NDArray[Any]:
    members = list(items)
    if not members and len(out) == 0:
        return out  # np.stack refuses to stack nothing
    return np.stack(members, axis=0, out=out)


@concatenate.register(Tuple)
def _concatenate_tuples(space: Tuple, items: Iterable[Any], out: tuple[Any, ...]) -> tuple[Any, ...]:
    members = list(items)
    return tuple(concatenate(part, [m[i] for m in members], out[i]) for i, part in enumerate(space.spaces))


@concatenate.register(Dict)
def _concatenate_dicts(space: Dict, items: Iterable[Any], out: Mapping[str, Any]) -> dict[str, Any]:
    members = list(items)
    return {key: concatenate(part, [m[key] for m in members], out[key]) for key, part in space.spaces.items()}


@concatenate.register(Space)
def _concatenate_any(space: Space[Any], items: Iterable[Any], out: Any) -> tuple[Any, ...]:
    return tuple(items)


@singledispatch
def create_empty_array(
    space: Space[Any], n: int = 1, fn: Callable[..., Any] = np.zeros
) -> tuple[Any, ...] | dict[str, Any] | NDArray[Any] | None:
    """Room for ``n`` members, for `concatenate`. ``fn`` makes the arrays: ``np.zeros``, ``np.empty``, ...

    The content need not be a member: zeros may lie outside a Box.
    """
    raise no_rule("create_empty_array", space)


@create_empty_array.register(ArraySpace)
def _empty_array(space: ArraySpace[Any], n: int = 1, fn: Callable[..., Any] = np.zeros) -> Any:
    return fn((n, *space.shape), dtype=space.dtype)


@create_empty_array.register(Tuple)
def _empty_tuple(space: Tuple, n: int = 1, fn: Callable[..., Any] = np.zeros) -> tuple[Any, ...]:
    return tuple(create_empty_array(part, n=n, fn=fn) for part in space.spaces)


@create_empty_array.register(Dict)
def _empty_dict(space: Dict, n: int = 1, fn: Callable[..., Any] = np.zeros) -> dict[str, Any]:
    return {key: create_empty_array(part, n=n, fn=fn) for key, part in space.spaces.items()}


@create_empty_array.register(Graph)
def _empty_graphs(space: Graph, n: int = 1, fn: Callable[..., Any] = np.zeros) -> tuple[GraphInstance, ...]:
    def empty_graph() -> GraphInstance:
        nodes = create_empty_array(space.node_space, n=1, fn=fn)
        if space.edge_space is None:
            return GraphInstance(nodes, None, None)
        return GraphInstance(nodes, create_empty_array(space.edge_space, n=1, fn=fn), fn((1, 2), dtype=np.int64))

    return tuple(empty_graph() for _ in range(n))


@create_empty_array.register(Text)
def _empty_texts(space: Text, n: int = 1, fn: Callable[..., Any] = np.zeros) -> tuple[str, ...]:
    return (space.characters[:1] * space.min_length,) * n


@create_empty_array.register(Sequence)
def _empty_sequences(space: Sequence, n: int = 1, fn: Callable[..., Any] = np.zeros) -> tuple[Any, ...]:
    return tuple(create_empty_array(space.feature_space, n=1, fn=fn) if space.stack else () for _ in range(n))


@create_empty_array.register(OneOf)
def _empty_one_of(space: OneOf, n: int = 1, fn: Callable[..., Any] = np.zeros) -> tuple[Any, ...]:
    return ((),) * n


@create_empty_array.register(Space)
def _empty_any(space: Space[Any], n: int = 1, fn: Callable[..., Any] = np.zeros) -> None:
    return None


@singledispatch
def create_zero_array(space: Space[Any]) -> Any:
    """The member nearest to zero: zero itself, or the bound next to it; in a composite space that of each part.

    For a space class of your own: ``create_zero_array.register(Class)``.

    >>> create_zero_array(Tuple([Box(2, 3, (1,)), Text(5, min_length=2, charset="xyz")]))
    (array([2.], dtype=float32), 'xx')
    """
    raise no_rule("create_zero_array", space)


@create_zero_array.register(Box)
def _zero_box(space: Box) -> NDArray[Any]:
    return np.clip(np.zeros(space.shape, space.dtype), space.low, space.high)


@create_zero_array.register(Discrete)
def _zero_discrete(space: Discrete) -> Any:
    return space.start


@create_zero_array.register(MultiDiscrete)
def _zero_multi_discrete(space: MultiDiscrete) -> NDArray[Any]:
    return np.array(space.start, space.dtype)


@create_zero_array.register(MultiBinary)
def _zero_multi_binary(space: MultiBinary) -> NDArray[Any]:
    return np.zeros(space.shape, space.dtype)


@create_zero_array.register(Dict)
def _zero_dict(space: Dict) -> dict[str, Any]:
    return {key: create_zero_array(part) for key, part in space.spaces.items()}


@create_zero_array.register(Tuple)
def _zero_tuple(space: Tuple) -> tuple[Any, ...]:
    return tuple(create_zero_array(part) for part in space.spaces)


@create_zero_array.register(Text)
def _zero_text(space: Text) -> str:
    return space.characters[:1] * space.min_length


@create_zero_array.register(Sequence)
def _zero_sequence(space: Sequence) -> Any:
    return create_zero_array(space.stacked_feature_space) if space.stack else ()


@create_zero_array.register(OneOf)
def _zero_one_of(space: OneOf) -> tuple[int, Any]:
    return 0, create_zero_array(space.spaces[0])


@create_zero_array.register(Graph)
def _zero_graph(space: Graph) -> GraphInstance:
    nodes = create_zero_array(batch_space(space.node_space, 1))
    if space.edge_space is None:
        return GraphInstance(nodes, None, None)
    return GraphInstance(nodes, create_zero_array(batch_space(space.edge_space, 1)), np.zeros((1, 2), np.int64))


@singledispatch
def is_space_dtype_shape_equiv(space_1: Space[Any], space_2: Space[Any]) -> bool:
    """Whether both spaces have the same class, shape and dtype, whatever their bounds: what lanes must agree on.

    >>> is_space_dtype_shape_equiv(Box(0, 1, (2,)), Box(-5, 5, (2,)))
    True
    """
    if isinstance(space_1, Space) and isinstance(space_2, Space):
        raise CustomSpaceError(
            f"`is_space_dtype_shape_equiv` has no rule for {type(space_1).__name__}; "
            f"add one: is_space_dtype_shape_equiv.register({type(space_1).__name__}, your_function)"
        )
    raise InvalidSpace(f"Expected two spaces, got {type(space_1)} and {type(space_2)}")


@is_space_dtype_shape_equiv.register(ArraySpace)
def _equivalent_arrays(space_1: Space[Any], space_2: Any) -> bool:
    return type(space_1) is type(space_2) and space_1.shape == space_2.shape and space_1.dtype == space_2.dtype


@is_space_dtype_shape_equiv.register(Text)
def _equivalent_texts(space_1: Text, space_2: Any) -> bool:
    return (
        isinstance(space_2, Text)
        and space_1.max_length == space_2.max_length
        and space_1.character_set == space_2.character_set
    )


@is_space_dtype_shape_equiv.register(Dict)
def _equivalent_dicts(space_1: Dict, space_2: Any) -> bool:
    return (
        isinstance(space_2, Dict)
        and space_1.keys() == space_2.keys()
        and all(is_space_dtype_shape_equiv(part, space_2[key]) for key, part in space_1.spaces.items())
    )


@is_space_dtype_shape_equiv.register(Tuple)
@is_space_dtype_shape_equiv.register(OneOf)
def _equivalent_tuples(space_1: Tuple | OneOf, space_2: Any) -> bool:
    kind = Tuple if isinstance(space_1, Tuple) else OneOf
    return (
        isinstance(space_2, kind)
        and len(space_1) == len(space_2)
        and all(is_space_dtype_shape_equiv(*pair) for pair in zip(space_1.spaces, space_2.spaces, strict=True))
    )


@is_space_dtype_shape_equiv.register(Graph)
def _equivalent_graphs(space_1: Graph, space_2: Any) -> bool:
    if not (isinstance(space_2, Graph) and is_space_dtype_shape_equiv(space_1.node_space, space_2.node_space)):
        return False
    if space_1.edge_space is None or space_2.edge_space is None:
        return space_1.edge_space is space_2.edge_space
    return is_space_dtype_shape_equiv(space_1.edge_space, space_2.edge_space)


@is_space_dtype_shape_equiv.register(Sequence)
def _equivalent_sequences(space_1: Sequence, space_2: Any) -> bool:
    return (
        isinstance(space_2, Sequence)
        and space_1.stack is space_2.stack
        and is_space_dtype_shape_equiv(space_1.feature_space, space_2.feature_space)
    )


@is_space_dtype_shape_equiv.register(Struct)
def _equivalent_structs(space_1: Struct, space_2: Any) -> bool:
    return isinstance(space_2, Struct) and space_1 == space_2
