"""Arrays of zeros and ones. Any dtype is a member as long as the values are 0 or 1 (as in Gymnasium)."""

from __future__ import annotations

from collections.abc import Sequence as AbstractSequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.errors import InvalidProbability, InvalidSpace
from paddock.spaces.space import ArraySpace, check_not_both, is_integer


class MultiBinary(ArraySpace[NDArray[np.int8]]):
    """Arrays of 0 and 1, of ``n`` elements or of the shape ``n``.

    >>> MultiBinary(5, seed=42).sample()
    array([1, 0, 1, 0, 1], dtype=int8)
    """

    n: int | tuple[int, ...]

    def __init__(
        self,
        n: NDArray[np.integer[Any]] | AbstractSequence[int] | int,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        if is_integer(n):
            self.n = int(n)  # type: ignore[arg-type]
            shape: tuple[int, ...] = (self.n,)
        elif isinstance(n, (AbstractSequence, np.ndarray)) and not isinstance(n, (str, bytes)):
            self.n = shape = tuple(int(size) for size in n)
        else:
            raise InvalidSpace(f"Expected n to be an int or a sequence of ints, actual type: {type(n)}")
        if not all(size > 0 for size in shape):
            raise InvalidSpace(f"n (counts) have to be positive, got {n}")
        super().__init__(shape, np.int8, seed)

    def sample(
        self,
        mask: NDArray[np.int8] | None = None,
        probability: NDArray[np.int8] | None = None,
    ) -> NDArray[np.int8]:
        """A random member by fair coins.

        mask: int8 of this shape, 0 and 1 fix an element, 2 leaves it random. probability: float64 of this shape, how
        likely each element is a 1.
        """
        check_not_both(mask, probability)
        if probability is not None:
            self._check(probability, np.float64, "probability", InvalidProbability)
            if not ((probability >= 0) & (probability <= 1)).all():
                raise InvalidProbability(
                    f"All values of the sample probability should be between 0 and 1, actual values: {probability}"
                )
            return (self.np_random.random(size=self.shape) <= probability).astype(self.dtype)
        if mask is not None:
            self._check(mask, np.int8, "mask", InvalidSpace)
            if not ((mask == 0) | (mask == 1) | (mask == 2)).all():
                raise InvalidSpace(f"All values of a mask should be 0, 1 or 2, actual values: {mask}")
        coins = self.np_random.integers(low=0, high=2, size=self.n, dtype=self.dtype.type)
        return coins if mask is None else np.where(mask == 2, coins, mask)

    def _check(self, array: Any, dtype: Any, what: str, error: type[InvalidSpace]) -> None:
        if not isinstance(array, np.ndarray):
            raise error(f"The expected type of the {what} is np.ndarray, actual type: {type(array)}")
        if array.dtype != dtype:
            raise error(f"The expected dtype of the {what} is np.{dtype.__name__}, actual dtype: {array.dtype}")
        if array.shape != self.shape:
            raise error(f"The expected shape of the {what} is {self.shape}, actual shape: {array.shape}")

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is an array (or list) of this shape whose elements equal 0 or 1. Never raises."""
        try:
            if type(x) is not np.ndarray and (x := self._plain_array(x)) is None:
                return False
            if x.shape != self._shape:
                return False
            kind = x.dtype.kind
            if kind == "b":
                return True
            if kind not in "iufcOm":  # NumPy can't compare text, dates and records with numbers, and may warn
                return False
            return b"\0" not in ((x == 0) | (x == 1)).astype(bool).tobytes()
        except Exception:
            return False

    def __repr__(self) -> str:
        return f"MultiBinary({self.n})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MultiBinary) and self.n == other.n

    def __hash__(self) -> int:
        return hash(("MultiBinary", self.n))
