"""The pictures of toy text: three worlds of tiles and a table with cards.

Nothing here draws a random number: what is scattered follows from the tile's place, so frames of a state are equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from paddock.envs.drawing import palette
from paddock.envs.drawing.canvas import Backdrop, Canvas, Point, box_points, rotate_points

TILE = 64
LARGEST_LAKE = 512  # pixels: tiles are smaller on a map that would be wider or higher
WATER: palette.Color = (47, 88, 140)
ROCK: palette.Color = (112, 84, 70)
ABYSS: palette.Color = (52, 42, 46)
SKIN: palette.Color = (250, 221, 192)
ROAD: palette.Color = (120, 127, 139)
FELT: palette.Color = (46, 112, 92)

# Where the explorer of the grid worlds looks: where its last action led, towards us at first.
LEFT: Point = (-1.0, 0.0)
RIGHT: Point = (1.0, 0.0)
UP: Point = (0.0, -1.0)
DOWN: Point = (0.0, 1.0)
LAKE_FACING = {0: LEFT, 1: DOWN, 2: RIGHT, 3: UP}
CLIFF_FACING = {0: UP, 1: RIGHT, 2: DOWN, 3: LEFT}

TOWN = (536, 456)
BLOCK = 84.0
TOWN_LEFT, TOWN_TOP = (TOWN[0] - 5 * BLOCK) / 2, (TOWN[1] - 5 * BLOCK) / 2
PLACE_COLORS = (palette.CORAL, palette.GREEN, palette.AMBER, palette.BLUE)
# The turn, clockwise from east, of a taxi that last moved south, north, east or west.
HEADING = (math.pi / 2, -math.pi / 2, 0.0, math.pi)
RIDING = 4
Places = tuple[tuple[int, int], ...]

CARD_TABLE = (384, 376)
CARD = (84.0, 118.0)
CORNER = 8.0
MARGIN = 22.0
DEALER_TOP, PLAYER_TOP = 52.0, 232.0
CARD_STEP = CARD[0] + 10
TENS = ("10", "J", "Q", "K")
Card = tuple[str, str]  # rank as printed, A to K, and the first letter of the suit


def paint_frozen_lake(rows: tuple[str, ...], at: int, last_action: int | None) -> Any:
    """The lake as ``rows`` of S, F, H and G, with the explorer on tile number ``at``."""
    _, (width, height) = _lake_size(rows)
    row, column = divmod(at, len(rows[0]))
    facing = LAKE_FACING.get(-1 if last_action is None else last_action, DOWN)
    x, y, side, canvas = (column + 0.5) * width, (row + 0.5) * height, min(width, height), Canvas()
    if rows[row][column] == "H":  # in the hole: only the head, in the middle of rings
        canvas.ellipse((x, y + 0.1 * side), 0.33 * side, 0.15 * side, palette.lighter(WATER, 0.3))
        canvas.ellipse((x, y + 0.1 * side), 0.28 * side, 0.12 * side, WATER)
        _draw_head(canvas, (x, y - 0.04 * side), side, facing)
        canvas.ellipse((x, y + 0.17 * side), 0.24 * side, 0.075 * side, WATER)
    else:
        _draw_explorer(canvas, (x, y), side * 0.86, facing, palette.ICE)
    return _lake(rows).frame(canvas)


def _lake_size(rows: tuple[str, ...]) -> tuple[tuple[int, int], tuple[float, float]]:
    """Width and height of a map, and of one of its tiles."""
    width, height = min(TILE * len(rows[0]), LARGEST_LAKE), min(TILE * len(rows), LARGEST_LAKE)
    return (width, height), (width / len(rows[0]), height / len(rows))


@lru_cache(maxsize=4)
def _lake(rows: tuple[str, ...]) -> Backdrop:
    canvas, (size, (width, height)) = Canvas(), _lake_size(rows)
    side = min(width, height)
    gap = side * 0.02
    for row, letters in enumerate(rows):
        for column, letter in enumerate(letters):
            x, y = (column + 0.5) * width, (row + 0.5) * height
            ice = palette.mix(palette.ICE, palette.SKY, 0.45 if (row + column) % 2 else 0.1)
            left, top = x - width / 2 + gap, y - height / 2 + gap
            canvas.box(left, top, width - 2 * gap, height - 2 * gap, ice, radius=0.1 * side)
            shine = palette.lighter(ice, 0.55)
            canvas.line((x - 0.34 * side, y - 0.18 * side), (x - 0.18 * side, y - 0.34 * side), 0.03 * side, shine)
            canvas.line((x + 0.2 * side, y + 0.36 * side), (x + 0.36 * side, y + 0.2 * side), 0.03 * side, shine)
            if letter == "H":
                for angle in (0.3, 1.5, 2.6, 3.9, 5.2):
                    end = (x + 0.46 * side * math.cos(angle), y + 0.4 * side * math.sin(angle))
                    canvas.line((x, y), end, 0.025 * side, palette.lighter(palette.ICE, 0.6))
                canvas.ellipse((x, y + 0.02 * side), 0.39 * side, 0.32 * side, palette.lighter(palette.ICE, 0.7))
                canvas.ellipse((x, y + 0.04 * side), 0.35 * side, 0.28 * side, palette.darker(WATER, 0.35))
                canvas.ellipse((x, y + 0.07 * side), 0.33 * side, 0.25 * side, WATER)
                wave = y + 0.12 * side
                canvas.line((x - 0.14 * side, wave), (x + 0.02 * side, wave), 0.03 * side, palette.BLUE)
            elif letter == "S":
                _draw_square(canvas, (x, y), 0.33 * side, palette.AMBER, 0.12 * side)
                _draw_square(canvas, (x, y), 0.28 * side, palette.lighter(palette.SUN), 0.1 * side)
            elif letter == "G":
                _draw_gift(canvas, (x, y), side)
    return Backdrop(size, palette.mix(palette.ICE, palette.BLUE, 0.3), canvas)


def _draw_square(canvas: Canvas, middle: Point, half: float, color: palette.Color, radius: float) -> None:
    canvas.box(middle[0] - half, middle[1] - half, 2 * half, 2 * half, color, radius=radius)


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


def _draw_explorer(canvas: Canvas, center: Point, size: float, facing: Point, ground: palette.Color) -> None:
    """A hooded figure in a square of ``size`` pixels, with a shadow on the ground."""
    x, y = center
    canvas.ellipse((x, y + 0.36 * size), 0.26 * size, 0.08 * size, palette.darker(ground, 0.22))
    for side in (-1, 1):
        canvas.ellipse((x + side * 0.1 * size, y + 0.35 * size), 0.085 * size, 0.05 * size, palette.INK)
    shoulders, hem = 0.14 * size, 0.23 * size
    top, bottom = y - 0.02 * size, y + 0.33 * size
    canvas.polygon([(x - shoulders, top), (x + shoulders, top), (x + hem, bottom), (x - hem, bottom)], palette.CORAL)
    canvas.ellipse((x, bottom), hem, 0.04 * size, palette.CORAL)
    canvas.box(x - 0.17 * size, y + 0.04 * size, 0.34 * size, 0.075 * size, palette.AMBER, radius=0.03 * size)
    _draw_head(canvas, (x, y - 0.12 * size), size, facing)


def _draw_head(canvas: Canvas, center: Point, size: float, facing: Point) -> None:
    x, y = center
    canvas.circle(center, 0.21 * size, palette.darker(palette.CORAL, 0.12))
    if facing == UP:  # seen from behind
        canvas.circle((x, y - 0.03 * size), 0.13 * size, palette.CORAL)
        return
    turn_x, turn_y = facing[0] * 0.05 * size, facing[1] * 0.02 * size
    canvas.ellipse((x + turn_x, y + 0.02 * size + turn_y), 0.15 * size, 0.145 * size, SKIN)
    for side in (-1, 1):
        eye = (x + 1.7 * turn_x + side * 0.06 * size, y + 0.02 * size + turn_y)
        canvas.circle(eye, 0.026 * size, palette.INK)


def paint_cliff_walking(at: int, last_action: int | None, *, rows: int = 4, columns: int = 12) -> Any:
    """The explorer on tile number ``at``. The cliff is the bottom row between start and goal."""
    row, column = divmod(at, columns)
    facing = CLIFF_FACING.get(-1 if last_action is None else last_action, DOWN)
    canvas = Canvas()
    _draw_explorer(canvas, ((column + 0.5) * TILE, (row + 0.5) * TILE), TILE * 0.86, facing, palette.LEAF)
    return _meadow(rows, columns).frame(canvas)


@lru_cache(maxsize=2)
def _meadow(rows: int, columns: int) -> Backdrop:
    canvas = Canvas()
    for row in range(rows):
        for column in range(columns):
            left, top = column * TILE, row * TILE
            color = palette.mix(palette.LEAF, palette.GREEN, 0.12 if (row + column) % 2 else 0.0)
            canvas.box(left, top, TILE, TILE, color)
            blade = palette.mix(color, palette.GREEN, 0.75)
            for tuft in range(2):
                number = row * 31 + column * 17 + tuft * 47
                x, y = left + 12 + number * 13 % 40, top + 16 + number * 29 % 36
                for lean in (-4, 0, 4):
                    canvas.line((x, y), (x + lean, y - 7 + abs(lean) * 0.5), 1.8, blade)
    top, left, right = (rows - 1) * TILE, TILE, (columns - 1) * TILE  # of the cliff
    canvas.box(left, top, right - left, TILE, ABYSS)
    crest = [(x, top + 24 + 7 * math.sin(x / 19) + 4 * math.sin(x / 7)) for x in range(left, right + 1, 4)]
    canvas.polygon([(left, top), *crest, (right, top)], ROCK)
    for x in range(left + 14, right, 46):
        canvas.line((x, top + 13), (x + 5, top + 21 + x % 9), 2, palette.darker(ROCK, 0.4))
    lip = [(x, top + 7 + 2.5 * math.sin(x / 9)) for x in range(left, right + 1, 4)]
    canvas.polygon([(left, top), *lip, (right, top)], palette.GREEN)
    for side, inward in ((left, 1), (right, -1)):
        canvas.polygon([(side, top), (side + 12 * inward, top), (side, top + TILE)], ROCK)
    middle = (rows - 0.5) * TILE
    start, goal = 0.5 * TILE, (columns - 0.5) * TILE
    canvas.ellipse((start, middle + 18), 24, 9, palette.EARTH)
    canvas.ellipse((start, middle + 17), 20, 7, palette.lighter(palette.EARTH))
    canvas.ellipse((goal, middle + 22), 20, 6, palette.darker(palette.LEAF))
    canvas.line((goal - 8, middle + 22), (goal - 8, middle - 24), 3.5, palette.INK)
    canvas.polygon([(goal - 6, middle - 24), (goal + 22, middle - 14), (goal - 6, middle - 3)], palette.AMBER)
    canvas.polygon([(goal - 6, middle - 24), (goal + 8, middle - 19), (goal - 6, middle - 12)], palette.SUN)
    return Backdrop((columns * TILE, rows * TILE), palette.LEAF, canvas)


def paint_taxi(
    rows: tuple[str, ...],
    places: Places,
    *,
    taxi: tuple[int, int],
    passenger: int,
    destination: int,
    heading: int,
) -> Any:
    """The town of ``rows`` from above; ``passenger`` is the number of a place, or 4 in the taxi.

    Walls and places are read from the map, which its owner may change.
    """
    canvas = Canvas()
    x, y = _on_map(*places[destination])
    x += 4  # the flag
    canvas.ellipse((x, y + 27), 9, 3.5, palette.darker(PLACE_COLORS[destination % 4], 0.3))
    canvas.line((x, y + 27), (x, y - 26), 3.5, palette.INK)
    for across in range(3):
        for down in range(2):
            square = palette.INK if (across + down) % 2 else palette.WHITE
            canvas.box(x + 1.5 + across * 9, y - 26 + down * 9, 9, 9, square)
    _draw_taxi(canvas, _on_map(*taxi), HEADING[heading], riding=passenger == RIDING)
    if passenger != RIDING:
        x, y = _on_map(*places[passenger])
        x, y = x - 22, y + 8
        canvas.ellipse((x, y + 17), 11, 4, palette.darker(ROAD))
        canvas.polygon(box_points(x - 9, y - 3, 18, 20, 8), palette.VIOLET)
        canvas.circle((x, y - 10), 8, palette.INK)
        canvas.circle((x, y - 8.5), 6.5, SKIN)
    return _town(rows, places).frame(canvas)


def _on_map(row: int, column: int) -> Point:
    return TOWN_LEFT + (column + 0.5) * BLOCK, TOWN_TOP + (row + 0.5) * BLOCK


def _draw_taxi(canvas: Canvas, middle: Point, angle: float, *, riding: bool) -> None:
    def part(left: float, top: float, width: float, height: float, color: palette.Color, radius: float = 2.0) -> None:
        canvas.polygon(rotate_points(box_points(left, top, width, height, radius), angle, middle), color)

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
        canvas.circle(middle, 5.5, SKIN)
        return
    for at in range(3):  # the sign on the roof
        part(-7 if at % 2 else -3, -7.5 + at * 5, 4, 5, palette.INK, 0)
        part(-3 if at % 2 else -7, -7.5 + at * 5, 4, 5, palette.WHITE, 0)


@lru_cache(maxsize=4)
def _town(rows: tuple[str, ...], places: Places) -> Backdrop:
    canvas = Canvas()
    for x, y, radius in ((26, 70, 18), (18, 168, 14), (30, 262, 20), (22, 372, 16)):
        for tree in ((x, y), (TOWN[0] - x, TOWN[1] - y)):
            canvas.circle((tree[0] + 2, tree[1] + 4), radius, palette.mix(palette.LEAF, palette.GREEN, 0.7))
            canvas.circle(tree, radius, palette.GREEN)
            canvas.circle(
                (tree[0] - radius / 4, tree[1] - radius / 4), radius * 0.55, palette.lighter(palette.GREEN, 0.2)
            )
    canvas.box(TOWN_LEFT - 7, TOWN_TOP - 7, 5 * BLOCK + 14, 5 * BLOCK + 14, palette.MIST, radius=14)
    canvas.box(TOWN_LEFT, TOWN_TOP, 5 * BLOCK, 5 * BLOCK, ROAD, radius=8)
    paint = palette.lighter(ROAD, 0.3)
    for border in range(1, 5):
        for dash in range(20):
            along = (dash + 0.28) * BLOCK / 4
            canvas.box(TOWN_LEFT + border * BLOCK - 1, TOWN_TOP + along, 2, BLOCK / 9, paint)
            canvas.box(TOWN_LEFT + along, TOWN_TOP + border * BLOCK - 1, BLOCK / 9, 2, paint)
    for number, place in enumerate(places):
        middle, color = _on_map(*place), PLACE_COLORS[number % 4]
        _draw_square(canvas, middle, 36, color, 10)
        _draw_square(canvas, middle, 32, palette.mix(color, palette.WHITE, 0.25), 8)
        canvas.text("RGYB"[number % 4], (middle[0], middle[1] + 1), 52, palette.mix(color, palette.WHITE, 0.75))
    for row in range(5):
        for column in range(4):
            if rows[row + 1][2 * column + 2] == "|":
                left, top = TOWN_LEFT + (column + 1) * BLOCK, TOWN_TOP + row * BLOCK
                canvas.box(left - 5, top - 2, 10, BLOCK + 4, palette.INK, radius=5)
                canvas.box(left - 2, top + 3, 3, BLOCK - 6, palette.SLATE, radius=1.5)
    return Backdrop(TOWN, palette.LEAF, canvas)


def paint_blackjack(dealer: Sequence[int], player: Sequence[int], *, top_card: Card, over: bool) -> Any:
    """Both hands as card values, 1 for an ace and 10 for every picture; ``over`` turns the dealer's cards up.

    ``top_card`` is the picture on the dealer's first card, the only one whose suit the rules know.
    """
    canvas = Canvas()
    open_cards = list(dealer) if over else list(dealer[:1])
    cards = [top_card, *(_picture(value, at + 1) for at, value in enumerate(open_cards[1:], 1))]
    _draw_hand(canvas, cards, DEALER_TOP)
    _draw_hand(canvas, [_picture(value, at) for at, value in enumerate(player)], PLAYER_TOP)
    _draw_sum(canvas, open_cards, DEALER_TOP - 27)
    _draw_sum(canvas, list(player), PLAYER_TOP - 27)
    return _card_table(face_down=len(dealer) > len(open_cards)).frame(canvas)


def _picture(value: int, place: int) -> Card:
    """A picture for a value. It follows from the place in the hand."""
    rank = "A" if value == 1 else TENS[place % 4] if value == 10 else str(value)
    return rank, "SHCD"[(place + value) % 4]


def _draw_hand(canvas: Canvas, cards: list[Card], top: float) -> None:
    room = CARD_TABLE[0] - 2 * MARGIN - CARD[0]
    step = min(CARD_STEP, room / max(len(cards) - 1, 1))
    for at, (rank, suit) in enumerate(cards):
        left = MARGIN + at * step
        color = palette.CORAL if suit in "DH" else palette.INK
        _draw_paper(canvas, (left, top))
        canvas.text(rank, (left + 17, top + 20), 32, color)
        _draw_suit(canvas, (left + 17, top + 42), 6.5, suit, color)
        _draw_suit(canvas, (left + CARD[0] / 2 + 6, top + CARD[1] / 2 + 12), 21, suit, color)


def _draw_sum(canvas: Canvas, cards: list[int], y: float) -> None:
    if not cards:
        return
    total = sum(cards)
    soft = 1 in cards and total + 10 <= 21  # an ace counts 11
    total = total + 10 if soft else total
    color = palette.CORAL if total > 21 else palette.SUN if total == 21 else palette.PAPER
    words = f"{total} bust" if total > 21 else f"{total} soft" if soft else f"{total}"
    width, right = 30 + 9 * len(words), CARD_TABLE[0] - MARGIN
    canvas.box(right - width, y - 8, width, 28, color, radius=14)
    canvas.text(words, (right - width / 2, y + 7), 27, palette.INK)


def _draw_suit(canvas: Canvas, middle: Point, size: float, suit: str, color: palette.Color) -> None:
    """A suit's sign, about twice ``size`` wide."""
    x, y = middle
    if suit == "D":
        canvas.polygon([(x, y - size), (x + 0.78 * size, y), (x, y + size), (x - 0.78 * size, y)], color)
        return
    if suit == "H":
        for side in (-1, 1):
            canvas.circle((x + side * 0.46 * size, y - 0.36 * size), 0.5 * size, color)
        canvas.circle((x, y - 0.1 * size), 0.2 * size, color)
        canvas.polygon([(x - 0.9 * size, y - 0.12 * size), (x + 0.9 * size, y - 0.12 * size), (x, y + size)], color)
        return
    if suit == "S":
        canvas.polygon([(x - 0.9 * size, y + 0.1 * size), (x + 0.9 * size, y + 0.1 * size), (x, y - size)], color)
        leaves, radius = [(-0.46, 0.3), (0.46, 0.3)], 0.5
    else:
        leaves, radius = [(-0.48, 0.2), (0.48, 0.2), (0.0, -0.5)], 0.46
    for across, down in leaves:
        canvas.circle((x + across * size, y + down * size), radius * size, color)
    foot = y + size
    canvas.polygon([(x - 0.4 * size, foot), (x - 0.08 * size, y), (x + 0.08 * size, y), (x + 0.4 * size, foot)], color)


def _draw_paper(canvas: Canvas, corner: Point) -> None:
    left, top = corner
    canvas.box(left - 1, top + 2, CARD[0] + 2, CARD[1], (36, 90, 74), radius=CORNER)
    canvas.box(left, top, *CARD, palette.MIST, radius=CORNER)
    canvas.box(left + 1, top + 1, CARD[0] - 2, CARD[1] - 2, palette.WHITE, radius=CORNER - 1)


@lru_cache(maxsize=2)
def _card_table(*, face_down: bool) -> Backdrop:
    canvas, (width, height) = Canvas(), CARD_TABLE
    canvas.box(7, 7, width - 14, height - 14, palette.lighter(FELT, 0.2), radius=22)
    canvas.box(9.5, 9.5, width - 19, height - 19, FELT, radius=20)
    canvas.line((MARGIN, 191), (width - MARGIN, 191), 2, palette.lighter(FELT, 0.2))
    for words, y, half in (("DEALER", DEALER_TOP - 20, 38), ("PLAYER", PLAYER_TOP - 20, 37)):
        canvas.text(words, (MARGIN + half, y), 26, palette.lighter(FELT, 0.65))
    if face_down:  # the dealer's second card lies at the same place in every round
        left, top = MARGIN + CARD_STEP, DEALER_TOP
        _draw_paper(canvas, (left, top))
        canvas.box(left + 6, top + 6, CARD[0] - 12, CARD[1] - 12, palette.BLUE, radius=5)
        for row in range(5):
            for column in range(3):
                x, y = left + CARD[0] / 2 + (column - 1) * 20, top + CARD[1] / 2 + (row - 2) * 20
                canvas.polygon([(x, y - 8), (x + 8, y), (x, y + 8), (x - 8, y)], palette.lighter(palette.BLUE, 0.3))
                canvas.polygon([(x, y - 4), (x + 4, y), (x, y + 4), (x - 4, y)], palette.BLUE)
    return Backdrop(CARD_TABLE, palette.darker(FELT, 0.35), canvas)
