"""The picture of both MountainCars: 600 x 400. The hill is the dynamics' own curve, so the car is always on it."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from paddock.envs.drawing import palette
from paddock.envs.drawing.canvas import Backdrop, Canvas, Point, box_points, turned

WIDTH, HEIGHT = 600, 400
GROUND = 60.0
WHEEL = 8.0
AXLES = (-12.0, 12.0)


def paint_mountain_car(position: float, *, min_position: float, max_position: float, goal_position: float) -> Any:
    """The car at ``position``, upright on the slope there."""
    canvas = Canvas()
    hill = _Hill(min_position, max_position)
    x, y = hill.point(position)
    slope = math.atan2(3 * 0.45 * math.cos(3 * position), 1.0)
    place = turned([(0.0, -WHEEL)], -slope, (x, y))[0]

    def part(points: list[Point], color: palette.Color) -> None:
        canvas.polygon(turned(points, -slope, place), color)

    part(box_points(-24, -15, 48, 15, 6), palette.CORAL)
    part([(-15, -14), (-10, -26), (8, -26), (15, -14)], palette.CORAL)
    part([(-10.5, -14.5), (-7.5, -23), (-1.5, -23), (-1.5, -14.5)], palette.SKY)
    part([(1.5, -14.5), (1.5, -23), (6, -23), (10.5, -14.5)], palette.SKY)
    part(box_points(-24, -7, 48, 3, 1.5), palette.darker(palette.CORAL))
    part(box_points(19, -12, 5, 4, 2), palette.SUN)
    for axle in AXLES:
        hub = turned([(axle, 0.0)], -slope, place)[0]
        canvas.circle(hub, WHEEL, palette.INK)
        canvas.circle(hub, WHEEL * 0.4, palette.STONE)
    return _backdrop(min_position, max_position, goal_position).frame(canvas)


class _Hill:
    """Positions of the track as pixels."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.pixels = low, WIDTH / max(high - low, 1e-9)

    def point(self, position: float) -> Point:
        height = math.sin(3 * position) * 0.45 + 0.55
        # Heights stay the same whatever the ends: the valley would leave the frame when they are moved closer.
        return (position - self.low) * self.pixels, HEIGHT - GROUND - (height - 0.1) * 270


@lru_cache(maxsize=4)
def _backdrop(min_position: float, max_position: float, goal_position: float) -> Backdrop:
    canvas, hill = Canvas(), _Hill(min_position, max_position)
    canvas.circle((92, 78), 30, palette.SUN)
    canvas.circle((92, 78), 24, palette.lighter(palette.SUN))
    far = [(x, 250 - 46 * math.sin(x / 85 + 0.4) - 18 * math.sin(x / 37)) for x in range(0, WIDTH + 1, 4)]
    canvas.polygon([(0, HEIGHT), *far, (WIDTH, HEIGHT)], palette.mix(palette.SKY, palette.TEAL, 0.28))
    steps = [min_position + (max_position - min_position) * at / 150 for at in range(151)]
    ridge = [hill.point(position) for position in steps]
    canvas.polygon([(0, HEIGHT), *ridge, (WIDTH, HEIGHT)], palette.LEAF)
    deep = [(x, y + 26) for x, y in ridge]
    canvas.polygon([(0, HEIGHT), *deep, (WIDTH, HEIGHT)], palette.mix(palette.LEAF, palette.GREEN, 0.55))
    canvas.path(ridge, 4, palette.darker(palette.GREEN, 0.15))
    x, y = hill.point(goal_position)
    canvas.line((x, y), (x, y - 58), 3.5, palette.INK)
    canvas.polygon([(x + 1.5, y - 58), (x + 32, y - 48), (x + 1.5, y - 38)], palette.AMBER)
    canvas.circle((x, y - 59), 3.5, palette.INK)
    return Backdrop((WIDTH, HEIGHT), palette.SKY, canvas)
