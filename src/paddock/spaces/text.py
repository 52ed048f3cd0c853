"""Strings over a set of characters. Length counts characters; the order of the set decides what a seed gives."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.errors import InvalidProbability, InvalidSpace
from paddock.spaces.space import Space, check_not_both, is_integer

alphanumeric: frozenset[str] = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


class Text(Space[str]):
    """Strings of ``min_length`` to ``max_length`` characters from ``charset``.

    A ``charset`` that is a string keeps its order, a set is sorted.

    >>> Text(10, charset="0123456789")
    Text(1, 10, charset=0123456789)
    """

    is_np_flattenable = True

    def __init__(
        self,
        max_length: int,
        *,
        min_length: int = 1,
        charset: frozenset[str] | str = alphanumeric,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        for name, length in (("min_length", min_length), ("max_length", max_length)):
            if not is_integer(length):
                raise InvalidSpace(f"Expects the {name} to be an integer, actual type: {type(length)}")
        if min_length < 0:
            raise InvalidSpace(f"Minimum text length must be non-negative, actual value: {min_length}")
        if min_length > max_length:
            raise InvalidSpace(
                "The min_length must be less than or equal to the max_length, "
                f"min_length: {min_length}, max_length: {max_length}"
            )
        self.min_length, self.max_length = int(min_length), int(max_length)
        # The order of a set changes from process to process, so it must not reach the samples.
        characters = sorted(charset) if isinstance(charset, (set, frozenset)) else dict.fromkeys(charset)
        self._char_list: tuple[str, ...] = tuple(characters)
        wrong = [char for char in self._char_list if not (isinstance(char, str) and len(char) == 1)]
        if wrong:
            raise InvalidSpace(
                f"Expects all charset elements to be a single character, actual invalid elements: {wrong}"
            )
        self._char_set: frozenset[str] = frozenset(self._char_list)
        super().__init__(dtype=str, seed=seed)

    @property
    def character_set(self) -> frozenset[str]:
        """The characters, without an order."""
        return self._char_set

    @property
    def character_list(self) -> tuple[str, ...]:
        """The characters in the order of masks and of `character_index`."""
        return self._char_list

    @functools.cached_property
    def _char_index(self) -> dict[str, np.int32]:
        return {char: np.int32(index) for index, char in enumerate(self._char_list)}

    @functools.cached_property
    def _ladder(self) -> NDArray[np.float64]:
        """What ``Generator.choice`` computes from equal probabilities at every call: their running sum."""
        steps = (np.ones(len(self._char_list)) / len(self._char_list)).cumsum()
        return np.asarray(steps / steps[-1])

    def character_index(self, char: str) -> np.int32:
        """Where ``char`` stands in `character_list`."""
        return self._char_index[char]

    @functools.cached_property
    def characters(self) -> str:
        """The characters, sorted, in one string."""
        return "".join(sorted(self._char_list))

    def sample(
        self,
        mask: tuple[int | None, NDArray[np.int8] | None] | None = None,
        probability: tuple[int | None, NDArray[np.float64] | None] | None = None,
    ) -> str:
        """A random string.

        mask: (length or None, int8[len(charset)] or None). probability: (length or None, float64[len(charset)] or None)
        with sum 1. No possible character gives ``""`` where that is a member, and is an error where not.
        """
        check_not_both(mask, probability)
        length: Any = None
        weights: Any = None
        if mask is not None:
            length, weights = self._check(mask, "mask")
        elif probability is not None:
            length, weights = self._check(probability, "probability")
        if length is None:
            length = self.np_random.integers(self.min_length, self.max_length + 1)
        if not self._char_list or (weights is not None and not weights.any()):
            if self.min_length == 0:
                return ""
            raise InvalidSpace(
                f"Trying to sample with a minimum length > 0 (actual minimum length={self.min_length}) but the "
                "character mask is all zero meaning that no character could be sampled."
            )
        if weights is None:
            chosen = self._ladder.searchsorted(self.np_random.random(length), side="right")
        else:
            chosen = self.np_random.choice(len(self._char_list), size=length, p=weights)
        # Not through an array of characters, as Gymnasium does: NumPy drops "\0" at the end of strings.
        return "".join([self._char_list[index] for index in chosen.tolist()])

    def _check(self, pair: Any, what: str) -> tuple[Any, Any]:
        """The length and the weights of the characters, each or None, of a ``mask`` or a ``probability``."""
        error, dtype = (InvalidSpace, np.int8) if what == "mask" else (InvalidProbability, np.float64)
        if not isinstance(pair, tuple):
            raise error(f"Expects the `{what}` type to be a tuple, actual type: {type(pair)}")
        if len(pair) != 2:
            raise error(f"Expects the `{what}` length to be two, actual length: {len(pair)}")
        length, weights = pair
        if length is not None:
            if not is_integer(length):
                raise error(f"Expects the Text sample length to be an integer, actual type: {type(length)}")
            if not self.min_length <= length <= self.max_length:
                raise error(
                    f"Expects the Text sample length be between {self.min_length} and {self.max_length}, "
                    f"actual length: {length}"
                )
        if weights is None:
            return length, None
        if not isinstance(weights, np.ndarray):
            raise error(f"Expects the Text sample `{what}` to be an np.ndarray, actual type: {type(weights)}")
        if weights.dtype != dtype:
            raise error(f"Expects the Text sample `{what}` to be type {dtype}, actual dtype: {weights.dtype}")
        if weights.shape != (len(self._char_list),):
            raise error(
                f"expects the Text sample `{what}` to be {(len(self._char_list),)}, actual shape: {weights.shape}"
            )
        if what == "mask":
            if not ((weights == 0) | (weights == 1)).all():
                raise error(f"Expects all mask values to 0 or 1, actual values: {weights}")
            return length, weights / np.sum(weights) if weights.any() else weights
        if not ((weights >= 0) & (weights <= 1)).all():
            raise error(f"Expects all probability mask values to be within 0 and 1, actual values: {weights}")
        if not np.isclose(np.sum(weights), 1):
            raise error(f"Expects the sum of the probability mask to be 1, actual sum: {np.sum(weights)}")
        return length, weights

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a string of allowed length and characters. Never raises."""
        if type(x) is not str:
            try:
                if not isinstance(x, str):
                    return False
                x = str.__str__(x)  # a subclass may have changed len() and iteration
            except Exception:
                return False
        return self.min_length <= len(x) <= self.max_length and self._char_set.issuperset(x)

    def __repr__(self) -> str:
        return f"Text({self.min_length}, {self.max_length}, charset={self.characters})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Text)
            and self.min_length == other.min_length
            and self.max_length == other.max_length
            and self._char_set == other._char_set
        )

    def __hash__(self) -> int:
        return hash(("Text", self.min_length, self.max_length, self._char_set))
