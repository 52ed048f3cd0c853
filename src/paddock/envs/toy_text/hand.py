"""A hand of cards in two integers, four bits a card: compiled lanes can hold no list.

Cards are worth 1 (ace) to 10. A hand in play has at most 22; one of ``MOST``, bust long ago, takes no more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from paddock.errors import InvalidKernel

_A_WORD = 15  # cards in one integer of 64 bits, whose sign bit stays free
MOST = 2 * _A_WORD


class Hand(NamedTuple):
    """``total`` counts aces as 1."""

    total: int
    ace: bool
    count: int
    cards: int  # the first 15, first card lowest
    more: int  # the next 15


EMPTY = Hand(0, False, 0, 0, 0)


def with_card(hand: Hand, card: int) -> Hand:
    cards, more = hand.cards, hand.more
    if hand.count < _A_WORD:
        cards |= card << (4 * hand.count)
    elif hand.count < MOST:
        more |= card << (4 * (hand.count - _A_WORD))
    else:
        return hand
    return Hand(hand.total + card, hand.ace or card == 1, hand.count + 1, cards, more)


def is_soft(hand: Hand) -> bool:
    """Whether an ace can count as 11 without going over 21."""
    return hand.ace and hand.total <= 11


def best_sum(hand: Hand) -> int:
    return hand.total + 10 if is_soft(hand) else hand.total


def is_natural(hand: Hand) -> bool:
    """An ace and a ten, from the start."""
    return hand.count == 2 and hand.ace and hand.total == 11


def hand_of(cards: Iterable[int], whose: str) -> Hand:
    """The hand that holds these cards."""
    cards = list(cards)
    if not 1 <= len(cards) <= MOST or not all(isinstance(card, int) and 1 <= card <= 10 for card in map(_plain, cards)):
        raise InvalidKernel(f"{whose}={cards!r}: expected 1 to {MOST} cards of 1 (ace) to 10.")
    hand = EMPTY
    for card in cards:
        hand = with_card(hand, int(card))
    return hand


def cards_of(hand: Hand) -> list[int]:
    """The cards as a list."""
    words = hand.cards | hand.more << (4 * _A_WORD)
    return [words >> (4 * at) & 15 for at in range(hand.count)]


def _plain(card: object) -> object:
    return card.item() if hasattr(card, "item") else card
