"""Pendulum's picture: 500 x 500. Angle 0 is upright and grows to the left, as in the dynamics; an arc is the torque."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from paddock.envs.drawing import palette
from paddock.envs.drawing.canvas import Backdrop, Canvas, Point

SIZE = 500
CENTER: Point = (SIZE / 2, SIZE / 2)
PIXELS = SIZE / 2 / 1.25  # a rod of length 1 leaves a quarter of itself as margin
DIAL = 0.42 * PIXELS


def paint_pendulum(theta: float, torque: float, *, length: float, max_torque: float) -> Any:
    """The rod at ``theta``, and an arc around the pivot for the torque that was last applied."""
    canvas = Canvas()
    tip = _at(theta, min(length, 1.15) * PIXELS)
    if abs(torque) > 1e-9 and max_torque > 0:
        _draw_torque(canvas, max(-1.0, min(1.0, torque / max_torque)))
    canvas.line(CENTER, tip, 26, palette.CORAL)
    canvas.line(CENTER, tip, 9, palette.lighter(palette.CORAL))
    canvas.circle(tip, 24, palette.darker(palette.CORAL, 0.2))
    canvas.circle(tip, 15, palette.CORAL)
    canvas.circle(CENTER, 12, palette.INK)
    canvas.circle(CENTER, 4.5, palette.PAPER)
    return _backdrop(min(length, 1.15)).frame(canvas)


def _draw_torque(canvas: Canvas, share: float) -> None:
    """From the bottom of the dial towards the side that the torque turns to, with an arrow's head."""
    sweep = share * 1.9
    angles = [math.pi + sweep * at / 24 for at in range(25)]
    outer, inner = [_at(angle, DIAL + 3.5) for angle in angles], [_at(angle, DIAL - 3.5) for angle in angles]
    canvas.polygon([*outer, *reversed(inner)], palette.TEAL)
    canvas.circle(_at(math.pi, DIAL), 3.5, palette.TEAL)
    end, ahead = math.pi + sweep, math.copysign(0.17, share)
    canvas.polygon([_at(end, DIAL + 13), _at(end + ahead, DIAL), _at(end, DIAL - 13)], palette.TEAL)


def _at(angle: float, reach: float) -> Point:
    return CENTER[0] - math.sin(angle) * reach, CENTER[1] - math.cos(angle) * reach


@lru_cache(maxsize=4)
def _backdrop(length: float) -> Backdrop:
    canvas = Canvas()
    canvas.circle(CENTER, length * PIXELS + 30, palette.mix(palette.PAPER, palette.MIST, 0.75))
    canvas.circle(CENTER, length * PIXELS - 30, palette.PAPER)
    for at in range(24):
        inner = 14 if at % 6 == 0 else 7
        angle = at * math.pi / 12
        reach = length * PIXELS
        canvas.line(_at(angle, reach - inner), _at(angle, reach + inner), 2.2, palette.STONE)
    canvas.ring(CENTER, DIAL + 1.5, 3, palette.MIST)
    x, y = _at(0.0, length * PIXELS + 40)
    canvas.polygon([(x - 9, y - 8), (x + 9, y - 8), (x, y + 6)], palette.AMBER)
    return Backdrop((SIZE, SIZE), palette.PAPER, canvas)
