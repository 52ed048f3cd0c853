"""Whether two results share memory. Sharing is judged by identity, so it shows even while the values are equal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from paddock.core.problem import Problem


def shares_objects(one: Any, other: Any) -> bool:
    """Whether changing one changes the other: the same dict or array, or memory in common, at the same place.

    Values that can't change are often the same object and don't count, and neither do objects of unknown types.
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one is other or any(shares_objects(one[key], other[key]) for key in one.keys() & other.keys())
    if isinstance(one, tuple):
        return any(shares_objects(*pair) for pair in zip(one, other, strict=False))
    if isinstance(one, np.ndarray):
        if one.dtype == object:
            return one is other or any(shares_objects(*pair) for pair in zip(one.flat, other.flat, strict=False))
        # may_share_memory first: it is cheap, and the exact answer can take exponential time for odd strides.
        return bool(np.may_share_memory(one, other) and np.shares_memory(one, other))
    return False


def reuse_problems(
    previous: tuple[Any, Any], current: tuple[Any, Any], previous_source: str, source: str, *, adjacent: bool = True
) -> Iterator[Problem]:
    """Problems of two (observation, info) that an environment returned, one right after the other if ``adjacent``."""
    then = "the following " if adjacent else ""
    for name, one, other in zip(("observations", "infos"), previous, current, strict=True):
        if shares_objects(one, other):
            yield Problem(
                "data-reused",
                f"The {name} returned by `{previous_source}` and {then}`{source}` share an object, therefore, "
                f"modifying one will modify the other. Return new data on every call: users keep what they got.",
            )
