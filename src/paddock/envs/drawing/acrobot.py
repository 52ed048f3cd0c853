"""Acrobot's picture: 500 x 500. Both angles are 0 when the links hang down; the second counts from the first link."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from paddock.envs.drawing import palette
from paddock.envs.drawing.canvas import Backdrop, Canvas, Point

SIZE = 500
PIVOT: Point = (SIZE / 2, SIZE / 2)


def paint_acrobot(theta1: float, theta2: float, *, length_1: float, length_2: float) -> Any:
    """Two links from the pivot, and the line that the free end must rise above."""
    pixels = _pixels(length_1, length_2)
    elbow = _below(PIVOT, theta1, length_1 * pixels)
    tip = _below(elbow, theta1 + theta2, length_2 * pixels)
    canvas = Canvas()
    for start, end, color in ((PIVOT, elbow, palette.TEAL), (elbow, tip, palette.CORAL)):
        canvas.line(start, end, 20, color)
        canvas.line(start, end, 7, palette.lighter(color))
    for joint, radius in ((PIVOT, 12.0), (elbow, 11.0)):
        canvas.circle(joint, radius, palette.INK)
        canvas.circle(joint, radius * 0.4, palette.PAPER)
    canvas.circle(tip, 11, palette.AMBER)
    canvas.circle(tip, 5, palette.lighter(palette.AMBER))
    return _backdrop(length_1, length_2).frame(canvas)


def _pixels(length_1: float, length_2: float) -> float:
    return SIZE / 2 / max(length_1 + length_2 + 0.2, 1e-9)


def _below(start: Point, angle: float, reach: float) -> Point:
    return start[0] + math.sin(angle) * reach, start[1] + math.cos(angle) * reach


@lru_cache(maxsize=4)
def _backdrop(length_1: float, length_2: float) -> Backdrop:
    canvas, pixels = Canvas(), _pixels(length_1, length_2)
    height = PIVOT[1] - pixels  # the dynamics ask for a height of 1, whatever the links are
    canvas.box(0, 0, SIZE, height, palette.mix(palette.PAPER, palette.LEAF, 0.3))
    for start in range(6, SIZE, 22):
        canvas.line((start, height), (start + 10, height), 3, palette.GREEN)
    canvas.ring(PIVOT, (length_1 + length_2) * pixels, 1.5, palette.MIST)
    canvas.box(PIVOT[0] - 4, PIVOT[1], 8, SIZE, palette.MIST)
    canvas.box(PIVOT[0] - 60, SIZE - 14, 120, 14, palette.MIST, radius=6)
    return Backdrop((SIZE, SIZE), palette.PAPER, canvas)
