"""An array of integers, each with a range of its own. Masks are nested tuples that follow the axes of ``nvec``."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from paddock.errors import InvalidSpace
from paddock.spaces.discrete import Discrete, check_mask, check_probability
from paddock.spaces.space import ArraySpace, IntegerT_co, MaskNDArray, check_not_both


class MultiDiscrete(ArraySpace[NDArray[IntegerT_co]], Generic[IntegerT_co]):
    """Arrays whose element i is one of ``start[i], ..., start[i] + nvec[i] - 1``. Any number of axes.

    >>> MultiDiscrete([5, 2, 2], seed=42).sample()
    array([3, 0, 1])
    """

    nvec: NDArray[Any]
    start: NDArray[Any]

    def __init__(
        self,
        nvec: NDArray[np.integer[Any]] | list[int],
        dtype: str | type[np.integer[Any]] | np.dtype[Any] = np.int64,
        seed: int | np.random.Generator | None = None,
        start: NDArray[np.integer[Any]] | list[int] | None = None,
    ) -> None:
        if dtype is None:
            raise InvalidSpace("MultiDiscrete dtype must be explicitly provided, cannot be None.")
        kind = np.dtype(dtype)
        if kind.kind not in "iu":
            raise InvalidSpace(f"Invalid MultiDiscrete dtype ({kind}), must be an integer dtype")
        counts = _to_integers(nvec, kind, "nvec")
        starts = np.zeros(counts.shape, kind) if start is None else _to_integers(start, kind, "start")
        if starts.shape != counts.shape:
            raise InvalidSpace(
                f"start and nvec (counts) should have the same shape, got {starts.shape} and {counts.shape}"
            )
        if not (counts > 0).all():
            raise InvalidSpace(f"nvec (counts) have to be positive, got {counts}")
        self._place(counts, starts)
        if not (self._last >= starts).all():
            raise InvalidSpace(f"MultiDiscrete(nvec={counts}, start={starts}) has members that {kind} can't hold.")
        super().__init__(counts.shape, kind, seed)

    def _place(self, nvec: NDArray[Any], start: NDArray[Any]) -> None:
        self.nvec, self.start = nvec, start
        self._last = start + (nvec - nvec.dtype.type(1))
        for array in (self.nvec, self.start):
            array.flags.writeable = False

    def sample(
        self,
        mask: tuple[MaskNDArray, ...] | None = None,
        probability: tuple[MaskNDArray, ...] | None = None,
    ) -> NDArray[Any]:
        """A random member.

        mask: per element an int8[n] with 1 where a value may be chosen, all 0 gives ``start``; nested tuples for more
        axes. probability: likewise float64[n] with sum 1.
        """
        check_not_both(mask, probability)
        if mask is not None:
            return np.array(self._sample_masked(mask, self.nvec, self.start, "mask"), dtype=self.dtype)
        if probability is not None:
            drawn = self._sample_masked(probability, self.nvec, self.start, "probability")
            return np.array(drawn, dtype=self.dtype)
        draws = self.np_random.random(self.nvec.shape) * self.nvec
        return np.asarray(draws.astype(self.dtype) + self.start)

    def _sample_masked(self, mask: Any, nvec: Any, start: Any, what: str) -> Any:
        if isinstance(nvec, np.ndarray) and nvec.ndim:
            if not isinstance(mask, tuple):
                raise InvalidSpace(f"Expects the mask to be a tuple for sub_nvec ({nvec}), actual type: {type(mask)}")
            if len(mask) != len(nvec):
                raise InvalidSpace(
                    "Expects the mask length to be equal to the number of actions, "
                    f"mask length: {len(mask)}, nvec length: {len(nvec)}"
                )
            return [self._sample_masked(*parts, what) for parts in zip(mask, nvec, start, strict=True)]
        shape = (int(nvec),)
        if what == "mask":
            allowed = np.flatnonzero(check_mask(mask, shape, "mask"))
            return self.np_random.choice(allowed) + start if len(allowed) else start
        weights = check_probability(mask, shape, "probability")
        possible = np.flatnonzero(weights)
        # Only the possible values, and normalised: this is the draw that Gymnasium makes.
        return self.np_random.choice(possible, p=(weights / np.sum(weights))[possible]) + start

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is an array (or list) of integers of this shape, each in its range. Never raises."""
        try:
            if type(x) is not np.ndarray and (x := self._plain_array(x)) is None:
                return False
            return (
                x.shape == self._shape
                and (x.dtype is self.dtype or np.can_cast(x.dtype, self.dtype))
                and b"\0" not in (x >= self.start).tobytes()
                and b"\0" not in (x <= self._last).tobytes()
            )
        except Exception:
            return False

    def __repr__(self) -> str:
        start = f", start={self.start}" if np.any(self.start != 0) else ""
        return f"MultiDiscrete({self.nvec}{start})"

    def __getitem__(self, index: int | tuple[int, ...]) -> Discrete | MultiDiscrete:
        """The space of one element, or of some; its random stream begins where this one stands."""
        nvec, start = self.nvec[index], self.start[index]
        space: Discrete | MultiDiscrete
        if nvec.ndim == 0:
            space = Discrete(nvec, start=start, dtype=self.dtype)
        else:
            space = MultiDiscrete(nvec, start=start, dtype=self.dtype)
        space.np_random.bit_generator.state = self.np_random.bit_generator.state
        return space

    def __len__(self) -> int:
        if self.nvec.ndim >= 2:
            warnings.warn("Getting the length of a multi-dimensional MultiDiscrete space.", stacklevel=2)
        return len(self.nvec)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, MultiDiscrete)
            and self.dtype == other.dtype
            and self._shape == other._shape
            and bool((self.nvec == other.nvec).all())
            and bool((self.start == other.start).all())
        )

    def __hash__(self) -> int:
        return hash(("MultiDiscrete", self._shape, self.dtype, self.nvec.tobytes(), self.start.tobytes()))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_last"}

    def __setstate__(self, state: Iterable[tuple[str, Any]] | Mapping[str, Any]) -> None:
        fields = dict(state)
        nvec = fields.pop("nvec")
        self._place(nvec, fields.pop("start", np.zeros(nvec.shape, nvec.dtype)))  # old Gym's pickles have no start
        super().__setstate__(fields)


def _to_integers(values: Any, dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    try:
        return np.array(values, dtype=dtype, copy=True)
    except (ValueError, OverflowError, TypeError) as error:
        raise InvalidSpace(f"MultiDiscrete {name} is not an array of {dtype}: {error}") from None
