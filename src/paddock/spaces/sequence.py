"""Any number of members of one space: a tuple of them, or with ``stack=True`` one batched value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.errors import InvalidSpace
from paddock.spaces.box import Box
from paddock.spaces.discrete import Discrete
from paddock.spaces.space import Space, check_not_both, is_integer


class Sequence(Space["tuple[Any, ...] | Any"]):
    """Sequences of members of ``space``, of any length. With ``stack=True`` they are batched.

    >>> from paddock.spaces import Discrete
    >>> (0, 1, 2, 1) in Sequence(Discrete(3))
    True
    """

    feature_space: Space[Any]
    stack: bool
    is_np_flattenable = False

    def __init__(
        self,
        space: Space[Any],
        seed: int | np.random.Generator | None = None,
        stack: bool = False,
    ) -> None:
        if not isinstance(space, Space):
            raise InvalidSpace(f"Expects the feature space to be instance of a gym Space, actual type: {type(space)}")
        self.feature_space = space
        self.stack = stack
        self._stacked: Space[Any] | None = None
        super().__init__(None, None, seed)

    @property
    def stacked_feature_space(self) -> Space[Any]:
        """The feature space with a leading axis; only for ``stack=True``."""
        if not self.stack:
            raise AttributeError("stacked_feature_space: this Sequence has stack=False")
        # Made on first use: nested ones would double in size with every level.
        if self._stacked is None:
            from paddock.spaces.batch import batch_space

            self._stacked = batch_space(self.feature_space, 1)
        return self._stacked

    def seed(self, seed: int | tuple[int, int] | None = None) -> tuple[Any, ...]:
        """Seed this space and the feature space: from entropy (None), from one integer, or with one seed each."""
        if not (seed is None or is_integer(seed) or isinstance(seed, (tuple, list))):
            raise InvalidSpace(f"Expected None, int, tuple of ints, actual type: {type(seed)}")
        if isinstance(seed, (tuple, list)) and len(seed) != 2:
            raise InvalidSpace(
                f"Expects the seed to have two elements for the Sequence and feature space, actual length: {len(seed)}"
            )
        return self._seed_with_parts(seed, [self.feature_space])

    def sample(
        self,
        mask: tuple[int | NDArray[np.integer[Any]] | None, Any] | None = None,
        probability: tuple[int | NDArray[np.integer[Any]] | None, Any] | None = None,
    ) -> tuple[Any, ...] | Any:
        """A random member; without a mask the length is geometric with mean 4.

        mask, probability: (length, what the feature space takes), where length is None, an integer, or an array of
        integers to choose from.
        """
        check_not_both(mask, probability)
        narrowed: dict[str, Any] = {}
        length_mask = None
        if mask is not None:
            length_mask, narrowed["mask"] = mask
        elif probability is not None:
            length_mask, narrowed["probability"] = probability
        length = self.generate_sample_length(length_mask, next(iter(narrowed), None))
        values = tuple([self.feature_space.sample(**narrowed) for _ in range(length)])
        if not self.stack:
            return values
        from paddock.spaces.batch import concatenate, create_empty_array

        return concatenate(self.feature_space, values, create_empty_array(self.feature_space, len(values)))

    def generate_sample_length(
        self,
        length_mask: int | np.integer[Any] | NDArray[np.integer[Any]] | None,
        mask_type: str | None,
    ) -> int:
        """The length of the next sample: as the mask says, or geometric."""
        if length_mask is None:
            return self.np_random.geometric(0.25)
        if is_integer(length_mask):
            if length_mask < 0:
                raise InvalidSpace(
                    f"Expects the length mask of `{mask_type}` to be greater than or equal to zero, "
                    f"actual value: {length_mask}"
                )
            return length_mask  # type: ignore[return-value]
        if not isinstance(length_mask, np.ndarray):
            raise InvalidSpace(
                f"Expects the type of length_mask of `{mask_type}` to be an integer or a np.ndarray, "
                f"actual type: {type(length_mask)}"
            )
        if length_mask.ndim != 1:
            raise InvalidSpace(
                f"Expects the shape of the length mask of `{mask_type}` to be 1-dimensional, "
                f"actual shape: {length_mask.shape}"
            )
        if length_mask.dtype.kind not in "iu":
            raise InvalidSpace(
                f"Expects the length mask array of `{mask_type}` to have dtype of np.integer, "
                f"actual type: {length_mask.dtype}"
            )
        if len(length_mask) == 0 or not (length_mask >= 0).all():
            raise InvalidSpace(
                f"Expects all values in the length_mask of `{mask_type}` to be greater than or equal to zero, "
                f"actual values: {length_mask}"
            )
        chosen: int = self.np_random.choice(length_mask)
        return chosen

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a tuple of members, or with ``stack`` a batch of them. Never raises."""
        if self.stack:
            return count_members(self.feature_space, x, lambda: self.stacked_feature_space) is not None
        try:
            if not isinstance(x, tuple):
                return False
            parts = tuple(x)
        except Exception:
            return False
        return all(self.feature_space.contains(part) for part in parts)

    def __repr__(self) -> str:
        return f"Sequence({self.feature_space}, stack={self.stack})"

    def to_jsonable(self, sample_n: Iterable[tuple[Any, ...] | Any]) -> list[Any]:
        if self.stack:
            stacked: list[Any] = self.stacked_feature_space.to_jsonable(sample_n)
            return stacked
        return [self.feature_space.to_jsonable(sample) for sample in sample_n]

    def from_jsonable(self, sample_n: list[Any]) -> list[tuple[Any, ...] | Any]:
        if self.stack:
            return self.stacked_feature_space.from_jsonable(sample_n)
        return [tuple(self.feature_space.from_jsonable(sample)) for sample in sample_n]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.feature_space == other.feature_space and self.stack == other.stack

    def __hash__(self) -> int:
        return hash(("Sequence", self.feature_space, self.stack))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stacked": None}


def count_members(space: Space[Any], items: Any, batched: Callable[[], Space[Any]]) -> int | None:
    """How many elements the batch ``items`` has, or None if one of them is not a member of ``space``. Never raises.

    ``batched`` returns the space that ``iterate`` needs; it is called only on the slow way, element by element.
    """
    if type(items) is np.ndarray and items.ndim:
        if len(items) == 0:
            return 0
        answer = _check_array(space, items)
        if answer is not None:
            return len(items) if answer else None
    from paddock.spaces.batch import iterate

    try:
        len(items)  # an iterator would be used up by the question, or never end
        parts = list(iterate(batched(), items))
    except Exception:
        return None
    return len(parts) if all(space.contains(part) for part in parts) else None


def _check_array(space: Space[Any], items: NDArray[Any]) -> bool | None:
    """Whether an array consists of members, or None where there is no quick answer."""
    # Exact types: a subclass may define its members in its own way.
    if type(space) is Box and items.ndim > 1:
        return items.shape[1:] == space.shape and space._within(items)
    if type(space) is Discrete and items.dtype.kind in "iu":
        return (
            items.ndim == 1
            and bool(np.can_cast(items.dtype, space.n.dtype))
            and b"\0" not in (items >= space._first).tobytes()
            and b"\0" not in (items < space._end).tobytes()
        )
    return None
