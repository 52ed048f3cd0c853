"""Playing cards from plain shapes. A card is a rank as printed, A to K, and the first letter of its suit."""

from __future__ import annotations

from paddock.envs.drawing import palette
from paddock.envs.drawing.canvas import Canvas, Point

CARD = (84.0, 118.0)
CORNER = 8.0


def draw_card(canvas: Canvas, corner: Point, rank: str, suit: str) -> None:
    """A card face up."""
    left, top = corner
    color = palette.CORAL if suit in "DH" else palette.INK
    _draw_paper(canvas, corner, palette.WHITE)
    canvas.text(rank, (left + 17, top + 20), 32, color)
    draw_suit(canvas, (left + 17, top + 42), 6.5, suit, color)
    draw_suit(canvas, (left + CARD[0] / 2 + 6, top + CARD[1] / 2 + 12), 21, suit, color)


def draw_back(canvas: Canvas, corner: Point) -> None:
    """A card face down."""
    left, top = corner
    width, height = CARD
    _draw_paper(canvas, corner, palette.WHITE)
    canvas.box(left + 6, top + 6, width - 12, height - 12, palette.BLUE, radius=5)
    for row in range(5):
        for column in range(3):
            x, y = left + width / 2 + (column - 1) * 20, top + height / 2 + (row - 2) * 20
            canvas.polygon([(x, y - 8), (x + 8, y), (x, y + 8), (x - 8, y)], palette.lighter(palette.BLUE, 0.3))
            canvas.polygon([(x, y - 4), (x + 4, y), (x, y + 4), (x - 4, y)], palette.BLUE)


def draw_suit(canvas: Canvas, middle: Point, size: float, suit: str, color: palette.Color) -> None:
    """A suit's sign, about twice ``size`` wide."""
    x, y = middle
    if suit == "D":
        canvas.polygon([(x, y - size), (x + 0.78 * size, y), (x, y + size), (x - 0.78 * size, y)], color)
    elif suit == "H":
        for side in (-1, 1):
            canvas.circle((x + side * 0.46 * size, y - 0.36 * size), 0.5 * size, color)
        canvas.circle((x, y - 0.1 * size), 0.2 * size, color)
        canvas.polygon([(x - 0.9 * size, y - 0.12 * size), (x + 0.9 * size, y - 0.12 * size), (x, y + size)], color)
    else:
        _draw_black(canvas, middle, size, suit, color)


def _draw_black(canvas: Canvas, middle: Point, size: float, suit: str, color: palette.Color) -> None:
    x, y = middle
    if suit == "S":
        canvas.polygon([(x - 0.9 * size, y + 0.1 * size), (x + 0.9 * size, y + 0.1 * size), (x, y - size)], color)
        leaves = [(-0.46, 0.3), (0.46, 0.3)]
    else:
        leaves = [(-0.48, 0.2), (0.48, 0.2), (0.0, -0.5)]
    for across, down in leaves:
        canvas.circle((x + across * size, y + down * size), (0.5 if suit == "S" else 0.46) * size, color)
    foot = y + size
    canvas.polygon([(x - 0.4 * size, foot), (x - 0.08 * size, y), (x + 0.08 * size, y), (x + 0.4 * size, foot)], color)


def _draw_paper(canvas: Canvas, corner: Point, color: palette.Color) -> None:
    left, top = corner
    canvas.box(left - 1, top + 2, CARD[0] + 2, CARD[1], (36, 90, 74), radius=CORNER)
    canvas.box(left, top, *CARD, palette.MIST, radius=CORNER)
    canvas.box(left + 1, top + 1, CARD[0] - 2, CARD[1] - 2, color, radius=CORNER - 1)
