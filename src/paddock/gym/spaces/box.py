"""``gymnasium.spaces.box``."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.spaces.box import Box

__all__ = ["Box", "array_short_repr", "is_float_integer"]


def array_short_repr(arr: np.ndarray[Any, Any]) -> str:
    """An array as text: one number if all its elements are equal."""
    return str(arr.flat[0]) if arr.size and (arr == arr.flat[0]).all() else str(arr)


def is_float_integer(var: object) -> bool:
    """Whether a value is a float, or an integer of any kind but bool."""
    return np.issubdtype(type(var), np.integer) or np.issubdtype(type(var), np.floating)
