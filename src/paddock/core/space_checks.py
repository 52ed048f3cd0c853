"""What can be wrong with a space as a space. Values belong to result_checks; taste (bounds, images) to testing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from paddock.core.problem import Problem
from paddock.errors import CheckFailed, WrongClass
from paddock.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from paddock.spaces.parts import parts

BoxCheck = Callable[[Box], Iterable[Problem]]


def space_problems(space: Any, kind: str, check_box: BoxCheck | None = None) -> Iterator[Problem]:
    """Problems of a space and of those inside it. ``kind`` is "observation" or "action"."""
    if not isinstance(space, Space):
        text = f"{kind} space does not inherit from `gymnasium.spaces.Space`, actual type: {type(space)}"
        yield Problem("not-a-space", f"{text}. Take one from `paddock.spaces`.", WrongClass)
        return
    if isinstance(space, Box):
        yield from box_problems(space, kind) if check_box is None else check_box(space)
    else:
        for text in _faults(space, kind):
            yield Problem("space-malformed", text, CheckFailed)
    for part in parts(space):
        yield from space_problems(part, kind, check_box)


def box_problems(box: Box, kind: str) -> Iterator[Problem]:
    """Problems of a Box's bounds."""
    for side, bounds in (("low", box.low), ("high", box.high)):
        if bounds.shape != box.shape:
            text = f"The Box {kind} space shape and {side} shape have different shapes"
            text += f", {side} shape: {bounds.shape}, box shape: {box.shape}"
            yield Problem("space-malformed", text, CheckFailed)
            return
    same = np.argwhere(box.low == box.high)
    crossed = np.argwhere(box.low > box.high)
    if len(same):
        text = f"A Box {kind} space maximum and minimum values are equal. {_at(box, same)}"
        yield Problem("box-bounds-equal", text)
    elif kind == "observation" and len(crossed):
        text = f"A Box observation space low value is greater than a high value. {_at(box, crossed)}"
        yield Problem("box-bounds-equal", text)


def _faults(space: Space[Any], kind: str) -> Iterator[str]:
    # The constructors refuse these; a space may have been changed since, or be a subclass with its own constructor.
    if isinstance(space, Discrete):
        if space.n <= 0:
            yield f"Discrete {kind} space's number of elements must be positive, actual number of elements: {space.n}"
        if space.shape != ():
            yield f"Discrete {kind} space's shape should be empty, actual shape: {space.shape}"
    elif isinstance(space, MultiDiscrete):
        if space.shape != space.nvec.shape:
            yield (
                f"Multi-discrete {kind} space's shape must be equal to the nvec shape, "
                f"space shape: {space.shape}, nvec shape: {space.nvec.shape}"
            )
        if np.any(space.nvec <= 0):
            yield (f"Multi-discrete {kind} space's all nvec elements must be greater than 0, actual nvec: {space.nvec}")
    elif isinstance(space, MultiBinary):
        if any(size <= 0 for size in space.shape):
            yield (
                f"Multi-binary {kind} space's all shape elements must be greater than 0, actual shape: {space.shape}"
            )
    elif isinstance(space, Tuple | Dict) and len(space.spaces) == 0:
        yield f"An empty {type(space).__name__} {kind} space is not allowed."


def _at(box: Box, places: np.ndarray[Any, Any]) -> str:
    place = tuple(int(i) for i in places[0])
    return f"low {box.low[place]} and high {box.high[place]} at index {place}."
