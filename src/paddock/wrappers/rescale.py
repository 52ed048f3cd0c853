"""A Box stretched to other bounds, for observations one way and for actions the other.

Rounding may carry a value past the bound that it should meet. It is put back there, so members stay members.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import add, divide, multiply, ndarray, subtract  # by name: hot, and `np.` is a lookup more

from paddock.core.env import Env
from paddock.errors import InvalidBound
from paddock.spaces import Box
from paddock.wrappers.transform import TransformAction, TransformObservation

Array = np.ndarray[Any, Any]
Limit = float | Array


class Stretch:
    """``gradient * x + intercept`` of a Box's members, and the way back. A side without a bound is only shifted."""

    def __init__(self, box: Box, new_min: Limit, new_max: Limit) -> None:
        if not isinstance(box, Box):
            raise InvalidBound(f"Expected box to be a Box space, got {type(box)}")
        least, most = _limit("new_min", new_min, box), _limit("new_max", new_max, box)
        for new, old in ((least, box.low), (most, box.high)):
            if np.any((np.isinf(new) | np.isinf(old)) & (new != old)):
                raise InvalidBound(
                    "For unbounded components, the target bounds must match the original infinity bounds: "
                    f"{old} is rescaled to {new}"
                )
        if not np.all(least <= most):
            raise InvalidBound(f"Expected new_min to be less than or equal to new_max, got {least} and {most}")
        self.box, self.target = box, Box(least.astype(box.dtype), most.astype(box.dtype), box.shape, box.dtype)
        self.whole = box.dtype.kind in "iub"  # a slope needs floats: compute with them and round at the end
        self.gradient, self.intercept = _line(box, least, most, np.dtype(np.float64) if self.whole else box.dtype)
        # Both ways are monotone, so where the bounds stay within bounds everything between them does.
        with np.errstate(all="ignore"):
            sure = not self.whole and _keeps(box, self.target, self._raw(box.low), self._raw(box.high))
            ends = self._raw_back(self.target.low), self._raw_back(self.target.high)
            sure_back = not self.whole and _keeps(self.target, box, *ends)
        # The dtype for which nothing has to be put back; None: always check.
        some = box.shape != ()  # NumPy makes scalars of arrays without an axis, and a scalar can't be written to
        self._sure = box.dtype if sure and some else None
        self._sure_back = box.dtype if sure_back and some else None

    def forward(self, x: Any) -> Any:
        """From the box to the target; one member or rows."""
        if type(x) is ndarray and x.dtype is self._sure:
            y = multiply(self.gradient, x)
            return add(y, self.intercept, y)
        return self._put_back(self.box, self.target, x, self._raw(x))

    def backward(self, y: Any) -> Any:
        """From the target to the box; one member or rows."""
        if type(y) is ndarray and y.dtype is self._sure_back:
            x = subtract(y, self.intercept)
            return divide(x, self.gradient, x)
        return self._put_back(self.target, self.box, y, self._raw_back(y))

    def _raw(self, x: Any) -> Any:
        return self.gradient * x + self.intercept

    def _raw_back(self, y: Any) -> Any:
        return (y - self.intercept) / self.gradient

    def _put_back(self, source: Box, target: Box, x: Any, y: Any) -> Any:
        # Only what came from within: a value outside its bounds stays outside, for the environment to refuse.
        y = np.rint(y) if self.whole else y
        y = np.where((x >= source.low) & (y < target.low), target.low, y)
        y = np.where((x <= source.high) & (y > target.high), target.high, y)
        return (y.astype(self.box.dtype) if self.whole else y)[()]


def _limit(name: str, value: Limit, box: Box) -> Array:
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        value = np.full(box.shape, value, np.float64)
    elif not isinstance(value, np.ndarray):
        raise InvalidBound(f"Expected {name} to be an integer, float, or numpy array, got {type(value)}")
    if value.shape != box.shape:
        raise InvalidBound(f"Expected {name}.shape to be {box.shape}, got {value.shape}")
    return value


def _line(box: Box, least: Array, most: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    low, high = (np.array(bound, dtype) for bound in (box.low, box.high))
    both = np.isfinite(least) & np.isfinite(most)
    gradient, intercept = np.ones(box.shape, dtype), np.zeros(box.shape, dtype)
    # The widest float: the span of a Box may not fit its dtype.
    span = high[both].astype(np.longdouble) - low[both].astype(np.longdouble)
    wide = span > 0
    gradient[both] = np.divide(most[both] - least[both], span, out=np.zeros_like(span), where=wide)
    finite = np.isfinite(most)
    intercept[finite] = most[finite] - high[finite]
    finite = np.isfinite(least)
    intercept[finite] = gradient[finite] * -low[finite] + least[finite]
    return gradient, intercept


def _keeps(source: Box, target: Box, low: Array, high: Array) -> bool:
    unbounded = np.isinf(source.low), np.isinf(source.high)
    return bool(np.all((low >= target.low) | unbounded[0]) and np.all((high <= target.high) | unbounded[1]))


def rescale_box(box: Box, new_min: Limit, new_max: Limit) -> tuple[Box, Callable[[Any], Any], Callable[[Any], Any]]:
    """The box with the new bounds, the way to it and the way back."""
    stretch = Stretch(box, new_min, new_max)
    return stretch.target, stretch.forward, stretch.backward


class RescaleObservation(TransformObservation):
    """Observations stretched from the Box's bounds to ``min_obs`` and ``max_obs``: numbers, or arrays of its shape."""

    def __init__(self, env: Env[Any, Any], min_obs: Limit, max_obs: Limit) -> None:
        self._record_arguments(min_obs=min_obs, max_obs=max_obs)
        space = env.observation_space
        if not isinstance(space, Box):
            raise InvalidBound(f"RescaleObservation requires a Box observation space, got {type(space)}")
        stretch = Stretch(space, min_obs, max_obs)
        # The bound method itself: a method that calls it would be one more frame per step.
        self._one = self._rows = stretch.forward
        super().__init__(env, stretch.forward, stretch.target)


class RescaleAction(TransformAction):
    """Actions between ``min_action`` and ``max_action``, stretched to the Box's bounds."""

    def __init__(self, env: Env[Any, Any], min_action: Limit, max_action: Limit) -> None:
        self._record_arguments(min_action=min_action, max_action=max_action)
        space = env.action_space
        if not isinstance(space, Box):
            raise InvalidBound(f"RescaleAction requires a Box action space, got {type(space)}")
        stretch = Stretch(space, min_action, max_action)
        if np.any(stretch.gradient == 0) or np.any(stretch.target.low == stretch.target.high):
            raise InvalidBound(
                f"Min action ({min_action}) must be strictly smaller than max action ({max_action}), and so "
                f"must the bounds of {space}: the rescaling has no inverse where they are equal"
            )
        self._one = self._rows = stretch.backward
        super().__init__(env, stretch.backward, stretch.target)
