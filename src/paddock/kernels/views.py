"""What a kernel's numbers look like to an agent: arrays, ints or tuples, as the observation space says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from paddock.spaces import Box, Discrete, Space


def observation_maker(space: Space[Any]) -> Callable[[Any], Any]:
    """A function that turns what ``observe`` returned into a member of the space."""
    if isinstance(space, Discrete):
        return int
    if isinstance(space, Box):
        dtype, shape, array = np.dtype(space.dtype), space.shape, np.array
        if len(shape) == 1 and shape[0] > 1:
            return lambda seen: array(seen, dtype)  # by position: as a keyword the dtype costs 140 ns more
        return lambda seen: array(seen, dtype).reshape(shape)  # also for one number that is no tuple
    return tuple


def told(record: Any, dtypes: dict[str, Any]) -> dict[str, Any]:
    """An info NamedTuple as the dict of a single environment; tuples become arrays."""
    return {
        name: np.array(value, dtypes.get(name)) if isinstance(value, tuple) else value
        for name, value in zip(record._fields, record, strict=True)
    }
