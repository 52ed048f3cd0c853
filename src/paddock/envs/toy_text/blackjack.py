"""Blackjack: come closer to 21 than the dealer. Draws are in Gymnasium's order, one for a suit included.

A hand is five numbers, two of which hold the cards, four bits each: compiled lanes can't hold a list. Cards are worth 1
(ace) to 10. A hand in play has at most 22; one of ``MOST`` cards, bust long ago, takes no more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from paddock.core.env import Info
from paddock.errors import InvalidAction, InvalidKernel
from paddock.kernels import Kernel, KernelEnv, KernelVectorEnv
from paddock.spaces import Discrete, Tuple

SUITS = ("C", "D", "H", "S")
FACES = ("J", "Q", "K")
STICK, HIT = range(2)
_ACTIONS = (STICK, HIT)
_A_WORD = 15  # cards in one integer of 64 bits, whose sign bit stays free
MOST = 2 * _A_WORD

# Sum with aces as 1; whether there is an ace; how many cards; the first 15, first card lowest; the next 15. A plain
# tuple, not a NamedTuple: each card makes a new one, and Python makes plain ones several times faster.
Hand: TypeAlias = tuple[int, bool, int, int, int]
EMPTY: Hand = (0, False, 0, 0, 0)


class Params(NamedTuple):
    """``natural``: an ace and a ten win 1.5. ``sab``: the rules of Sutton and Barto, which ignore ``natural``."""

    natural: bool = False
    sab: bool = False


class State(NamedTuple):
    """The fields of two hands, and the picture on the dealer's first card: an index into SUITS and into FACES."""

    dealer_total: int
    dealer_ace: bool
    dealer_count: int
    dealer_cards: int
    dealer_more: int
    player_total: int
    player_ace: bool
    player_count: int
    player_cards: int
    player_more: int
    suit: int
    face: int  # -1: no face card
    over: bool  # the player is bust or has stuck: the dealer's cards lie open


def initial(rng: Any, params: Params) -> State:
    dealer = with_card(with_card(EMPTY, draw_card(rng)), draw_card(rng))
    player = with_card(with_card(EMPTY, draw_card(rng)), draw_card(rng))
    suit = rng.integers(0, 4)
    face = rng.integers(0, 3) if dealer[3] & 15 == 10 else -1
    return State(*dealer, *player, suit, face, False)


def step(state: State, action: int, rng: Any, params: Params) -> tuple[State, float, bool]:
    dealer, player = state[0:5], state[5:10]
    if action == HIT:
        player = with_card(player, draw_card(rng))
        bust = best_sum(player) > 21
        return State(*dealer, *player, state.suit, state.face, bust), -1.0 if bust else 0.0, bust
    while best_sum(dealer) < 17:
        dealer = with_card(dealer, draw_card(rng))
    return State(*dealer, *player, state.suit, state.face, True), payout(dealer, player, params), True


def payout(dealer: Hand, player: Hand, params: Params) -> float:
    if params.sab and is_natural(player) and not is_natural(dealer):
        return 1.0
    ours, theirs = best_sum(player), best_sum(dealer)
    if ours > 21:
        ours = 0
    if theirs > 21:
        theirs = 0
    if ours > theirs:
        return 1.5 if params.natural and not params.sab and is_natural(player) else 1.0
    return -1.0 if ours < theirs else 0.0


def draw_card(rng: Any) -> int:
    """A card from an endless deck, in which four of thirteen are worth 10."""
    card = rng.integers(1, 14)
    return 10 if card > 10 else card


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
    cards = list(cards)
    if not 1 <= len(cards) <= MOST or not all(isinstance(c, (int, np.integer)) and 1 <= c <= 10 for c in cards):
        raise InvalidKernel(f"{whose}={cards!r}: expected 1 to {MOST} cards of 1 (ace) to 10.")
    hand = EMPTY
    for card in cards:
        hand = with_card(hand, int(card))
    return hand


def cards_of(hand: Hand) -> list[int]:
    _, _, count, cards, more = hand
    return [(cards | more << (4 * _A_WORD)) >> (4 * at) & 15 for at in range(count)]


def is_consistent(hand: Hand) -> bool:
    """Whether the numbers are those of some hand; they may come from anywhere."""
    _, _, count, cards, more = hand
    if not 1 <= count <= MOST or cards < 0 or more < 0:
        return False
    listed = cards_of(hand)
    return all(1 <= card <= 10 for card in listed) and hand_of(listed, "hand") == hand


def observe(state: State, params: Params) -> tuple[int, int, int]:
    best = best_sum(state[5:10])
    return best, state.dealer_cards & 15, 1 if best > state.player_total else 0


def valid(state: State, params: Params) -> bool:
    """Whether both hands are what their cards say, and the picture exists."""
    dealer, player = state[0:5], state[5:10]
    if not (is_consistent(dealer) and is_consistent(player)):
        return False
    return 0 <= state.suit < 4 and (0 <= state.face < 3 if state.dealer_cards & 15 == 10 else state.face == -1)


KERNEL = Kernel(
    initial,
    step,
    observe,
    params=Params(),
    observation_space=Tuple((Discrete(32), Discrete(11), Discrete(2))),
    action_space=Discrete(2),
    valid=valid,
)


def hand_attribute(at: int, name: str, doc: str) -> Any:
    """One of the two hands as a list, readable and writable."""

    def get(self: BlackjackEnv) -> list[int]:
        return self._hands()[at]

    def set_(self: BlackjackEnv, cards: Any) -> None:
        hand_of(cards, name)
        own = cards if isinstance(cards, list) else list(cards)  # a list of the caller's grows with the hand
        dealer, player = self._hands()
        self._lists = (dealer, own) if at else (own, player)
        self._read_lists()

    return property(get, set_, doc=doc)


class BlackjackEnv(KernelEnv):
    """Stick (0) or hit (1); observed are the player's sum, the dealer's first card and whether an ace counts as 11.

    ``dealer`` and ``player`` are lists that may be written to: they are read again before the next step.
    """

    kernel = KERNEL
    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 4}
    dealer = hand_attribute(0, "dealer", "The dealer's cards, 1 (ace) to 10; only the first is shown.")
    player = hand_attribute(1, "player", "The player's cards, 1 (ace) to 10.")

    def __init__(self, render_mode: str | None = None, natural: bool = False, sab: bool = False) -> None:
        self._lists: tuple[list[int], list[int]] | None = None  # the hands, once they have been handed out
        super().__init__(render_mode, natural=natural, sab=sab)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        if action not in _ACTIONS:
            raise InvalidAction(
                f"action {action!r} is outside {self.action_space}.", action=action, space=self.action_space
            )
        if self._lists is None:
            return super().step(action)
        self._read_lists()
        result = super().step(action)
        for shared, cards in zip(self._lists, _cards(super().kernel_state), strict=True):
            shared[:] = cards
        return result

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        self._lists = None
        return super().reset(seed=seed, options=options)

    @property
    def dealer_top_card_suit(self) -> str:
        """C, D, H or S."""
        return SUITS[self._require_state().suit]

    @dealer_top_card_suit.setter
    def dealer_top_card_suit(self, suit: str) -> None:
        if suit not in SUITS:
            raise InvalidKernel(f"dealer_top_card_suit={suit!r}: expected one of {SUITS}.")
        self._put(self._require_state()._replace(suit=SUITS.index(suit)))

    @property
    def dealer_top_card_value_str(self) -> str:
        """A, 2 to 9, or J, Q or K."""
        state = self._require_state()
        value = state.dealer_cards & 15
        return "A" if value == 1 else FACES[state.face] if value == 10 else str(value)

    @dealer_top_card_value_str.setter
    def dealer_top_card_value_str(self, name: str) -> None:
        if name == self.dealer_top_card_value_str:
            return
        if name not in FACES or self._require_state().face < 0:
            raise InvalidKernel(f"dealer_top_card_value_str={name!r} is not worth {self.dealer[0]}, the dealer's card.")
        self._put(self._require_state()._replace(face=FACES.index(name)))

    @property
    def kernel_state(self) -> Any:
        """The state, after lists that may have been written to were read; None before the first reset."""
        self._read_lists()
        return super().kernel_state

    @kernel_state.setter
    def kernel_state(self, state: Any) -> None:
        self._put(state)
        self._lists = None  # they are of another state

    def _put(self, state: State) -> None:
        KernelEnv.kernel_state.fset(self, state)  # type: ignore[attr-defined]

    def _start_params(self, options: Info | None) -> Any:
        return self._params  # reset has no options here

    def _require_state(self) -> State:
        state: State | None = self.kernel_state
        if state is None:
            raise AttributeError("There are cards from the first reset on.")
        return state

    def _hands(self) -> tuple[list[int], list[int]]:
        if self._lists is None:
            self._lists = _cards(self._require_state())
        return self._lists

    def _read_lists(self) -> None:
        state: State | None = super().kernel_state
        if self._lists is None or state is None or self._lists == _cards(state):
            return
        dealer, player = hand_of(self._lists[0], "dealer"), hand_of(self._lists[1], "player")
        # A ten from elsewhere has no picture yet; the renderer needs one.
        face = max(state.face, 0) if dealer[3] & 15 == 10 else -1
        self._put(State(*dealer, *player, state.suit, face, state.over))

    def paint(self) -> Any:
        from paddock.envs.drawing.toy_text import paint_blackjack

        dealer, player = _cards(self._require_state())
        top_card = (self.dealer_top_card_value_str, self.dealer_top_card_suit)
        return paint_blackjack(dealer, player, top_card=top_card, over=self.kernel_state.over)


def _cards(state: State) -> tuple[list[int], list[int]]:
    return cards_of(state[0:5]), cards_of(state[5:10])


class BlackjackVectorEnv(KernelVectorEnv):
    env_type = BlackjackEnv
