"""Layout: which arrays hold the state, parameters, observations and infos of n lanes, and which values fit them.

It is read from what the author's functions return in Python, so that nobody declares a type twice. Python would take an
int for a float, keep a float32, or share one array between lanes, without a word; compiled code has one type per field.
So the first steps of every environment are checked against the declared types.
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
        """Elements per lane."""
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


_SCALARS: dict[Any, np.dtype[Any]] = {bool: np.dtype(np.bool_), int: np.dtype(np.int64), float: np.dtype(np.float64)}
# Narrower arrays are widened when compiled and not in Python: the same sum, two results. Params may hold small
# integers, as tables do; nobody computes with what an info holds.
_WIDE = set(_SCALARS.values())
_ARRAYS = {"state": _WIDE, "params": _WIDE | {np.dtype(kind) for kind in ("i1", "i2", "i4", "u1", "u2", "u4")}}


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
    return get_type_hints(record)  # cached: 100 µs, a third of make()


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
    """One column for a Box or Discrete, one per part for a Tuple of Discretes."""
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


_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "f": ("float", (float, np.float64)),
    "i": ("int", (int, np.int64)),
    "b": ("bool", (bool, np.bool_)),
}


def check_state(state: Any, columns: tuple[Column, ...], function: Any) -> None:
    """Refuse a state whose fields are not of the types that its record declares."""
    for column, value in zip(columns, state, strict=True):
        if column.shape:
            fits = isinstance(value, np.ndarray) and (value.dtype, value.shape) == (column.dtype, column.shape)
            expected = f"an array {column.dtype}{list(column.shape)}"
        else:
            expected, types = _KINDS[column.dtype.kind]
            fits = type(value) in types
        if not fits:
            raise InvalidKernel(
                f"{_place(function)} returned {column.name}={value!r}, a {type(value).__name__}; the state declares "
                f"{expected}. Compiled lanes would change it: return {_advice(column, value)}."
            )


def check_step(result: Any, layout: Layout, state_type: type, function: Any) -> None:
    """Refuse what is not (state, reward, terminated)."""
    if not isinstance(result, tuple) or len(result) != 3 or not isinstance(result[0], state_type):
        text = repr(result)
        raise InvalidKernel(
            f"{_place(function)} returned {text if len(text) <= 80 else text[:77] + '...'}; expected (state, reward, "
            f"terminated) with a {state_type.__name__}. For truncation and info see max_episode_steps and info()."
        )
    state, reward, terminated = result
    check_state(state, layout.state, function)
    if type(reward) not in (float, int, np.float64, np.int64, bool, np.bool_):
        raise InvalidKernel(f"{_place(function)} returned the reward {reward!r}; expected a float.")
    if type(terminated) not in (bool, np.bool_):
        raise InvalidKernel(f"{_place(function)} returned terminated={terminated!r}; expected True or False.")


def check_observation(observation: Any, columns: tuple[Column, ...], function: Any) -> None:
    """Refuse an observation with more or fewer numbers than the observation space has."""
    expected = columns[0].size if columns[0].shape else len(columns)
    count = len(observation) if isinstance(observation, tuple) else 1
    if count != expected:
        raise InvalidKernel(f"{_place(function)} returned {count} numbers; the observation space has {expected}.")


def check_own_arrays(one: Any, other: Any, function: Any) -> None:
    """Refuse an ``initial`` that gives two episodes one array: lanes write into theirs."""
    for name, mine, yours in zip(one._fields, one, other, strict=True):
        if isinstance(mine, np.ndarray) and np.shares_memory(mine, yours):
            raise InvalidKernel(f"{_place(function)} returned the same array {name} twice; make a new one each time.")


def _place(function: Any) -> str:
    code = getattr(function, "__code__", None)
    where = "" if code is None else f"{code.co_filename}:{code.co_firstlineno}: "
    return f"{where}{getattr(function, '__name__', 'function')}()"


def _advice(column: Column, value: Any) -> str:
    if column.shape or column.dtype.kind == "b":
        return "that"
    if column.dtype.kind == "f" and isinstance(value, int):
        return f"{value}.0, or float(…)"
    return f"{_KINDS[column.dtype.kind][0]}(…), or declare another type"
