"""Random actions among those that an info allows. A mask that does not fit the action space is none."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.core.env import Info
from paddock.spaces import Dict, Discrete, Space


def sample_allowed(space: Space[Any], info: Info) -> Any:
    """A random action; where ``info["action_mask"]`` fits the space, one that it allows."""
    mask = fitting_mask(space, info.get("action_mask")) if isinstance(info, dict) else None
    return space.sample() if mask is None else space.sample(mask)


def fitting_mask(space: Space[Any], given: Any) -> Any:
    """``given`` as ``space.sample`` takes it, or None: for a Discrete n numbers 0 and 1, for a Dict those by key."""
    if given is None:
        return None
    if isinstance(space, Discrete):
        return _of_discrete(int(space.n), given)
    if isinstance(space, Dict) and isinstance(given, dict):
        parts = {key: fitting_mask(one, given.get(key)) for key, one in space.spaces.items()}
        return parts if any(part is not None for part in parts.values()) else None
    return None


def _of_discrete(count: int, given: Any) -> Any:
    try:
        mask = np.asarray(given)
    except ValueError:  # of rows with different lengths
        return None
    if mask.shape != (count,) or mask.dtype.kind not in "biuf":
        return None
    allowed = mask != 0
    fits = allowed.any() and (mask[allowed] == 1).all()
    return allowed.astype(np.int8) if fits else None
