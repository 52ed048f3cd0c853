"""A hand of cards in five numbers, two of which hold the cards, four bits each: compiled lanes can hold no list.

Cards are worth 1 (ace) to 10. A hand in play has at most 22; one of ``MOST``, bust long ago, takes no more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from paddock.errors import InvalidKernel

_A_WORD = 15  # cards in one integer of 64 bits, whose sign bit stays free
MOST = 2 * _A_WORD

# Sum with aces as 1; whether there is an ace; how many cards; the first 15, first card lowest; the next 15. A plain
# tuple, not a NamedTuple: each card makes a new one, and Python makes plain ones several times faster.
Hand: TypeAlias = tuple[int, bool, int, int, int]
EMPTY: Hand = (0, False, 0, 0, 0)


def with_card(hand: Hand, card: int) -> Hand:
    total, ace, count, cards, more = hand
    if count < _A_WORD:
        cards |= card << (4 * count)
    elif count < MOST:
        more |= card << (4 * (count - _A_WORD))
    else:
        return hand
    return total + card, ace or card == 1, count + 1, cards, more


def best_sum(hand: Hand) -> int:
    """The sum with an ace as 11 where that does not go over 21."""
    total, ace, _, _, _ = hand
    return total + 10 if ace and total <= 11 else total


def is_natural(hand: Hand) -> bool:
    """An ace and a ten, and no other card."""
    total, ace, count, _, _ = hand
    return count == 2 and ace and total == 11


def hand_of(cards: Iterable[Any], whose: str) -> Hand:
    """The hand that holds these cards."""
    cards = list(cards)
    if not 1 <= len(cards) <= MOST or not all(isinstance(c, (int, np.integer)) and 1 <= c <= 10 for c in cards):
        raise InvalidKernel(f"{whose}={cards!r}: expected 1 to {MOST} cards of 1 (ace) to 10.")
    hand = EMPTY
    for card in cards:
        hand = with_card(hand, int(card))
    return hand


def cards_of(hand: Hand) -> list[int]:
    """The cards as a list."""
    _, _, count, cards, more = hand
    return [(cards | more << (4 * _A_WORD)) >> (4 * at) & 15 for at in range(count)]


def is_consistent(hand: Hand) -> bool:
    """Whether the numbers are those of some hand; they may come from anywhere."""
    _, _, count, cards, more = hand
    if not 1 <= count <= MOST or cards < 0 or more < 0:
        return False
    held = cards_of(hand)
    return all(1 <= card <= 10 for card in held) and hand_of(held, "hand") == hand
