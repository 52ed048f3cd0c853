"""The explorer: the one who walks through the grid worlds. It looks where its last action led, towards us at first."""

from __future__ import annotations

from paddock.envs.drawing import palette
from paddock.envs.drawing.canvas import Canvas, Point

LEFT: Point = (-1.0, 0.0)
RIGHT: Point = (1.0, 0.0)
UP: Point = (0.0, -1.0)
DOWN: Point = (0.0, 1.0)


def draw_explorer(canvas: Canvas, center: Point, size: float, facing: Point, ground: palette.Color) -> None:
    """A hooded figure in a square of ``size`` pixels, with a shadow on the ground."""
    x, y = center
    canvas.ellipse((x, y + 0.36 * size), 0.26 * size, 0.08 * size, palette.darker(ground, 0.22))
    _draw_coat(canvas, center, size)
    _draw_head(canvas, (x, y - 0.12 * size), size, facing)


def draw_fallen(canvas: Canvas, center: Point, size: float, facing: Point, pit: palette.Color) -> None:
    """Only the head, in the middle of rings: whoever fell in a hole."""
    x, y = center
    canvas.ellipse((x, y + 0.1 * size), 0.33 * size, 0.15 * size, palette.lighter(pit, 0.3))
    canvas.ellipse((x, y + 0.1 * size), 0.28 * size, 0.12 * size, pit)
    _draw_head(canvas, (x, y - 0.04 * size), size, facing)
    canvas.ellipse((x, y + 0.17 * size), 0.24 * size, 0.075 * size, pit)


def _draw_coat(canvas: Canvas, center: Point, size: float) -> None:
    x, y = center
    for side in (-1, 1):
        canvas.ellipse((x + side * 0.1 * size, y + 0.35 * size), 0.085 * size, 0.05 * size, palette.INK)
    shoulders, hem = 0.14 * size, 0.23 * size
    top, bottom = y - 0.02 * size, y + 0.33 * size
    canvas.polygon([(x - shoulders, top), (x + shoulders, top), (x + hem, bottom), (x - hem, bottom)], palette.CORAL)
    canvas.ellipse((x, bottom), hem, 0.04 * size, palette.CORAL)
    canvas.box(x - 0.17 * size, y + 0.04 * size, 0.34 * size, 0.075 * size, palette.AMBER, radius=0.03 * size)


def _draw_head(canvas: Canvas, center: Point, size: float, facing: Point) -> None:
    x, y = center
    canvas.circle(center, 0.21 * size, palette.darker(palette.CORAL, 0.12))
    if facing == UP:  # seen from behind
        canvas.circle((x, y - 0.03 * size), 0.13 * size, palette.CORAL)
        return
    turn_x, turn_y = facing[0] * 0.05 * size, facing[1] * 0.02 * size
    canvas.ellipse((x + turn_x, y + 0.02 * size + turn_y), 0.15 * size, 0.145 * size, (250, 221, 192))
    for side in (-1, 1):
        eye = (x + 1.7 * turn_x + side * 0.06 * size, y + 0.02 * size + turn_y)
        canvas.circle(eye, 0.026 * size, palette.INK)
