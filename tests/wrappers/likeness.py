"""Whether what two libraries show is the same."""

import numpy as np


def alike(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, np.ndarray) and one.dtype == object:
        return all(map(alike, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return one == other


def as_text(space):
    """To compare spaces of two libraries; the keys of to_gymnasium's Dicts are in paddock's order."""
    return {key: as_text(part) for key, part in space.spaces.items()} if "Dict" in type(space).__name__ else str(space)
