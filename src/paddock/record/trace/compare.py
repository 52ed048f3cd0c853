"""Where two values of a trace differ first. Floats count by their bits, so -0.0 is not 0.0 and NaN is NaN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from paddock.errors import NoCanonicalForm
from paddock.record.canonical import canonical_bytes
from paddock.record.trace.number_lists import as_lists
from paddock.record.trace.values import Dropped, Outside


@dataclass(frozen=True)
class Difference:
    """``step`` 0 is the reset; ``field`` is observation, reward, terminated, truncated or info, or "error".

    ``place`` is where in it, ``[2]`` or ``.content[0].text``, and empty for the whole.
    """

    episode: int
    step: int
    field: str
    place: str
    recorded: Any
    replayed: Any

    def __str__(self) -> str:
        when = "the reset" if self.step == 0 else f"step {self.step}"
        return (
            f"episode {self.episode}, {when}: {self.field}{self.place} was {self.recorded!r:.200} "
            f"and is {self.replayed!r:.200}"
        )


def first_difference(one: Any, other: Any, place: str = "") -> tuple[str, Any, Any] | None:
    """(place, one's value there, the other's), or None if they are the same."""
    if isinstance(one, Outside) and isinstance(other, Outside):
        return first_difference(one.value, other.value, place)
    if isinstance(one, Dropped) and isinstance(other, Dropped):
        return None  # nothing is known of either
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return _of_arrays(one, other, place)
    one, other = as_lists(one), as_lists(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return _of_dicts(one, other, place)
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return f"{place}.length", len(one), len(other)
        parts = (first_difference(a, b, f"{place}[{i}]") for i, (a, b) in enumerate(zip(one, other, strict=True)))
        return next((found for found in parts if found is not None), None)
    return None if _same(one, other) else (place, one, other)


def _of_arrays(one: Any, other: Any, place: str) -> tuple[str, Any, Any] | None:
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return place, f"{one.dtype} of shape {one.shape}", f"{other.dtype} of shape {other.shape}"
    size = one.dtype.itemsize
    rows = [np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1, size) for array in (one, other)]
    unequal = np.flatnonzero((rows[0] != rows[1]).any(axis=1))
    if not len(unequal):
        return None
    at = np.unravel_index(unequal[0], one.shape) if one.shape else ()
    return place + "".join(f"[{int(index)}]" for index in at), one[at].item(), other[at].item()


def _of_dicts(one: dict[Any, Any], other: dict[Any, Any], place: str) -> tuple[str, Any, Any] | None:
    for key in {**one, **other}:
        name = f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r:.60}]"
        if key not in one or key not in other:
            return place + name, one.get(key, "nothing"), other.get(key, "nothing")
        found = first_difference(one[key], other[key], place + name)
        if found is not None:
            return found
    return None


def _same(one: Any, other: Any) -> bool:
    try:
        return canonical_bytes(one) == canonical_bytes(other)
    except NoCanonicalForm:
        return type(one) is type(other) and bool(one == other)
