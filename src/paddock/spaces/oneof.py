"""One of several spaces: a member is a pair, which space and a member of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from paddock.errors import InvalidSpace
from paddock.spaces.space import Space, T_co, is_integer
from paddock.spaces.tuple import check_parts, check_spaces


class OneOf(Space[tuple[int, T_co]]):
    """Pairs ``(i, member of spaces[i])``.

    >>> from paddock.spaces import Discrete
    >>> OneOf([Discrete(2), Discrete(3)], seed=123).sample()
    (np.int64(0), np.int64(0))
    """

    spaces: tuple[Space[Any], ...]

    def __init__(self, spaces: Iterable[Space[Any]], seed: int | np.random.Generator | None = None) -> None:
        self.spaces = check_spaces(spaces)
        if len(self.spaces) == 0:
            raise InvalidSpace("Empty `OneOf` spaces are not supported.")
        super().__init__(None, None, seed)

    @property
    def is_np_flattenable(self) -> bool:
        return all(space.is_np_flattenable for space in self.spaces)

    def seed(self, seed: int | tuple[int, ...] | None = None) -> tuple[Any, ...]:
        """Seed this space and the subspaces: from entropy (None), one integer, or a tuple of seeds, own seed first."""
        if not (seed is None or is_integer(seed) or isinstance(seed, (tuple, list))):
            raise InvalidSpace(f"Expected None, int, or tuple of ints, actual type: {type(seed)}")
        if isinstance(seed, (tuple, list)) and len(seed) != len(self.spaces) + 1:
            raise InvalidSpace(
                "Expects that the subspaces of seeds equals the number of subspaces + 1. "
                f"Actual length of seeds: {len(seed)}, length of subspaces: {len(self.spaces)}"
            )
        return self._seed_with_parts(seed, self.spaces)

    def sample(
        self,
        mask: tuple[Any | None, ...] | None = None,
        probability: tuple[Any | None, ...] | None = None,
    ) -> tuple[int, Any]:
        """A random member. ``mask`` or ``probability``: a tuple with one for each subspace, or None."""
        narrowed = mask is not None or probability is not None
        name, parts = check_parts(mask, probability, len(self.spaces)) if narrowed else ("mask", ())
        index: Any = self.np_random.integers(0, len(self.spaces), dtype=np.int64)
        space = self.spaces[index]
        return index, space.sample(**{name: parts[index]}) if narrowed else space.sample()

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a tuple of an index and a member of that subspace. Never raises."""
        try:
            if not isinstance(x, tuple) or tuple.__len__(x) != 2:
                return False
            index, part = tuple.__iter__(x)
            if not isinstance(index, (int, np.int64)):
                return False
            place = int.__index__(index) if isinstance(index, int) else int(index)
        except Exception:
            return False
        return 0 <= place < len(self.spaces) and self.spaces[place].contains(part)

    def __repr__(self) -> str:
        return "OneOf(" + ", ".join([str(space) for space in self.spaces]) + ")"

    def to_jsonable(self, sample_n: Iterable[tuple[int, Any]]) -> list[Any]:
        return [[int(index), self.spaces[index].to_jsonable([part])[0]] for index, part in sample_n]

    def from_jsonable(self, sample_n: list[Any]) -> list[tuple[Any, Any]]:
        return [(np.int64(index), self.spaces[index].from_jsonable([part])[0]) for index, part in sample_n]

    def __getitem__(self, index: int) -> Space[Any]:
        return self.spaces[index]

    def __len__(self) -> int:
        return len(self.spaces)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OneOf) and self.spaces == other.spaces

    def __hash__(self) -> int:
        return hash(("OneOf", self.spaces))
