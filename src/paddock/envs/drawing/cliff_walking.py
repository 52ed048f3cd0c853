"""CliffWalking's picture: 12 x 4 tiles of 64 pixels. The cliff is the bottom row between start and goal."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from paddock.envs.drawing import palette
from paddock.envs.drawing.canvas import Backdrop, Canvas, Point
from paddock.envs.drawing.explorer import DOWN, LEFT, RIGHT, UP, draw_explorer

TILE = 64
FACING = {0: UP, 1: RIGHT, 2: DOWN, 3: LEFT}
ROCK: palette.Color = (112, 84, 70)
ABYSS: palette.Color = (52, 42, 46)


def paint_cliff_walking(at: int, last_action: int | None, *, rows: int = 4, columns: int = 12) -> Any:
    """The explorer on tile number ``at``."""
    row, column = divmod(at, columns)
    facing = FACING.get(-1 if last_action is None else last_action, DOWN)
    canvas = Canvas()
    draw_explorer(canvas, _middle(row, column), TILE * 0.86, facing, palette.LEAF)
    return _backdrop(rows, columns).frame(canvas)


def _middle(row: int, column: int) -> Point:
    return (column + 0.5) * TILE, (row + 0.5) * TILE


@lru_cache(maxsize=2)
def _backdrop(rows: int, columns: int) -> Backdrop:
    canvas = Canvas()
    for row in range(rows):
        for column in range(columns):
            _draw_meadow(canvas, row, column)
    _draw_cliff(canvas, (rows - 1) * TILE, TILE, (columns - 1) * TILE)
    _draw_start(canvas, _middle(rows - 1, 0))
    _draw_goal(canvas, _middle(rows - 1, columns - 1))
    return Backdrop((columns * TILE, rows * TILE), palette.LEAF, canvas)


def _draw_meadow(canvas: Canvas, row: int, column: int) -> None:
    left, top = column * TILE, row * TILE
    color = palette.mix(palette.LEAF, palette.GREEN, 0.12 if (row + column) % 2 else 0.0)
    canvas.box(left, top, TILE, TILE, color)
    blade = palette.mix(color, palette.GREEN, 0.75)
    # Scattered by the tile's number: the meadow must look the same in every frame.
    for tuft in range(2):
        number = row * 31 + column * 17 + tuft * 47
        x, y = left + 12 + number * 13 % 40, top + 16 + number * 29 % 36
        for lean in (-4, 0, 4):
            canvas.line((x, y), (x + lean, y - 7 + abs(lean) * 0.5), 1.8, blade)


def _draw_cliff(canvas: Canvas, top: float, left: float, right: float) -> None:
    canvas.box(left, top, right - left, TILE, ABYSS)
    crest = [(x, top + 24 + 7 * math.sin(x / 19) + 4 * math.sin(x / 7)) for x in range(int(left), int(right) + 1, 4)]
    canvas.polygon([(left, top), *crest, (right, top)], ROCK)
    for x in range(int(left) + 14, int(right), 46):
        depth = 8 + x % 9
        canvas.line((x, top + 13), (x + 5, top + 13 + depth), 2, palette.darker(ROCK, 0.4))
    lip = [(x, top + 7 + 2.5 * math.sin(x / 9)) for x in range(int(left), int(right) + 1, 4)]
    canvas.polygon([(left, top), *lip, (right, top)], palette.GREEN)
    for side, inward in ((left, 1), (right, -1)):
        canvas.polygon([(side, top), (side + 12 * inward, top), (side, top + TILE)], ROCK)


def _draw_start(canvas: Canvas, middle: Point) -> None:
    x, y = middle
    canvas.ellipse((x, y + 18), 24, 9, palette.EARTH)
    canvas.ellipse((x, y + 17), 20, 7, palette.lighter(palette.EARTH))


def _draw_goal(canvas: Canvas, middle: Point) -> None:
    x, y = middle
    canvas.ellipse((x, y + 22), 20, 6, palette.darker(palette.LEAF))
    canvas.line((x - 8, y + 22), (x - 8, y - 24), 3.5, palette.INK)
    canvas.polygon([(x - 6, y - 24), (x + 22, y - 14), (x - 6, y - 3)], palette.AMBER)
    canvas.polygon([(x - 6, y - 24), (x + 8, y - 19), (x - 6, y - 12)], palette.SUN)
