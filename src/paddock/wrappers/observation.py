"""Observations changed one by one: transformed by a function, filtered, flattened, reshaped, of another dtype.

None of these remembers anything. The space that TransformObservation is given is not checked against the function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import Env, Info
from paddock.errors import InvalidSpace
from paddock.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from paddock.spaces.flatten import flatten, flatten_space, parts
from paddock.wrappers.logic import ObservationMap, func_of, of_logic
from paddock.wrappers.one_lane import OneLaneObservation

Array = np.ndarray[Any, Any]
_WITH_COLUMNS = (Box, MultiBinary, Discrete, MultiDiscrete)


@dataclass(frozen=True)
class Transform(ObservationMap):
    """``func`` of one lane's observation, a member of ``result_space``; None: the space stays as it is."""

    func: Callable[[Any], Any]
    result_space: Space[Any] | None
    space: InitVar[Space[Any]]

    def __post_init__(self, space: Space[Any]) -> None:
        self._set_spaces(space, space if self.result_space is None else self.result_space)

    def one(self, value: Any) -> Any:
        return self.func(value)


class TransformObservation(OneLaneObservation):
    """The agent sees ``func(observation)``, a member of ``observation_space`` (None: the environment's).

    ``VectorizeTransformObservation`` makes a subclass of this work on lanes.
    """

    func: Callable[[Any], Any] = func_of("observation")
    _shortcut: Callable[[Any], Any]

    def __init__(self, env: Env[Any, Any], func: Callable[[Any], Any], observation_space: Space[Any] | None) -> None:
        self._record_arguments(func=func, observation_space=observation_space)
        self._use(env, Transform(func, observation_space, env.observation_space))
        self.func = func

    def _use(self, env: Env[Any, Any], logic: ObservationMap) -> None:
        OneLaneObservation.__init__(self, env, logic)
        self.func = logic.one

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._shortcut(observation), reward, terminated, truncated, info

    def observation(self, observation: Any) -> Any:
        return self.func(observation)


@dataclass(frozen=True)
class Filter(ObservationMap):
    """The parts that ``filter_keys`` names: keys of a Dict, places in a Tuple. Values are not copied."""

    filter_keys: Sequence[str | int]
    named: bool = field(init=False, repr=False, compare=False)  # a Dict's parts, not a Tuple's
    space: InitVar[Space[Any]]

    def __post_init__(self, space: Space[Any]) -> None:
        keys = self.filter_keys
        if not isinstance(keys, Sequence) or isinstance(keys, str):
            raise InvalidSpace(f"Expects `filter_keys` to be a Sequence, actual type: {type(keys)}")
        if isinstance(space, Dict):
            _check_names(keys, space)
            target: Space[Any] = Dict({key: space.spaces[key] for key in keys}, sort_keys=space.sort_keys)  # type: ignore[misc,index]
        elif isinstance(space, Tuple):
            _check_places(keys, space)
            target = Tuple(space.spaces[key] for key in keys)  # type: ignore[index]
        else:
            raise InvalidSpace(
                "FilterObservation wrapper is only usable with `Dict` and `Tuple` observations, "
                f"actual type: {type(space)}"
            )
        if not len(keys):
            raise InvalidSpace("The observation space is empty due to filtering all of the keys.")
        self._set_spaces(space, target, named=isinstance(space, Dict))

    def one(self, value: Any) -> Any:
        if not self.named:
            return tuple([value[key] for key in self.filter_keys])
        parts = {}
        for key in self.filter_keys:  # not a comprehension: before Python 3.12 that is another frame
            parts[key] = value[key]
        return parts

    def rows(self, values: Any) -> Any:
        return self.one(values)  # rows nest as members do


def _check_names(keys: Sequence[Any], space: Dict) -> None:
    if not all(isinstance(key, str) for key in keys):
        raise InvalidSpace(f"All filter keys must be strings for a Dict space, got {keys}")
    if missing := [key for key in keys if key not in space.spaces]:
        raise InvalidSpace(
            "All the `filter_keys` must be included in the observation space.\n"
            f"Filter keys: {keys}\nObservation keys: {list(space.spaces)}\nMissing keys: {missing}"
        )


def _check_places(keys: Sequence[Any], space: Tuple) -> None:
    if not all(isinstance(key, int) for key in keys):
        raise InvalidSpace(f"All filter keys must be integers for a Tuple space, got {keys}")
    length = len(space.spaces)
    if missing := [key for key in keys if not -length <= key < length]:
        raise InvalidSpace(
            "All the `filter_keys` must be included in the length of the observation space.\n"
            f"Filter keys: {keys}, length of observation: {length}, missing indexes: {missing}"
        )
    if len({key % length for key in keys}) != len(keys):
        raise InvalidSpace(f"Duplicate keys exist, filter_keys: {keys}")


class FilterObservation(TransformObservation):
    """The agent sees only the parts ``filter_keys``: keys of a Dict, places in a Tuple."""

    filter_keys: Sequence[str | int] = of_logic()

    def __init__(self, env: Env[Any, Any], filter_keys: Sequence[str | int]) -> None:
        self._use(env, Filter(filter_keys, env.observation_space))


@dataclass(frozen=True)
class Flatten(ObservationMap):
    """``spaces.flatten`` of an observation."""

    boxed: bool = field(init=False, repr=False, compare=False)  # a Box, the common case
    by_columns: bool = field(init=False, repr=False, compare=False)  # rows can be flattened all at once
    space: InitVar[Space[Any]]

    def __post_init__(self, space: Space[Any]) -> None:
        self._set_spaces(space, flatten_space(space), boxed=type(space) is Box, by_columns=_has_columns(space))

    def one(self, value: Any) -> Any:
        if self.boxed:
            return np.asarray(value, self.source.dtype).flatten()
        return flatten(self.source, value)

    def rows(self, values: Any) -> Any:
        if not self.by_columns:
            return super().rows(values)
        flat = _columns(self.source, values)
        return flat.copy() if self.boxed else flat  # as `flatten` does: the agent may write to what it sees


def _has_columns(space: Space[Any]) -> bool:
    if isinstance(space, (Dict, Tuple)):
        return bool(len(space.spaces)) and all(_has_columns(part) for part in parts(space))
    return type(space) in _WITH_COLUMNS


def _columns(space: Space[Any], rows: Any) -> Array:
    """The flat rows: [n, flatdim]."""
    if isinstance(space, Dict):
        return np.concatenate([_columns(part, rows[key]) for key, part in space.spaces.items()], axis=1)
    if isinstance(space, Tuple):
        return np.concatenate([_columns(part, rows[i]) for i, part in enumerate(space.spaces)], axis=1)
    rows = np.asarray(rows, space.dtype)
    if isinstance(space, (Box, MultiBinary)):
        return np.reshape(rows, (len(rows), math.prod(space.shape)))
    if isinstance(space, Discrete):
        return _one_hot(rows[:, None], np.array([space.start]), np.array([space.n]), space)
    assert isinstance(space, MultiDiscrete), "see _WITH_COLUMNS"
    return _one_hot(rows.reshape(len(rows), -1), space.start.reshape(-1), space.nvec.reshape(-1), space)


def _one_hot(rows: Array, start: Array, counts: Array, space: Space[Any]) -> Array:
    # In int64: for small dtypes neither the difference nor the offsets need fit.
    ends = np.cumsum(counts, dtype=np.int64)
    chosen = rows.astype(np.int64) - start.astype(np.int64) + (ends - counts)
    hot = np.zeros((len(rows), int(ends[-1])), space.dtype)
    np.put_along_axis(hot, chosen, 1, axis=1)
    return hot


class FlattenObservation(TransformObservation):
    """The agent sees one flat array; a Discrete part is one-hot in it.

    Where one array is not possible (Graph, Sequence) the structure stays and its parts are flat.
    """

    def __init__(self, env: Env[Any, Any]) -> None:
        self._use(env, Flatten(env.observation_space))


@dataclass(frozen=True)
class Reshape(ObservationMap):
    """Observations as arrays of ``shape``."""

    shape: tuple[int, ...]
    space: InitVar[Space[Any]]

    def __post_init__(self, space: Space[Any]) -> None:
        if not isinstance(space, Box):
            raise InvalidSpace(f"ReshapeObservation requires a Box observation space, got {type(space)}")
        shape = check_sides("ReshapeObservation", self.shape)
        if math.prod(shape) != math.prod(space.shape):
            raise InvalidSpace(
                "ReshapeObservation requires the product of the new shape to match the original shape: "
                f"{space.shape} has {math.prod(space.shape)} numbers, {shape} {math.prod(shape)}"
            )
        vars(self).update(shape=shape)
        self._set_spaces(space, Box(space.low.reshape(shape), space.high.reshape(shape), shape, space.dtype))

    def one(self, value: Any) -> Array:
        return np.asarray(value).reshape(self.shape)

    def rows(self, values: Array) -> Array:
        return values.reshape(len(values), *self.shape)


def check_sides(wrapper: str, shape: Any) -> tuple[int, ...]:
    """``shape`` as a tuple of positive integers, or an InvalidSpace in the name of the wrapper."""
    if not isinstance(shape, (tuple, list)):  # a list is a tuple that has been through JSON
        raise InvalidSpace(f"{wrapper} requires shape to be a tuple, got {type(shape)}")
    if not all(isinstance(side, (int, np.integer)) and not isinstance(side, bool) for side in shape):
        raise InvalidSpace(f"{wrapper} requires shape elements to be integers, got {shape}")
    if any(side < 1 for side in shape):
        raise InvalidSpace(f"{wrapper} requires shape elements to be greater than 0, got {shape}")
    return tuple(int(side) for side in shape)


class ReshapeObservation(TransformObservation):
    """Arrays of ``shape``, with as many numbers as before."""

    shape: tuple[int, ...] = of_logic()

    def __init__(self, env: Env[Any, Any], shape: int | tuple[int, ...]) -> None:
        self._use(env, Reshape(shape, env.observation_space))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Dtype(ObservationMap):
    """Observations of another ``dtype``; what does not fit is cut off as NumPy's casts do."""

    dtype: Any
    space: InitVar[Space[Any]]

    def __post_init__(self, space: Space[Any]) -> None:
        self._set_spaces(space, _with_dtype(space, self.dtype))

    def one(self, value: Any) -> Any:
        dtype = self.target.dtype
        if type(value) is np.ndarray and value.ndim:
            return value.astype(dtype)
        return dtype.type(value)  # type: ignore[union-attr]

    def rows(self, values: Array) -> Array:
        return values.astype(self.target.dtype)


def _with_dtype(space: Space[Any], dtype: Any) -> Space[Any]:
    match space:
        case Box() if np.dtype(dtype).kind == "f":
            with np.errstate(over="ignore"):  # a bound past the dtype's range becomes infinite
                return Box(space.low.astype(dtype), space.high.astype(dtype), space.shape, dtype)
        case Box():
            return Box(space.low, space.high, space.shape, dtype)
        case Discrete():
            return Box(space.start, space.start + space.n - 1, (), dtype)
        case MultiDiscrete():
            return MultiDiscrete(space.nvec, dtype=dtype, start=space.start)
        case MultiBinary():
            return Box(0, 1, space.shape, dtype)
    raise InvalidSpace(
        f"DtypeObservation requires a Box, Discrete, MultiDiscrete, or MultiBinary space, got {type(space)}"
    )


class DtypeObservation(TransformObservation):
    """Numbers of another ``dtype``; a Discrete or MultiBinary space becomes a Box."""

    dtype: Any = of_logic()

    def __init__(self, env: Env[Any, Any], dtype: Any) -> None:
        self._use(env, Dtype(dtype, env.observation_space))
