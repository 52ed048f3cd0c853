"""Taxi's picture: 536 x 456, seen from above. Walls and places are read from the map, which its owner may change."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from paddock.envs.drawing import palette
from paddock.envs.drawing.canvas import Backdrop, Canvas, Point, box_points, turned

WIDTH, HEIGHT = 536, 456
CELL = 84.0
LEFT, TOP = (WIDTH - 5 * CELL) / 2, (HEIGHT - 5 * CELL) / 2
PLACE_COLORS = (palette.CORAL, palette.GREEN, palette.AMBER, palette.BLUE)
# The turn, clockwise from east, of a taxi that last moved south, north, east or west.
HEADING = (math.pi / 2, -math.pi / 2, 0.0, math.pi)
RIDING = 4
ROAD: palette.Color = (120, 127, 139)

Places = tuple[tuple[int, int], ...]


def paint_taxi(
    rows: tuple[str, ...],
    places: Places,
    *,
    taxi: tuple[int, int],
    passenger: int,
    destination: int,
    heading: int,
) -> Any:
    """The town of ``rows``; ``passenger`` is the number of a place, or 4 in the taxi."""
    canvas = Canvas()
    _draw_flag(canvas, _middle(*places[destination]), PLACE_COLORS[destination % 4])
    _draw_taxi(canvas, _middle(*taxi), HEADING[heading], riding=passenger == RIDING)
    if passenger != RIDING:
        x, y = _middle(*places[passenger])
        _draw_person(canvas, (x - 22, y + 8))
    return _backdrop(rows, places).frame(canvas)


def _middle(row: int, column: int) -> Point:
    return LEFT + (column + 0.5) * CELL, TOP + (row + 0.5) * CELL


def _draw_taxi(canvas: Canvas, middle: Point, angle: float, *, riding: bool) -> None:
    def part(left: float, top: float, width: float, height: float, color: palette.Color, radius: float = 2.0) -> None:
        canvas.polygon(turned(box_points(left, top, width, height, radius), angle, middle), color)

    for left in (-24, 11):
        part(left, -22, 14, 44, palette.INK, 3)
    part(-35, -19, 70, 38, palette.SUN, 10)
    part(-35, -19, 70, 5, palette.AMBER, 2.5)
    part(-35, 14, 70, 5, palette.AMBER, 2.5)
    part(10, -14, 10, 28, palette.INK, 4)
    part(-24, -14, 7, 28, palette.INK, 3)
    part(-13, -12, 20, 24, palette.lighter(palette.SUN), 4)
    for top in (-15, 9):
        part(30.5, top, 5, 6, palette.WHITE, 2)
        part(-35.5, top, 4, 6, palette.CORAL, 2)
    if riding:
        canvas.circle(middle, 9, palette.VIOLET)
        canvas.circle(middle, 5.5, (250, 221, 192))
        return
    for at in range(3):  # the sign on the roof
        part(-7 if at % 2 else -3, -7.5 + at * 5, 4, 5, palette.INK, 0)
        part(-3 if at % 2 else -7, -7.5 + at * 5, 4, 5, palette.WHITE, 0)


def _draw_person(canvas: Canvas, middle: Point) -> None:
    x, y = middle
    canvas.ellipse((x, y + 17), 11, 4, palette.darker(ROAD))
    canvas.polygon(box_points(x - 9, y - 3, 18, 20, 8), palette.VIOLET)
    canvas.circle((x, y - 10), 8, palette.INK)
    canvas.circle((x, y - 8.5), 6.5, (250, 221, 192))


def _draw_flag(canvas: Canvas, middle: Point, color: palette.Color) -> None:
    x, y = middle[0] + 4, middle[1]
    canvas.ellipse((x, y + 27), 9, 3.5, palette.darker(color, 0.3))
    canvas.line((x, y + 27), (x, y - 26), 3.5, palette.INK)
    for across in range(3):
        for down in range(2):
            square = palette.INK if (across + down) % 2 else palette.WHITE
            canvas.box(x + 1.5 + across * 9, y - 26 + down * 9, 9, 9, square)


@lru_cache(maxsize=4)
def _backdrop(rows: tuple[str, ...], places: Places) -> Backdrop:
    canvas = Canvas()
    for x, y, radius in ((26, 70, 18), (18, 168, 14), (30, 262, 20), (22, 372, 16)):
        for tree in ((x, y), (WIDTH - x, HEIGHT - y)):
            canvas.circle((tree[0] + 2, tree[1] + 4), radius, palette.mix(palette.LEAF, palette.GREEN, 0.7))
            canvas.circle(tree, radius, palette.GREEN)
            canvas.circle(
                (tree[0] - radius / 4, tree[1] - radius / 4), radius * 0.55, palette.lighter(palette.GREEN, 0.2)
            )
    canvas.box(LEFT - 7, TOP - 7, 5 * CELL + 14, 5 * CELL + 14, palette.MIST, radius=14)
    canvas.box(LEFT, TOP, 5 * CELL, 5 * CELL, ROAD, radius=8)
    _draw_lanes(canvas)
    for number, place in enumerate(places):
        _draw_place(canvas, place, "RGYB"[number % 4], PLACE_COLORS[number % 4])
    _draw_walls(canvas, rows)
    return Backdrop((WIDTH, HEIGHT), palette.LEAF, canvas)


def _draw_lanes(canvas: Canvas) -> None:
    paint = palette.lighter(ROAD, 0.3)
    for border in range(1, 5):
        for dash in range(20):
            along = (dash + 0.28) * CELL / 4
            canvas.box(LEFT + border * CELL - 1, TOP + along, 2, CELL / 9, paint)
            canvas.box(LEFT + along, TOP + border * CELL - 1, CELL / 9, 2, paint)


def _draw_place(canvas: Canvas, place: tuple[int, int], letter: str, color: palette.Color) -> None:
    x, y = _middle(*place)
    canvas.box(x - 36, y - 36, 72, 72, color, radius=10)
    canvas.box(x - 32, y - 32, 64, 64, palette.mix(color, palette.WHITE, 0.25), radius=8)
    canvas.text(letter, (x, y + 1), 52, palette.mix(color, palette.WHITE, 0.75))


def _draw_walls(canvas: Canvas, rows: tuple[str, ...]) -> None:
    for row in range(5):
        for column in range(4):
            if rows[row + 1][2 * column + 2] != "|":
                continue
            x, y = LEFT + (column + 1) * CELL, TOP + row * CELL
            canvas.box(x - 5, y - 2, 10, CELL + 4, palette.INK, radius=5)
            canvas.box(x - 2, y + 3, 3, CELL - 6, palette.SLATE, radius=1.5)
