"""Random streams: PCG64 through SeedSequence, the same bits as Gymnasium's for the same seed."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from paddock.errors import InvalidSeed

__all__ = ["RNG", "RandomNumberGenerator", "derived_seed", "np_random", "to_seed"]

if TYPE_CHECKING:
    RNG = RandomNumberGenerator = np.random.Generator
else:

    def __getattr__(name: str) -> Any:
        # np.random loads OpenSSL with `secrets`: 15 ms that an import of paddock need not wait for.
        if name in ("RNG", "RandomNumberGenerator"):
            return np.random.Generator
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def np_random(seed: int | None = None) -> tuple[np.random.Generator, int]:
    """A generator and the seed that made it; without a seed, one from the operating system's entropy."""
    sequence = np.random.SeedSequence(None if seed is None else to_seed(seed))
    return np.random.Generator(np.random.PCG64(sequence)), sequence.entropy  # type: ignore[return-value]


def to_seed(seed: Any) -> int:
    """``seed`` as a Python integer. NumPy integers are welcome, floats and negative numbers are not."""
    try:
        value = operator.index(seed)
    except TypeError:
        raise InvalidSeed(f"Seed must be a python integer, actual type: {type(seed)}") from None
    if value < 0:
        raise InvalidSeed(f"Seed must be greater or equal to zero, actual value: {value}")
    return value


def derived_seed(seed: int, count: int) -> int:
    """The ``count``-th seed after ``seed`` for the same purpose: the same everywhere, and unlike seed + count."""
    words = np.random.SeedSequence(to_seed(seed), spawn_key=(count,)).generate_state(1, np.uint64)
    return int(words[0]) >> 1  # 63 bits: a seed fits a signed integer on any wire
