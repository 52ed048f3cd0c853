"""Blackjack's picture: 384 x 376. The dealer's second card lies face down until the round is over."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from paddock.envs.drawing import palette
from paddock.envs.drawing.canvas import Backdrop, Canvas
from paddock.envs.drawing.cards import CARD, draw_back, draw_card

WIDTH, HEIGHT = 384, 376
FELT: palette.Color = (46, 112, 92)
MARGIN = 22.0
DEALER_TOP, PLAYER_TOP = 52.0, 232.0
STEP = CARD[0] + 10
TENS = ("10", "J", "Q", "K")


Card = tuple[str, str]  # rank and suit


def paint_blackjack(dealer: Sequence[int], player: Sequence[int], *, top_card: Card, over: bool) -> Any:
    """Both hands as card values, 1 for an ace and 10 for every picture; ``over`` turns the dealer's cards up.

    ``top_card`` is the picture on the dealer's first card, the only one whose suit the rules know.
    """
    canvas = Canvas()
    shown = list(dealer) if over else list(dealer[:1])
    cards = [top_card, *(_picture(value, at + 1) for at, value in enumerate(shown[1:], 1))]
    _draw_hand(canvas, cards, DEALER_TOP)
    _draw_hand(canvas, [_picture(value, at) for at, value in enumerate(player)], PLAYER_TOP)
    _draw_sum(canvas, shown, DEALER_TOP - 27)
    _draw_sum(canvas, list(player), PLAYER_TOP - 27)
    return _backdrop(face_down=len(dealer) > len(shown)).frame(canvas)


def _picture(value: int, place: int) -> Card:
    """A picture for a value. It follows from the place in the hand: drawing takes no random number."""
    rank = "A" if value == 1 else TENS[place % 4] if value == 10 else str(value)
    return rank, "SHCD"[(place + value) % 4]


def best_sum(cards: Sequence[int]) -> tuple[int, bool]:
    """The sum of a hand, and whether an ace counts 11 in it."""
    total = sum(cards)
    soft = 1 in cards and total + 10 <= 21
    return (total + 10 if soft else total), soft


def _draw_hand(canvas: Canvas, cards: list[Card], top: float) -> None:
    room = WIDTH - 2 * MARGIN - CARD[0]
    step = min(STEP, room / max(len(cards) - 1, 1))
    for at, (rank, suit) in enumerate(cards):
        draw_card(canvas, (MARGIN + at * step, top), rank, suit)


def _draw_sum(canvas: Canvas, cards: list[int], y: float) -> None:
    if not cards:
        return
    total, soft = best_sum(cards)
    color = palette.CORAL if total > 21 else palette.SUN if total == 21 else palette.PAPER
    words = f"{total} bust" if total > 21 else f"{total} soft" if soft else f"{total}"
    width = 30 + 9 * len(words)
    canvas.box(WIDTH - MARGIN - width, y - 8, width, 28, color, radius=14)
    canvas.text(words, (WIDTH - MARGIN - width / 2, y + 7), 27, palette.INK)


@lru_cache(maxsize=2)
def _backdrop(*, face_down: bool) -> Backdrop:
    canvas = Canvas()
    canvas.box(7, 7, WIDTH - 14, HEIGHT - 14, palette.lighter(FELT, 0.2), radius=22)
    canvas.box(9.5, 9.5, WIDTH - 19, HEIGHT - 19, FELT, radius=20)
    canvas.line((MARGIN, 191), (WIDTH - MARGIN, 191), 2, palette.lighter(FELT, 0.2))
    for words, y, width in (("DEALER", DEALER_TOP - 20, 38), ("PLAYER", PLAYER_TOP - 20, 37)):
        canvas.text(words, (MARGIN + width, y), 26, palette.lighter(FELT, 0.65))
    if face_down:  # the dealer's second card lies at the same place in every round
        draw_back(canvas, (MARGIN + STEP, DEALER_TOP))
    return Backdrop((WIDTH, HEIGHT), palette.darker(FELT, 0.35), canvas)
