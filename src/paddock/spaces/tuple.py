"""Several spaces side by side: a member is a tuple with one member of each."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as AbstractSequence
from typing import Any, overload

import numpy as np

from paddock.errors import InvalidSpace
from paddock.spaces.space import SEED_LIMIT, Space, T_co, check_not_both, is_integer


class Tuple(Space[tuple[T_co, ...]], AbstractSequence[Any]):
    """Tuples whose element i belongs to ``spaces[i]``. Itself a sequence of those spaces.

    >>> from paddock.spaces import Discrete
    >>> Tuple([Discrete(2), Discrete(3)], seed=42).sample()
    (np.int64(0), np.int64(2))
    """

    spaces: tuple[Space[Any], ...]

    def __init__(self, spaces: Iterable[Space[Any]], seed: int | np.random.Generator | None = None) -> None:
        self.spaces = check_spaces(spaces)
        super().__init__(None, None, seed)

    @property
    def is_np_flattenable(self) -> bool:
        return all(space.is_np_flattenable for space in self.spaces)

    def seed(self, seed: int | AbstractSequence[int] | None = None) -> tuple[Any, ...]:
        """Seed the subspaces: from entropy (None), from one integer, or with one seed each (list or tuple)."""
        if seed is None:
            return tuple(space.seed(None) for space in self.spaces)
        if is_integer(seed):
            super().seed(seed)  # type: ignore[arg-type]
            subseeds = self.np_random.integers(SEED_LIMIT, size=len(self.spaces))
            return tuple(space.seed(int(subseed)) for space, subseed in zip(self.spaces, subseeds, strict=True))
        if not isinstance(seed, (tuple, list)):
            raise InvalidSpace(f"Expected seed type: list, tuple, int or None, actual type: {type(seed)}")
        if len(seed) != len(self.spaces):
            raise InvalidSpace(
                "Expects that the subspaces of seeds equals the number of subspaces. "
                f"Actual length of seeds: {len(seed)}, length of subspaces: {len(self.spaces)}"
            )
        return tuple(space.seed(subseed) for space, subseed in zip(self.spaces, seed, strict=True))

    def sample(
        self,
        mask: tuple[Any | None, ...] | None = None,
        probability: tuple[Any | None, ...] | None = None,
    ) -> tuple[Any, ...]:
        """A random member. ``mask`` or ``probability``: a tuple with one for each subspace, or None."""
        if mask is None and probability is None:
            return tuple([space.sample() for space in self.spaces])
        name, parts = check_parts(mask, probability, len(self.spaces))
        return tuple(space.sample(**{name: part}) for space, part in zip(self.spaces, parts, strict=True))

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a tuple (list, array) with a member of each subspace. Never raises."""
        if type(x) is not tuple:
            try:
                if not isinstance(x, (tuple, list, np.ndarray)) or len(x) != len(self.spaces):
                    return False
                x = tuple(x)
            except Exception:
                return False
        if len(x) != len(self.spaces):
            return False
        for space, part in zip(self.spaces, x, strict=True):  # noqa: SIM110 - faster than all() over a generator
            if not space.contains(part):
                return False
        return True

    def __repr__(self) -> str:
        return "Tuple(" + ", ".join([str(space) for space in self.spaces]) + ")"

    def to_jsonable(self, sample_n: Iterable[tuple[Any, ...]]) -> list[Any]:
        samples = list(sample_n)
        return [space.to_jsonable([sample[i] for sample in samples]) for i, space in enumerate(self.spaces)]

    def from_jsonable(self, sample_n: list[Any]) -> list[tuple[Any, ...]]:
        columns = [space.from_jsonable(sample_n[i]) for i, space in enumerate(self.spaces)]
        return list(zip(*columns, strict=True))

    @overload
    def __getitem__(self, index: int) -> Space[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Space[Any], ...]: ...
    def __getitem__(self, index: int | slice) -> Space[Any] | tuple[Space[Any], ...]:
        return self.spaces[index]

    def __len__(self) -> int:
        return len(self.spaces)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tuple) and self.spaces == other.spaces

    def __hash__(self) -> int:
        return hash(("Tuple", self.spaces))


def check_spaces(spaces: Any) -> tuple[Space[Any], ...]:
    """``spaces`` as a tuple, after checking that they are spaces."""
    if not isinstance(spaces, Iterable):
        raise InvalidSpace(f"{spaces} is not an iterable of spaces")
    found = tuple(spaces)
    for space in found:
        if not isinstance(space, Space):
            raise InvalidSpace(f"{space} does not inherit from `gymnasium.Space`. Actual Type: {type(space)}")
    return found


def check_parts(mask: Any, probability: Any, count: int) -> tuple[str, tuple[Any, ...]]:
    """Which of the two was given, and its value, after checking that it is one tuple of ``count`` parts."""
    check_not_both(mask, probability)
    name, parts = ("mask", mask) if mask is not None else ("probability", probability)
    if not isinstance(parts, tuple):
        raise InvalidSpace(f"Expected type of `{name}` to be tuple, actual type: {type(parts)}")
    if len(parts) != count:
        raise InvalidSpace(f"Expected length of `{name}` to be {count}, actual length: {len(parts)}")
    return name, parts
