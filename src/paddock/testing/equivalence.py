"""Whether two values of an environment are the same. Total: any two Python objects have an answer, none raises."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

_TOLERANCE = 1e-5


def data_equivalence(data_1: Any, data_2: Any, exact: bool = False) -> bool:
    """Whether both have the same types, structure and values, arrays within 1e-5 unless ``exact``.

    NaN is the same as NaN: the question is whether two runs gave the same, not whether the numbers are good.
    """
    try:
        return _same(data_1, data_2, exact, frozenset())
    except Exception:  # an __eq__ that raises, or nesting deeper than Python goes: not known to be the same
        return False


def _same(one: Any, other: Any, exact: bool, open_pairs: frozenset[tuple[int, int]]) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, dict | tuple | list) or (isinstance(one, np.ndarray) and one.dtype == object):
        pair = (id(one), id(other))
        # A pair met again inside itself adds nothing: it is the same if everything else is.
        return pair in open_pairs or _same_parts(one, other, exact, open_pairs | {pair})
    if isinstance(one, np.ndarray):
        return _same_arrays(one, other, exact)
    return _same_leaves(one, other)


def _same_parts(one: Any, other: Any, exact: bool, open_pairs: frozenset[tuple[int, int]]) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key], exact, open_pairs) for key in one)
    if isinstance(one, np.ndarray):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        one, other = one.flat, other.flat
    elif len(one) != len(other):
        return False
    return all(_same(*pair, exact, open_pairs) for pair in zip(one, other, strict=True))


def _same_arrays(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], exact: bool) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype.kind not in "fciub":  # text, dates, records: no tolerance, perhaps no NaN either
        return bool(np.array_equal(one, other))
    if exact:
        return bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))
    return bool(np.allclose(one, other, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True))


def _same_leaves(one: Any, other: Any) -> bool:
    if isinstance(one, float | complex | np.inexact) and one != one:
        return bool(other != other)  # NaN
    equal = one == other
    # Foreign arrays compare element by element.
    return bool(equal) if isinstance(equal, bool) else bool(np.all(np.asarray(equal)))


def own_copy(value: Any) -> Any:
    """A copy that later calls can't change; the value itself if it can't be copied."""
    try:
        return deepcopy(value)
    except Exception:
        return value
