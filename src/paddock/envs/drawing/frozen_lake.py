"""FrozenLake's picture: tiles of 64 pixels, smaller ones when the map would be wider or higher than 512."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from paddock.envs.drawing import palette
from paddock.envs.drawing.canvas import Backdrop, Canvas, Point
from paddock.envs.drawing.explorer import DOWN, LEFT, RIGHT, UP, draw_explorer, draw_fallen

TILE, LARGEST = 64, 512
FACING = {0: LEFT, 1: DOWN, 2: RIGHT, 3: UP}
WATER: palette.Color = (47, 88, 140)


def paint_frozen_lake(rows: tuple[str, ...], at: int, last_action: int | None) -> Any:
    """The lake as ``rows`` of S, F, H and G, with the explorer on tile number ``at``."""
    lake = _Lake(rows)
    row, column = divmod(at, len(rows[0]))
    facing = FACING.get(-1 if last_action is None else last_action, DOWN)
    canvas = Canvas()
    if rows[row][column] == "H":
        draw_fallen(canvas, lake.middle(row, column), lake.side, facing, WATER)
    else:
        draw_explorer(canvas, lake.middle(row, column), lake.side * 0.86, facing, palette.ICE)
    return _backdrop(rows).frame(canvas)


class _Lake:
    """Where the tiles of a map are."""

    def __init__(self, rows: tuple[str, ...]) -> None:
        self.size = min(TILE * len(rows[0]), LARGEST), min(TILE * len(rows), LARGEST)
        self.tile = self.size[0] / len(rows[0]), self.size[1] / len(rows)
        self.side = min(self.tile)

    def middle(self, row: int, column: int) -> Point:
        return (column + 0.5) * self.tile[0], (row + 0.5) * self.tile[1]


@lru_cache(maxsize=4)
def _backdrop(rows: tuple[str, ...]) -> Backdrop:
    canvas, lake = Canvas(), _Lake(rows)
    for row, letters in enumerate(rows):
        for column, letter in enumerate(letters):
            middle = lake.middle(row, column)
            _draw_ice(canvas, middle, lake.tile, shade=(row + column) % 2)
            if letter == "H":
                _draw_hole(canvas, middle, lake.side)
            elif letter == "S":
                _draw_start(canvas, middle, lake.side)
            elif letter == "G":
                _draw_gift(canvas, middle, lake.side)
    return Backdrop(lake.size, palette.mix(palette.ICE, palette.BLUE, 0.3), canvas)


def _draw_ice(canvas: Canvas, middle: Point, tile: tuple[float, float], *, shade: int) -> None:
    (x, y), (width, height) = middle, tile
    side, gap = min(tile), min(tile) * 0.02
    color = palette.mix(palette.ICE, palette.SKY, 0.45 if shade else 0.1)
    left, top = x - width / 2 + gap, y - height / 2 + gap
    canvas.box(left, top, width - 2 * gap, height - 2 * gap, color, radius=0.1 * side)
    shine = palette.lighter(color, 0.55)
    canvas.line((x - 0.34 * side, y - 0.18 * side), (x - 0.18 * side, y - 0.34 * side), 0.03 * side, shine)
    canvas.line((x + 0.2 * side, y + 0.36 * side), (x + 0.36 * side, y + 0.2 * side), 0.03 * side, shine)


def _draw_hole(canvas: Canvas, middle: Point, side: float) -> None:
    x, y = middle
    for angle in (0.3, 1.5, 2.6, 3.9, 5.2):
        end = (x + 0.46 * side * math.cos(angle), y + 0.4 * side * math.sin(angle))
        canvas.line(middle, end, 0.025 * side, palette.lighter(palette.ICE, 0.6))
    canvas.ellipse((x, y + 0.02 * side), 0.39 * side, 0.32 * side, palette.lighter(palette.ICE, 0.7))
    canvas.ellipse((x, y + 0.04 * side), 0.35 * side, 0.28 * side, palette.darker(WATER, 0.35))
    canvas.ellipse((x, y + 0.07 * side), 0.33 * side, 0.25 * side, WATER)
    canvas.line((x - 0.14 * side, y + 0.12 * side), (x + 0.02 * side, y + 0.12 * side), 0.03 * side, palette.BLUE)


def _draw_start(canvas: Canvas, middle: Point, side: float) -> None:
    x, y = middle
    canvas.box(x - 0.33 * side, y - 0.33 * side, 0.66 * side, 0.66 * side, palette.AMBER, radius=0.12 * side)
    canvas.box(
        x - 0.28 * side, y - 0.28 * side, 0.56 * side, 0.56 * side, palette.lighter(palette.SUN), radius=0.1 * side
    )


def _draw_gift(canvas: Canvas, middle: Point, side: float) -> None:
    x, y = middle
    canvas.ellipse((x, y + 0.31 * side), 0.32 * side, 0.07 * side, palette.darker(palette.ICE))
    canvas.box(x - 0.27 * side, y - 0.08 * side, 0.54 * side, 0.4 * side, palette.GREEN, radius=0.04 * side)
    canvas.box(
        x - 0.32 * side, y - 0.18 * side, 0.64 * side, 0.14 * side, palette.darker(palette.GREEN), radius=0.04 * side
    )
    canvas.box(x - 0.06 * side, y - 0.18 * side, 0.12 * side, 0.5 * side, palette.SUN)
    for turn in (-1, 1):
        loop = (x + turn * 0.11 * side, y - 0.24 * side)
        canvas.ellipse(loop, 0.11 * side, 0.075 * side, palette.SUN)
        canvas.ellipse(loop, 0.05 * side, 0.03 * side, palette.darker(palette.AMBER))
    canvas.circle((x, y - 0.21 * side), 0.05 * side, palette.AMBER)
