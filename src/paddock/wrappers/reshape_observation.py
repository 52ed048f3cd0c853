"""ReshapeObservation and DtypeObservation: the same numbers in another shape or dtype."""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.errors import InvalidSpace
from paddock.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space
from paddock.wrappers.fitted import FittedObservation
from paddock.wrappers.shown import of_logic
from paddock.wrappers.transform_observation import TransformObservation

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Reshape(FittedObservation):
    """As an array of ``shape``."""

    shape: tuple[int, ...]
    around: InitVar[Space[Any]]

    def __post_init__(self, around: Space[Any]) -> None:
        if not isinstance(around, Box):
            raise InvalidSpace(f"ReshapeObservation requires a Box observation space, got {type(around)}")
        shape = _sides(self.shape)
        if math.prod(shape) != math.prod(around.shape):
            raise InvalidSpace(
                "ReshapeObservation requires the product of the new shape to match the original shape: "
                f"{around.shape} has {math.prod(around.shape)} numbers, {shape} {math.prod(shape)}"
            )
        vars(self).update(shape=shape)
        self._fit(around, Box(around.low.reshape(shape), around.high.reshape(shape), shape, around.dtype))

    def one(self, value: Any) -> Array:
        return np.asarray(value).reshape(self.shape)

    def rows(self, values: Array) -> Array:
        return values.reshape(len(values), *self.shape)


def _sides(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, (tuple, list)):  # a list is a tuple that has been through JSON
        raise InvalidSpace(f"ReshapeObservation requires shape to be a tuple, got {type(shape)}")
    if not all(isinstance(side, (int, np.integer)) and not isinstance(side, bool) for side in shape):
        raise InvalidSpace(f"ReshapeObservation requires shape elements to be integers, got {shape}")
    if any(side < 1 for side in shape):
        raise InvalidSpace(f"ReshapeObservation requires shape elements to be greater than 0, got {shape}")
    return tuple(int(side) for side in shape)


class ReshapeObservation(TransformObservation):
    """Arrays of ``shape``, with as many numbers as before."""

    shape: tuple[int, ...] = of_logic()

    def __init__(self, env: Env[Any, Any], shape: int | tuple[int, ...]) -> None:
        self._look_through(env, Reshape(shape, env.observation_space))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Dtype(FittedObservation):
    """With another ``dtype``; what does not fit is cut off as NumPy's casts do."""

    dtype: Any
    around: InitVar[Space[Any]]

    def __post_init__(self, around: Space[Any]) -> None:
        self._fit(around, _with_dtype(around, self.dtype))

    def one(self, value: Any) -> Any:
        dtype = self.wanted.dtype
        if type(value) is np.ndarray and value.ndim:
            return value.astype(dtype)
        return dtype.type(value)  # type: ignore[union-attr]

    def rows(self, values: Array) -> Array:
        return values.astype(self.wanted.dtype)


def _with_dtype(space: Space[Any], dtype: Any) -> Space[Any]:
    match space:
        case Box() if np.dtype(dtype).kind == "f":
            with np.errstate(over="ignore"):  # a bound past the dtype's range is none
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
        self._look_through(env, Dtype(dtype, env.observation_space))
