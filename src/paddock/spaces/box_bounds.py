"""Turn what people pass as ``low`` or ``high`` into a read-only array. A uniform bound is a view on one number."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paddock.errors import InvalidBound

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Side = Literal["low", "high"]


def is_float_integer(var: object) -> TypeIs[float | np.floating[Any] | np.integer[Any]]:
    """Whether ``var`` is one number, integer or float. ``bool`` is none."""
    return isinstance(var, (int, float, np.integer, np.floating)) and not isinstance(var, (bool, np.timedelta64))


class Bound(NamedTuple):
    """One side of a Box."""

    values: NDArray[Any]  # of the Box's shape and dtype, read-only
    bounded: NDArray[np.bool_]  # where the side is finite; of the same shape, read-only
    uniform: bool  # both arrays repeat one element in memory, so looking at the first is enough

    def all_bounded(self) -> bool:
        """Whether every element is finite on this side. Looks at one element where all are the same one."""
        return bool(first(self.bounded)) if self.uniform else bool(self.bounded.all())


def first(array: NDArray[Any]) -> Any:
    """The first element, as a NumPy scalar."""
    return array[(0,) * array.ndim]


def repeat(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A read-only array of ``shape`` whose elements are all the same number in memory: any size costs nothing."""
    number = np.array(value, dtype=dtype)
    # Not np.broadcast_to: this is the same view, ten times faster to make.
    view: NDArray[Any] = np.ndarray(shape, dtype, buffer=number, strides=(0,) * len(shape))
    view.flags.writeable = False
    return view


def cast_bound(side: Side, value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Bound:
    """``value`` as a Bound, or InvalidBound. The caller's array is neither kept nor changed."""
    if is_float_integer(value):
        if value != value:
            raise InvalidBound(f"No {side} value can be equal to `np.nan`, {side}={value}")
        bounded = _is_bounded(side, value)
        number = _cast_finite(side, value, dtype) if bounded else _cast_infinite(side, value, dtype)
        return _uniform(number, bool(bounded), shape, dtype)
    if not isinstance(value, np.ndarray):
        value = _from_list(side, value)
    elif value.dtype.kind == "f" and dtype.kind == "f" and value.dtype.itemsize > dtype.itemsize:
        warnings.warn(
            f"Box {side}'s precision lowered by casting to {dtype}, current {side}.dtype={value.dtype}", stacklevel=3
        )
    if value.dtype.kind not in "fiub":
        raise InvalidBound(f"Box {side} must be a floating, integer, or bool dtype, actual dtype={value.dtype}")
    if value.shape != shape:
        raise InvalidBound(f"Box {side}.shape doesn't match provided shape, {side}.shape={value.shape}, shape={shape}")
    if np.isnan(value).any():
        raise InvalidBound(f"No {side} value can be equal to `np.nan`, {side}={value}")
    return _cast_array(side, value, dtype)


def _from_list(side: Side, value: Any) -> NDArray[Any]:
    if not isinstance(value, (list, tuple)):
        raise InvalidBound(f"Box {side} must be a np.ndarray, integer, or float, actual type={type(value)}")
    try:
        return np.asarray(value)
    except (ValueError, OverflowError) as error:
        raise InvalidBound(f"Box {side} is not a regular list of numbers: {error}") from None


def _is_bounded(side: Side, value: Any) -> Any:
    return value > -np.inf if side == "low" else value < np.inf


def _cast_infinite(side: Side, value: Any, dtype: np.dtype[Any]) -> Any:
    """The number that stands for "no bound" in this dtype."""
    if dtype.kind == "f":
        return value
    if dtype.kind != "i":
        sign = "-" if side == "low" else ""
        raise InvalidBound(f"Box unsigned int dtype don't support `{sign}np.inf`, {side}={value}")
    limits = np.iinfo(dtype)
    return limits.min if side == "low" else limits.max


def _cast_finite(side: Side, value: Any, dtype: np.dtype[Any]) -> Any:
    if _outside(value, dtype):
        least, most = _limits(dtype)
        limit = f"min dtype={least}" if side == "low" else f"max dtype={most}"
        raise InvalidBound(f"Box {side} is out of bounds of the dtype range, {side}={value}, {limit}")
    return value


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        return (limits.min, limits.max) if dtype.itemsize > 8 else (float(limits.min), float(limits.max))
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _outside(value: Any, dtype: np.dtype[Any]) -> Any:
    """Where ``value`` (a number or an array) can't be held by ``dtype``. An integer dtype can't hold infinity."""
    least, most = _limits(dtype)
    if dtype.kind == "f":
        return (np.isfinite(value) if isinstance(value, np.ndarray) else abs(value) != np.inf) & (
            (value < least) | (value > most)
        )
    # The largest 64 bit integers are no floats: as a float, the limit itself is already one too many.
    too_much = value >= float(most) if _is_float(value) and float(most) > most else value > most
    return (value < least) | too_much


def _is_float(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")


def _cast_array(side: Side, value: NDArray[Any], dtype: np.dtype[Any]) -> Bound:
    bounded = np.asarray(_is_bounded(side, value))
    outside = _outside(value, dtype) & bounded
    if outside.any():
        _cast_finite(side, value[outside][0], dtype)
    if bounded.all():
        values = value.astype(dtype)
    else:
        stand_in = _cast_infinite(side, value[~bounded][0], dtype)
        values = np.where(bounded, value, 0).astype(dtype)
        values[~bounded] = stand_in
    if values.size and _is_uniform(values) and bounded.all() == bounded.any():
        return _uniform(first(values), bool(first(bounded)), values.shape, dtype)
    values.flags.writeable = False
    bounded.flags.writeable = False
    return Bound(values, bounded, uniform=False)


def _is_uniform(values: NDArray[Any]) -> bool:
    if values.dtype.itemsize > 8:
        return False
    # Bits, not values: 0.0 and -0.0 print differently.
    bits = np.ascontiguousarray(values).reshape(-1).view(f"u{values.dtype.itemsize}")
    return bool((bits == bits[0]).all())


def _uniform(number: Any, bounded: bool, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Bound:
    return Bound(repeat(number, shape, dtype), repeat(bounded, shape, np.dtype(bool)), uniform=0 not in shape)
