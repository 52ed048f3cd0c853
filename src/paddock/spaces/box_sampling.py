"""Sample a Box: the numbers that Gymnasium draws, in its order, with everything prepared beforehand.

Per element: uniform between two bounds, exponential from one bound, normal without bounds. Integers are floors of the
uniform draw up to ``high + 1``.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The largest number that Generator.random gives: if this does not leave the interval, no draw does.
_LARGEST_DRAW = 1.0 - 2.0**-53
_EXACT = 2**53  # integers up to here are exact in float64


class BoxSampler:
    """Draws members of one Box from a generator that is passed in."""

    def __init__(
        self,
        low: NDArray[Any],
        high: NDArray[Any],
        below: NDArray[np.bool_],
        above: NDArray[np.bool_],
        *,
        uniform: bool,
    ) -> None:
        self._shape, self._dtype = low.shape, low.dtype
        self._is_float = low.dtype.kind == "f"
        if uniform:  # one number stands for all elements
            low, high, below, above = (np.asarray(array[(0,) * array.ndim]) for array in (low, high, below, above))
        self._uniform = uniform
        self._limits = (low, high)
        # Adding zero turns -0.0 into 0.0: from 0.0 to -0.0 would be a negative range.
        self._low, self._top = low.astype(np.float64) + 0.0, _top_of(high) + 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            self._range = self._top - self._low
        self._all_bounded, self._all_free = bool((below & above).all()), not (below | above).any()
        self._groups = [
            np.flatnonzero(kind) for kind in (~below & ~above, below & ~above, ~below & above, below & above)
        ]
        # Casting to an integer is the floor of what is not negative; casting to bool never is.
        self._floors = low.dtype.kind == "b" or (not self._is_float and bool((self._low < 0).any()))
        self._finite_range = bool(np.isfinite(self._range[below & above]).all())
        self._clips = self._all_bounded and self._may_leave()

    def draw(self, generator: np.random.Generator) -> NDArray[Any]:
        """One member."""
        if self._all_bounded:
            values = self._between(generator, self._low, self._top, self._range, self._shape)
            if self._floors:
                np.floor(values, values)
            return self._clipped(values) if self._clips else values.astype(self._dtype)
        if self._all_free and self._is_float:
            return np.asarray(generator.standard_normal(self._shape)).astype(self._dtype)
        return self._draw_mixed(generator)

    def _between(
        self, generator: np.random.Generator, low: NDArray[Any], top: NDArray[Any], span: NDArray[Any], shape: Any
    ) -> NDArray[np.float64]:
        if self._finite_range and _uniform_is_plain():
            draws = np.asarray(generator.random(shape))
            draws *= span
            draws += low
            return draws
        with np.errstate(over="ignore"):
            if np.isfinite(span).all():
                return np.asarray(generator.uniform(low, top, size=shape))
        # The interval is wider than the largest float: Gymnasium raises OverflowError here.
        draws = np.asarray(generator.random(shape))
        return np.asarray(low * (1.0 - draws) + top * draws)

    def _draw_mixed(self, generator: np.random.Generator) -> NDArray[Any]:
        values = np.empty(self._shape)
        flat = values.reshape(-1)
        groups = [np.arange(flat.size) if self._uniform and len(group) else group for group in self._groups]
        free, from_low, to_high, between = groups
        low, top, span = (np.broadcast_to(a, self._shape).reshape(-1) for a in (self._low, self._top, self._range))
        flat[free] = generator.standard_normal(len(free))
        flat[from_low] = generator.standard_exponential(len(from_low)) + low[from_low]
        flat[to_high] = -generator.standard_exponential(len(to_high)) + top[to_high]
        if len(between):
            flat[between] = self._between(generator, low[between], top[between], span[between], between.shape)
        if self._is_float:
            return values.astype(self._dtype)
        np.floor(values, values)
        return self._clipped(values)

    def _clipped(self, values: NDArray[np.float64]) -> NDArray[Any]:
        """Cast, and bring back what rounding or a long tail has put outside."""
        low, high = self._limits
        if not self._is_float and self._dtype.kind != "b":
            limits = np.iinfo(self._dtype)
            # nextafter: the largest float that still fits, because the limit of a 64 bit integer is no float.
            most = float(limits.max) if limits.bits < 64 else np.nextafter(float(limits.max), 0.0)
            np.clip(values, float(limits.min), most, out=values)
        return np.asarray(np.clip(values.astype(self._dtype), low, high))

    def _may_leave(self) -> bool:
        """Whether rounding could put a draw outside the bounds."""
        high = self._limits[1]
        with np.errstate(over="ignore", invalid="ignore"):
            last = self._low + self._range * _LARGEST_DRAW
            if self._is_float:
                return not bool((last.astype(self._dtype) <= high).all())
        inexact = (np.abs(self._low) > _EXACT).any() or (np.abs(self._top) > _EXACT).any()
        return bool(inexact or (np.floor(last) >= self._top).any())


def _top_of(high: NDArray[Any]) -> NDArray[np.float64]:
    """Where the uniform draw ends: ``high``, or one more for integers."""
    if high.dtype.kind == "f":
        return high.astype(np.float64)
    wide = np.dtype(np.uint64 if high.dtype == np.uint64 else np.int64)
    limit = np.iinfo(wide).max
    whole = high.astype(wide)
    top = (np.where(whole == limit, 0, whole) + wide.type(1)).astype(np.float64)
    return np.where(whole == limit, float(limit), top)


@functools.cache
def _uniform_is_plain() -> bool:
    """Whether ``Generator.uniform`` is ``low + (high - low) * random()`` to the last bit on this machine.

    That form is several times faster. Where the C compiler fused the multiplication with the addition (it may on ARM),
    the last bit can differ, and `BoxSampler` calls ``uniform`` itself.
    """
    low, high = np.linspace(-1 / 3, 0.1, 64), np.linspace(0.3, 7 / 3, 64)
    drawn = np.random.Generator(np.random.PCG64(0)).uniform(low, high)
    plain = low + (high - low) * np.random.Generator(np.random.PCG64(0)).random(64)
    return bool((drawn == plain).all())
