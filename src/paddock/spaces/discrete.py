"""Consecutive integers. As in Gymnasium, Python's ``True`` is a member of ``Discrete(2)`` and NumPy's is not."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Generic

import numpy as np

from paddock.errors import InvalidProbability, InvalidSpace
from paddock.spaces.space import ArraySpace, IntegerT_co, MaskNDArray, check_not_both, is_integer

BATCH = 64
# What a pickle leaves out; `_place` and the property of the generator bring it back.
_DERIVED = ("_ahead", "_generator", "_first", "_end", "_scalar")


class Discrete(ArraySpace[IntegerT_co], Generic[IntegerT_co]):
    """The integers ``start, start + 1, ..., start + n - 1``.

    >>> Discrete(3, start=-1, seed=42).sample()
    np.int64(-1)
    """

    n: np.integer[Any]
    start: np.integer[Any]

    def __init__(
        self,
        n: int | np.integer[Any],
        seed: int | np.random.Generator | None = None,
        start: int | np.integer[Any] = 0,
        dtype: str | type[np.integer[Any]] | np.dtype[Any] = np.int64,
    ) -> None:
        if not is_integer(n):
            raise InvalidSpace(f"Expects `n` to be an integer, actual dtype: {type(n)}")
        if n <= 0:
            raise InvalidSpace(f"n (counts) have to be positive, actual value: {n}")
        if not is_integer(start):
            raise InvalidSpace(f"Expects `start` to be an integer, actual type: {type(start)}")
        if dtype is None:
            raise InvalidSpace("Invalid Discrete dtype, cannot be None.")
        kind = np.dtype(dtype)
        if kind.kind not in "iu":
            raise InvalidSpace(f"Invalid Discrete dtype ({kind}), must be an integer dtype")
        limits = np.iinfo(kind)
        if not (limits.min <= int(start) and int(start) + int(n) - 1 <= limits.max and int(n) <= limits.max):
            raise InvalidSpace(
                f"Discrete(n={n}, start={start}) has members that {kind} can't hold: it ends at {limits.max}. "
                "Choose a wider dtype."
            )
        self._place(kind.type(n), kind.type(start))
        super().__init__((), kind, seed)

    def _place(self, n: np.integer[Any], start: np.integer[Any]) -> None:
        self.n, self.start = n, start
        # Plain integers: comparing NumPy scalars costs more than the rest of `contains`.
        self._first, self._end, self._scalar = int(start), int(start) + int(n), type(n)
        self._ahead: ReadAhead | None = None

    # The generator is reached through this property alone, so that it is never seen ahead of the samples.
    @property
    def _np_random(self) -> np.random.Generator | None:
        self._stop_reading_ahead()
        return self._generator

    @_np_random.setter
    def _np_random(self, generator: np.random.Generator | None) -> None:
        self._ahead = None
        self._generator = generator

    def _stop_reading_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.settle()
            self._ahead = None

    def _copy_np_random(self) -> np.random.Generator:
        if self._generator is None:
            self.seed()
        if self._ahead is not None:
            self._ahead.settle()
        assert self._generator is not None
        return deepcopy(self._generator)

    def seed(self, seed: int | None = None) -> int:
        used: int = super().seed(seed)
        self._read_ahead()
        return used

    def _read_ahead(self) -> None:
        # In a batch, 8 and 16 bit integers share one 32 bit draw: not the stream of single draws.
        if self._generator is not None and self.n.dtype.itemsize >= 4:
            self._ahead = ReadAhead(self._generator, self.n, self.start)

    def sample(self, mask: MaskNDArray | None = None, probability: MaskNDArray | None = None) -> IntegerT_co:
        """A random member.

        mask: int8[n], 1 where a member may be chosen; all 0 gives ``start``. probability: float64[n], sums to 1.
        """
        if mask is None and probability is None:
            ahead = self._ahead
            if ahead is None:
                if self._generator is None:
                    self.seed()
                    return self.sample()
                return self.start + self._generator.integers(self.n, dtype=self.n.dtype.type)  # type: ignore
            for value in ahead.values:
                return value  # type: ignore[return-value]
            return ahead.refill()  # type: ignore[return-value]
        check_not_both(mask, probability)
        if mask is not None:
            allowed = np.flatnonzero(check_mask(mask, (int(self.n),), "mask"))
            if len(allowed) == 0:
                return self.start  # type: ignore[return-value]
            return self.start + self.dtype.type(self.np_random.choice(allowed))  # type: ignore
        weights = check_probability(probability, (int(self.n),), "probability")
        return self.start + self.np_random.choice(np.arange(self.n, dtype=self.dtype), p=weights)  # type: ignore

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is an integer of the range, of a type that casts safely to the dtype. Never raises."""
        kind = type(x)
        if kind is int or kind is self._scalar:
            return self._first <= int(x) < self._end
        try:
            if isinstance(x, int):
                return self._first <= int.__index__(x) < self._end
            if not isinstance(x, (np.generic, np.ndarray)) or x.dtype.kind not in "iu" or x.shape != ():
                return False
            return self._first <= int(x) < self._end and bool(np.can_cast(x.dtype, self.dtype))
        except Exception:
            return False

    def __repr__(self) -> str:
        start = f", start={self.start}" if self._first != 0 else ""
        dtype = f", dtype={self.dtype}" if self.dtype != np.int64 else ""
        return f"Discrete({self.n}{start}{dtype})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Discrete)
            and self._first == other._first
            and self._end == other._end
            and self.dtype == other.dtype
        )

    def __hash__(self) -> int:
        return hash(("Discrete", self._first, self._end, self.dtype))

    def __getstate__(self) -> dict[str, Any]:
        ahead = self._ahead is not None
        if self._ahead is not None:
            self._ahead.settle()
        kept = {k: v for k, v in self.__dict__.items() if k not in _DERIVED}
        return {**kept, "_np_random": self._generator, "_owned": ahead}

    def __setstate__(self, state: Iterable[tuple[str, Any]] | Mapping[str, Any]) -> None:
        fields = dict(state)
        owned = fields.pop("_owned", False)
        fields["dtype"] = np.dtype(fields.get("dtype", np.int64))
        scalar = fields["dtype"].type
        self._place(scalar(fields.pop("n")), scalar(fields.pop("start", 0)))  # old Gym's pickles have no start
        super().__setstate__(fields)
        if owned:
            self._read_ahead()

    def __copy__(self) -> Discrete[IntegerT_co]:
        # A shallow copy shares the generator, so neither side may read ahead any longer.
        self._stop_reading_ahead()
        twin = type(self).__new__(type(self))
        twin.__setstate__(self.__getstate__())
        return twin

    def to_jsonable(self, sample_n: Iterable[Any]) -> list[int]:
        return [int(x) for x in sample_n]

    def from_jsonable(self, sample_n: Iterable[int]) -> list[Any]:
        return [self.dtype.type(x) for x in sample_n]


def check_mask(mask: Any, shape: tuple[int, ...], what: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Where ``mask`` is 1, after checking that it is int8 zeros and ones of that shape."""
    if not isinstance(mask, np.ndarray):
        raise InvalidSpace(f"The expected type of the sample {what} is np.ndarray, actual type: {type(mask)}")
    if mask.dtype != np.int8:
        raise InvalidSpace(f"The expected dtype of the sample {what} is np.int8, actual dtype: {mask.dtype}")
    if mask.shape != shape:
        raise InvalidSpace(f"The expected shape of the sample {what} is {shape}, actual shape: {mask.shape}")
    allowed: np.ndarray[Any, np.dtype[np.bool_]] = mask == 1
    if not (allowed | (mask == 0)).all():
        raise InvalidSpace(f"All values of the sample {what} should be 0 or 1, actual values: {mask}")
    return allowed


def check_probability(weights: Any, shape: tuple[int, ...], what: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """``weights``, after checking that they are float64 in [0, 1] of that shape with sum 1."""
    if not isinstance(weights, np.ndarray):
        raise InvalidProbability(f"The expected type of the sample {what} is np.ndarray, actual type: {type(weights)}")
    if weights.dtype != np.float64:
        raise InvalidProbability(f"The expected dtype of the sample {what} is np.float64, actual: {weights.dtype}")
    if weights.shape != shape:
        raise InvalidProbability(f"The expected shape of the sample {what} is {shape}, actual shape: {weights.shape}")
    if not ((weights >= 0) & (weights <= 1)).all():
        raise InvalidProbability(f"All values of the sample {what} should be between 0 and 1, actual values: {weights}")
    if not np.isclose(np.sum(weights), 1):
        raise InvalidProbability(f"The sum of the sample {what} should be equal to 1, actual sum: {np.sum(weights)}")
    return weights


class ReadAhead:
    """Integers of ``[0, n)`` plus ``start``, drawn in batches that equal single draws, bit for bit.

    ``Generator.integers`` costs about a microsecond for one number and 20 ns per number for 64. A batch is the same
    stream as single draws, but afterwards the generator is too far ahead; ``settle`` puts it back to where single draws
    would have left it. So the generator must belong to one space alone, and anyone about to show it to others settles
    first.
    """

    __slots__ = ("_generator", "_n", "_start", "_state", "_warm", "values")

    def __init__(self, generator: np.random.Generator, n: np.integer[Any], start: np.integer[Any]) -> None:
        self._generator, self._n, self._start = generator, n, start
        self._state: Any = None  # the generator's state before the batch; None while nothing is drawn ahead
        self._warm = False
        self.values: Iterator[np.integer[Any]] = iter(())

    def refill(self) -> np.integer[Any]:
        """The next value when ``values`` has run out. The first one is a single draw: it may well be the only one."""
        draw, dtype = self._generator.integers, self._n.dtype.type
        if not self._warm:
            self._warm = True
            single: np.integer[Any] = self._start + draw(self._n, dtype=dtype)
            return single
        self._state = self._generator.bit_generator.state
        # A list's iterator knows how much is left of it, so that `sample` needs no counter.
        self.values = iter(list(self._start + draw(self._n, size=BATCH, dtype=dtype)))
        return next(self.values)

    def settle(self) -> None:
        """Put the generator back to where single draws would have left it."""
        if self._state is not None:
            used = BATCH - operator.length_hint(self.values)
            self._generator.bit_generator.state = self._state
            self._generator.integers(self._n, size=used, dtype=self._n.dtype.type)
        self._state, self._warm, self.values = None, False, iter(())
