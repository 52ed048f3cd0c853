"""Layout: which arrays hold the state, parameters, observations and infos of n lanes.

It is read from what the author's functions return in Python, so that nobody declares a type twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, get_type_hints

import numpy as np

from paddock.errors import InvalidKernel
from paddock.spaces import Box, Discrete, Space, Tuple

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Column:
    """One array over lanes: float64[n] for a scalar, [n, *shape] for a fixed array."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Elements a lane."""
        return int(np.prod(self.shape, dtype=np.int64))

    def empty(self, lanes: int) -> Array:
        """The array for so many lanes, zeroed."""
        return np.zeros((lanes, *self.shape), dtype=self.dtype)


@dataclass(frozen=True)
class Layout:
    """All columns of a kernel. ``params`` have no lane axis: they are shared."""

    state: tuple[Column, ...]
    params: tuple[Column, ...]
    observation: tuple[Column, ...]
    info: tuple[Column, ...]
    action: Column
    scalar_observation: bool


def columns_of(record: Any, what: str) -> tuple[Column, ...]:
    """The columns that hold a NamedTuple of scalars and fixed arrays."""
    if not (isinstance(record, tuple) and hasattr(record, "_fields")):
        raise InvalidKernel(f"{what} is {record!r}; expected a NamedTuple of numbers, bools and fixed arrays.")
    declared = _hints(type(record))
    # The annotation decides, not the value: `x: float` is a float column even if an episode begins with x = 0.
    return tuple(
        Column(name, _SCALARS[declared[name]]) if declared.get(name) in _SCALARS else _column(name, value, what)
        for name, value in zip(record._fields, record, strict=True)
    )


@cache
def _hints(record: type) -> dict[str, Any]:
    return get_type_hints(record)  # 100 µs: a third of make()


_SCALARS: dict[Any, np.dtype[Any]] = {
    bool: np.dtype(np.bool_),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
}


# Narrower ones are widened when compiled and not in Python: the same sum, two results. Params may hold small integers,
# as tables do; what an info holds nobody computes with.
_WIDE = set(_SCALARS.values())
_ARRAYS = {"state": _WIDE, "params": _WIDE | {np.dtype(kind) for kind in ("i1", "i2", "i4", "u1", "u2", "u4")}}


def _column(name: str, value: Any, what: str) -> Column:
    if isinstance(value, (bool, np.bool_)):
        return Column(name, np.dtype(np.bool_))
    if isinstance(value, (int, np.integer)):
        return Column(name, np.dtype(np.int64))
    if isinstance(value, (float, np.floating)):
        return Column(name, np.dtype(np.float64))
    if isinstance(value, np.ndarray) and value.ndim:
        if value.dtype.kind not in "biuf" or value.dtype not in _ARRAYS.get(what, {value.dtype}):
            raise InvalidKernel(f"{what}.{name} is an array of {value.dtype}; expected float64, int64 or bool.")
        return Column(name, value.dtype, value.shape)
    if isinstance(value, tuple) and value and all(isinstance(item, int) for item in value):
        return Column(name, np.dtype(np.int64), (len(value),))
    raise InvalidKernel(f"{what}.{name} is {value!r}; expected a number, a bool or an array of numbers.")


def observation_columns(space: Space[Any]) -> tuple[Column, ...]:
    """One column for a Box or Discrete, one a part for a Tuple of Discretes."""
    if isinstance(space, Box):
        return (Column("observation", np.dtype(space.dtype), space.shape),)
    if isinstance(space, Discrete):
        return (Column("observation", np.dtype(space.dtype)),)
    if isinstance(space, Tuple) and all(isinstance(part, Discrete) for part in space.spaces):
        return tuple(Column(f"part{at}", np.dtype(part.dtype)) for at, part in enumerate(space.spaces))
    raise InvalidKernel(f"A kernel observes a Box, a Discrete or a Tuple of Discretes, not {space}.")


def action_column(space: Space[Any]) -> Column:
    """Discrete actions arrive as int, Box actions as a sequence of floats."""
    if isinstance(space, Discrete):
        return Column("action", np.dtype(np.int64))
    if isinstance(space, Box) and len(space.shape) == 1 and np.dtype(space.dtype).kind == "f":
        return Column("action", np.dtype(space.dtype), space.shape)
    raise InvalidKernel(f"A kernel takes a Discrete or a one-dimensional float Box as action, not {space}.")
