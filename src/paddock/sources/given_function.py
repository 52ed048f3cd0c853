"""``module:function`` of the user's, which makes an environment of another library, and how such a one is seeded.

Seeds of other libraries are smaller than ours: one that fits is passed as it is, so that the numbers are the library's
own for that seed; a larger one is mixed down.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from paddock.errors import InvalidId, NameNotFound
from paddock.seeding import to_seed

_SEEDS = ("seed", "random_state", "random", "rand_seed")


def given_function(id: str, library: str) -> Callable[..., Any]:
    """The function that ``module:function`` names; its module is imported now."""
    module, _, name = id.rpartition(":")
    if not module:
        raise InvalidId(f"{library}:{id} names no environment. Expected '{library}:module:function'.")
    found: Any = importlib.import_module(module)
    found = getattr(found, name, None)
    if not callable(found):
        raise NameNotFound(f"{library}:{id}: the module {module!r} has no function {name!r}.")
    return found  # type: ignore[no-any-return]


def seed_argument(function: Callable[..., Any]) -> str | None:
    """By which argument the function takes a seed, if it does."""
    try:
        known = inspect.signature(function).parameters
    except (TypeError, ValueError):  # written in C
        return None
    return next((name for name in _SEEDS if name in known), None)


def fitting(seed: Any, bits: int) -> int:
    """``seed`` if it has at most so many bits, up to 32; else a number that has, mixed of all of it."""
    value = to_seed(seed)
    if value < 1 << bits:
        return value
    return int(np.random.SeedSequence(value).generate_state(1)[0]) >> (32 - bits)
