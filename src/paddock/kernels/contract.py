"""What a kernel's functions must return, so that plain Python and machine code can't come to different numbers.

Python would take an int for a float, keep a float32, or share one array between lanes, without a word; compiled code
has one type for each field. So the first steps of every environment are held against the declared types.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.errors import InvalidKernel
from paddock.kernels.layout import Column, Layout

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
            wanted = f"an array {column.dtype}{list(column.shape)}"
        else:
            wanted, types = _KINDS[column.dtype.kind]
            fits = type(value) in types
        if not fits:
            raise InvalidKernel(
                f"{_place(function)} returned {column.name}={value!r}, a {type(value).__name__}; the state declares "
                f"{wanted}. Compiled lanes would change it: return {_advice(column, value)}."
            )


def check_step(result: Any, layout: Layout, state_type: type, function: Any) -> None:
    """Refuse what is not (state, reward, terminated)."""
    if not isinstance(result, tuple) or len(result) != 3 or not isinstance(result[0], state_type):
        raise InvalidKernel(
            f"{_place(function)} returned {_brief(result)}; expected (state, reward, terminated) with a "
            f"{state_type.__name__}. Truncation and info are not its business: see max_episode_steps and info()."
        )
    state, reward, terminated = result
    check_state(state, layout.state, function)
    if type(reward) not in (float, int, np.float64, np.int64, bool, np.bool_):
        raise InvalidKernel(f"{_place(function)} returned the reward {reward!r}; expected a float.")
    if type(terminated) not in (bool, np.bool_):
        raise InvalidKernel(f"{_place(function)} returned terminated={terminated!r}; expected True or False.")


def check_observed(seen: Any, columns: tuple[Column, ...], function: Any) -> None:
    """Refuse an observation with more or fewer numbers than the observation space has."""
    wanted = columns[0].size if columns[0].shape else len(columns)
    count = len(seen) if isinstance(seen, tuple) else 1
    if count != wanted:
        raise InvalidKernel(f"{_place(function)} returned {count} numbers; the observation space has {wanted}.")


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


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
