"""CartPole's picture: 600 x 400. The track's ends stand inside the frame, so that a cart that leaves it is seen to."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from paddock.envs.drawing import palette
from paddock.envs.drawing.canvas import Backdrop, Canvas, box_points, turned

WIDTH, HEIGHT = 600, 400
RAIL = 300.0
MARGIN = 45.0
CART = (64.0, 34.0)
WHEEL = 8.0


def paint_cartpole(x: float, theta: float, *, x_threshold: float, theta_threshold: float, length: float) -> Any:
    """The cart at ``x`` with its pole at ``theta``, clockwise from upright; ``length`` is half of the pole's."""
    pixels = (WIDTH / 2 - MARGIN) / x_threshold
    middle = WIDTH / 2 + x * pixels
    canvas = Canvas()
    _draw_cart(canvas, middle)
    pivot = (middle, RAIL - WHEEL - CART[1] + 6)
    for limit in (-theta_threshold, theta_threshold):
        canvas.line(_tip(pivot, limit, 30), _tip(pivot, limit, length * 2 * pixels), 1.4, palette.MIST)
    tip = _tip(pivot, theta, length * 2 * pixels)
    canvas.line(pivot, tip, 11, palette.AMBER)
    canvas.line(pivot, tip, 4, palette.SUN)
    canvas.circle(pivot, 7.5, palette.INK)
    canvas.circle(pivot, 3, palette.PAPER)
    return _backdrop(x_threshold).frame(canvas)


def _draw_cart(canvas: Canvas, middle: float) -> None:
    width, height = CART
    top = RAIL - WHEEL - height
    canvas.box(middle - width / 2, top, width, height, palette.BLUE, radius=7)
    canvas.polygon(turned(box_points(-width / 2 + 6, 22, width - 12, 5, 2.5), 0, (middle, top)), palette.DEEP)
    for side in (-0.28, 0.28):
        hub = (middle + side * width, RAIL - WHEEL)
        canvas.circle(hub, WHEEL, palette.INK)
        canvas.circle(hub, WHEEL * 0.4, palette.STONE)


def _tip(pivot: tuple[float, float], angle: float, reach: float) -> tuple[float, float]:
    return pivot[0] + math.sin(angle) * reach, pivot[1] - math.cos(angle) * reach


@lru_cache(maxsize=4)
def _backdrop(x_threshold: float) -> Backdrop:
    canvas = Canvas()
    canvas.box(0, RAIL + 6, WIDTH, HEIGHT - RAIL, palette.mix(palette.PAPER, palette.MIST, 0.8))
    canvas.box(0, RAIL, WIDTH, 6, palette.STONE)
    pixels = (WIDTH / 2 - MARGIN) / x_threshold
    # A mark at each whole unit while they can be told apart.
    reach = min(int(x_threshold), 20)
    for unit in range(-reach, reach + 1):
        place = WIDTH / 2 + unit * pixels
        canvas.line((place, RAIL + 20), (place, RAIL + (38 if unit == 0 else 30)), 2, palette.STONE)
    for side in (-1, 1):
        place = WIDTH / 2 + side * (WIDTH / 2 - MARGIN)
        canvas.box(place - 3, RAIL - 26, 6, 26, palette.CORAL, radius=3)
    return Backdrop((WIDTH, HEIGHT), palette.PAPER, canvas)
