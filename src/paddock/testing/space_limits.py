"""Matters of taste in spaces: bounds that agents cope with badly. Only check_env looks at these, the guard does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from paddock.core.problem import Problem
from paddock.spaces import Box, Space
from paddock.spaces.parts import parts

_SMALLEST_IMAGE = 8
_CHANNELS = (1, 3, 4)


def limit_problems(space: Space[Any], kind: str) -> Iterator[Problem]:
    """Problems of the bounds of every Box in the space. ``kind`` is "observation" or "action"."""
    if isinstance(space, Box):
        yield from _infinite(space, kind)
        if kind == "action" and len(space.shape) == 1 and not _normalized(space):
            text = (
                "For Box action spaces, we recommend using a symmetric and normalized space (range=[-1, 1] or [0, 1])."
            )
            yield Problem("action-not-normalized", f"{text} This one is [{space.low.min()}, {space.high.max()}].")
        if kind == "observation":
            yield from _image(space)
    for part in parts(space):
        yield from limit_problems(part, kind)


def _infinite(box: Box, kind: str) -> Iterator[Problem]:
    if np.any(box.low == -np.inf):
        text = f"A Box {kind} space minimum value is -infinity. This is probably too low."
        yield Problem("box-unbounded", f"{text} Shape {box.shape}.")
    if np.any(box.high == np.inf):
        text = f"A Box {kind} space maximum value is infinity. This is probably too high."
        yield Problem("box-unbounded", f"{text} Shape {box.shape}.")


def _normalized(box: Box) -> bool:
    symmetric = (box.low == 0) | (np.abs(box.low) == np.abs(box.high))
    return bool(np.all(symmetric) and np.all(box.low >= -1) and np.all(box.high <= 1))


def _image(box: Box) -> Iterator[Problem]:
    if len(box.shape) != 3 or box.shape[2] not in _CHANNELS or min(box.shape[:2]) < _SMALLEST_IMAGE:
        return
    lowest, highest = box.low.min(), box.high.max()
    if box.dtype == np.uint8:
        fits = lowest == 0 and highest == 255
    else:
        fits = np.issubdtype(box.dtype, np.floating) and lowest >= 0 and highest <= 1
    if not fits:
        text = f"A Box observation space of shape {box.shape} looks like an image, but is {box.dtype}"
        yield Problem("image-box", f"{text} in [{lowest}, {highest}].")
