"""Check a whole batch of members at once. Iterating a batch and asking for each element is the slow, general way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.spaces.box import Box
from paddock.spaces.discrete import Discrete
from paddock.spaces.space import Space


def count_members(space: Space[Any], items: Any, batched: Callable[[], Space[Any]]) -> int | None:
    """How many elements the batch ``items`` has, or None where one of them is no member of ``space``. Never raises.

    ``batched`` gives the space that ``iterate`` needs; it is asked for only when the slow way is taken.
    """
    if type(items) is np.ndarray and items.ndim:
        if len(items) == 0:
            return 0
        answer = _check_array(space, items)
        if answer is not None:
            return len(items) if answer else None
    parts = _take_apart(items, batched)
    return len(parts) if parts is not None and all(space.contains(part) for part in parts) else None


def _check_array(space: Space[Any], items: NDArray[Any]) -> bool | None:
    """The answer for an array of members, or None where there is no quick one."""
    # Exact types: a subclass may have another idea of its members.
    if type(space) is Box and items.ndim > 1:
        return items.shape[1:] == space.shape and space._within(items)
    if type(space) is Discrete and items.dtype.kind in "iu":
        return (
            items.ndim == 1
            and bool(np.can_cast(items.dtype, space.n.dtype))
            and b"\0" not in (items >= space._first).tobytes()
            and b"\0" not in (items < space._end).tobytes()
        )
    return None


def _take_apart(items: Any, batched: Callable[[], Space[Any]]) -> list[Any] | None:
    from paddock.spaces.batch import iterate

    try:
        len(items)  # an iterator would be used up by the question, or never end
        return list(iterate(batched(), items))
    except Exception:
        return None
