"""Arrays between two bounds. The bounds are read-only, and uniform ones take no memory however large the Box is."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paddock.errors import InvalidBound, InvalidSpace
from paddock.spaces.space import ArraySpace, ScalarT_co

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Side = Literal["low", "high"]

# What `_bind` computes from the bounds, and so not part of a pickle.
_DERIVED = ("_low", "_high", "_span", "_pairs", "_check_low", "_check_high", "_sampler")

# Up to this many numbers are compared faster one by one in Python than by two calls of NumPy.
FEW = 16
# The largest number that Generator.random returns: if this does not leave the interval, no draw does.
_LARGEST_DRAW = 1.0 - 2.0**-53
_EXACT = 2**53  # integers up to here are exact in float64


class Box(ArraySpace[NDArray[ScalarT_co]]):
    """Arrays whose elements lie between ``low`` and ``high``, both included; infinite bounds mean no bound.

    ``low`` and ``high`` are numbers, arrays or lists. Without ``shape`` it is that of the arrays, or ``(1,)``.

    >>> Box(-1.0, 2.0, (3, 4))
    Box(-1.0, 2.0, (3, 4), float32)
    >>> Box([-1, -2], [2, 4])
    Box([-1. -2.], [2. 4.], (2,), float32)
    """

    def __init__(
        self,
        low: Any,
        high: Any,
        shape: Sequence[int | np.integer[Any]] | None = None,
        dtype: Any = np.float32,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        if dtype is None:
            raise InvalidSpace("Box dtype must be explicitly provided, cannot be None.")
        kind = np.dtype(dtype)
        if kind.kind not in "iufb":
            raise InvalidSpace(f"Invalid Box dtype ({kind}), must be an integer, floating, or bool dtype")
        if shape is None:
            dims = _infer_shape(low, high)
        else:
            if not isinstance(shape, Iterable):
                raise InvalidSpace(f"Expected Box shape to be an iterable, actual type={type(shape)}")
            shape = tuple(shape)
            if not all(isinstance(dim, (int, np.integer)) for dim in shape):
                raise InvalidSpace(
                    f"Expected all Box shape elements to be integer, actual type={tuple(type(dim) for dim in shape)}"
                )
            if any(dim < 0 for dim in shape):
                raise InvalidSpace(f"Expected all Box shape elements to be zero or more, actual shape={shape}")
            dims = tuple(int(dim) for dim in shape)
        self._bind(cast_bound("low", low, dims, kind), cast_bound("high", high, dims, kind))
        low_first = self._span[0] > self._span[1] if self._span is not None else (self.low > self.high).any()
        if low_first:
            raise InvalidBound(
                "Box all low values must be less than or equal to high (some values break this), "
                f"low={self.low}, high={self.high}"
            )
        super().__init__(dims, kind, seed)

    def _bind(self, low: Bound, high: Bound) -> None:
        """Set the bounds and what follows from them."""
        self._low, self._high = low, high
        self._check_low, self._check_high = _needed_checks(low, high)
        self._span = (first(low.values).item(), first(high.values).item()) if low.uniform and high.uniform else None
        few = low.values.ndim == 1 and 0 < len(low.values) <= FEW
        self._pairs = list(zip(low.values.tolist(), high.values.tolist(), strict=True)) if few else None
        self._sampler: BoxSampler | None = None

    @property
    def low(self) -> NDArray[Any]:
        """The lower bounds, read-only."""
        return self._low.values

    @property
    def high(self) -> NDArray[Any]:
        """The upper bounds, read-only."""
        return self._high.values

    @property
    def bounded_below(self) -> NDArray[np.bool_]:
        """Where ``low`` is a finite number, read-only."""
        return self._low.bounded

    @property
    def bounded_above(self) -> NDArray[np.bool_]:
        """Where ``high`` is a finite number, read-only."""
        return self._high.bounded

    @property
    def low_repr(self) -> str:
        """The lower bounds as `repr` shows them."""
        return str(first(self.low)) if self._low.uniform else array_short_repr(self.low)

    @property
    def high_repr(self) -> str:
        """The upper bounds as `repr` shows them."""
        return str(first(self.high)) if self._high.uniform else array_short_repr(self.high)

    def is_bounded(self, manner: Literal["both", "below", "above"] = "both") -> bool:
        """Whether every element has a bound on that side."""
        if manner not in ("both", "below", "above"):
            raise InvalidSpace(f"manner is not in {{'below', 'above', 'both'}}, actual value: {manner}")
        return (manner == "above" or self._low.all_bounded()) and (manner == "below" or self._high.all_bounded())

    def sample(self, mask: None = None, probability: None = None) -> NDArray[Any]:
        """A random member: uniform between two bounds, exponential from one, normal without. Masks are not possible."""
        if mask is not None:
            raise InvalidSpace(f"Box.sample cannot be provided a mask, actual value: {mask}")
        if probability is not None:
            raise InvalidSpace(f"Box.sample cannot be provided a probability mask, actual value: {probability}")
        if self._sampler is None:
            self._sampler = BoxSampler(self)
        return self._sampler.draw(self._np_random or self.np_random)

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is an array of this shape, of a dtype that casts safely, within the bounds. Never raises.

        Lists and other things that NumPy makes arrays of are cast to the dtype first. NaN is never a member.
        """
        try:
            if type(x) is not np.ndarray:
                x = self._to_array(x)
            if x.shape != self._shape:
                return False
            if self._pairs is not None and x.dtype is self.dtype:
                return self._few_within(x)
            return self._within(x)
        except Exception:
            return False

    def _few_within(self, x: NDArray[Any]) -> bool:
        """Whether a vector of few elements, of the right shape and dtype, is within the bounds. NaN is not."""
        if self._span is not None:
            low, high = self._span
            for number in x.tolist():  # noqa: SIM110 - faster than all() over a generator
                if not low <= number <= high:
                    return False
            return True
        pairs, i = self._pairs, 0
        for number in x.tolist():
            low, high = pairs[i]  # type: ignore[index]
            if not low <= number <= high:
                return False
            i += 1  # noqa: SIM113 - a hot loop: enumerate and zip are slower
        return True

    def _within(self, x: NDArray[Any]) -> bool:
        """Whether all elements of ``x``, a member or a batch of them, fit the dtype and the bounds."""
        if not (x.dtype is self.dtype or np.can_cast(x.dtype, self.dtype)):
            return False
        # Searching the bytes for a False is several times faster than `.all()` on small arrays.
        low, high = self._check_low, self._check_high
        if low is not None and b"\0" in (x >= low).tobytes():
            return False
        return high is None or b"\0" not in (x <= high).tobytes()

    def _to_array(self, x: Any) -> NDArray[Any]:
        if isinstance(x, np.ndarray):
            return np.asarray(x)
        if isinstance(x, (list, tuple, range)) and (not self._shape or len(x) != self._shape[0]):
            raise ValueError("wrong length")  # said before NumPy turns range(10**9) into an array
        plain = np.asarray(x)
        if plain.dtype.kind == "c" or (
            plain.dtype.kind == "O" and any(isinstance(v, np.complexfloating) for v in plain.reshape(-1))
        ):
            raise ValueError("complex")  # NumPy would warn and drop the imaginary part
        if plain.size and plain.dtype.kind in "iu" and self.dtype.kind in "iu":
            limits = np.iinfo(self.dtype)
            if plain.min() < limits.min or plain.max() > limits.max:
                raise ValueError("overflow")  # NumPy 1 would warn and wrap around
        with np.errstate(all="ignore"):
            return np.asarray(x, dtype=self.dtype)

    def _uniform_like(self, shape: tuple[int, ...], seed: np.random.Generator | None = None) -> Box | None:
        """A Box of another shape with the same bounds, where they are uniform; it costs no memory either."""
        if self._span is None:
            return None
        low, high = self._span
        if self.dtype.kind == "b":
            low, high = int(low), int(high)
        return Box(low, high, shape, self.dtype, seed)

    def __repr__(self) -> str:
        return f"Box({self.low_repr}, {self.high_repr}, {self.shape}, {self.dtype})"

    def __eq__(self, other: object) -> bool:
        if not (isinstance(other, Box) and self._shape == other._shape and self.dtype == other.dtype):
            return False
        if self._span is not None and other._span is not None:
            return bool(self._span == other._span)
        return self._low.equals(other._low) and self._high.equals(other._high)

    def __hash__(self) -> int:
        return hash(("Box", self._shape, self.dtype, self._low.digest(), self._high.digest()))

    def __getstate__(self) -> dict[str, Any]:
        fields = {name: value for name, value in self.__dict__.items() if name not in _DERIVED}
        return {**fields, "bounds": (self._low.compact(), self._high.compact())}

    def __setstate__(self, state: Iterable[tuple[str, Any]] | Mapping[str, Any]) -> None:
        fields = dict(state)
        if "bounds" in fields:
            low, high = (Bound(*bound) for bound in fields.pop("bounds"))
            shape = fields["_shape"]
        else:  # the fields of Gymnasium's pickles
            low, high = fields.pop("low"), fields.pop("high")
            # The oldest do not say which are bounded.
            low = Bound(low, fields.pop("bounded_below", -np.inf < low), False)
            high = Bound(high, fields.pop("bounded_above", high < np.inf), False)
            shape = low.values.shape
        for name in ("low_repr", "high_repr"):
            fields.pop(name, None)
        self._bind(low.expand(shape), high.expand(shape))
        super().__setstate__(fields)


def array_short_repr(arr: NDArray[Any]) -> str:
    """The one number that all elements are, or the whole array, as text."""
    if arr.size != 0 and np.min(arr) == np.max(arr):
        return str(np.min(arr))
    return str(arr)


def _infer_shape(low: Any, high: Any) -> tuple[int, ...]:
    shapes = []
    for bound in (low, high):
        if isinstance(bound, (np.ndarray, list, tuple)):
            try:
                shapes.append(tuple(np.shape(bound)))
            except ValueError as error:
                raise InvalidBound(f"Box bound {bound} is not a regular list of numbers: {error}") from None
        elif not is_float_integer(bound):
            raise InvalidBound(
                "Box shape is not specified, therefore inferred from low and high. Expected low and high to be "
                f"np.ndarray, integer, or float. Actual types low={type(low)}, high={type(high)}"
            )
    if not shapes:
        return (1,)
    if shapes[0] != shapes[-1]:
        raise InvalidBound(f"Box low.shape and high.shape don't match, low.shape={shapes[0]}, high.shape={shapes[-1]}")
    return shapes[0]


def _needed_checks(low: Bound, high: Bound) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """The bounds that `contains` has to compare with: not those that the dtype guarantees."""
    dtype = low.values.dtype
    least, most = (-np.inf, np.inf) if dtype.kind == "f" else _limits(dtype)
    need_high = high.differs_from(most)
    # One comparison must remain for floats: it is the one that refuses NaN.
    need_low = low.differs_from(least) or (dtype.kind == "f" and not need_high)
    return low.values if need_low else None, high.values if need_high else None


def is_float_integer(var: object) -> TypeIs[float | np.floating[Any] | np.integer[Any]]:
    """Whether ``var`` is one number, integer or float, but not a bool."""
    return isinstance(var, (int, float, np.integer, np.floating)) and not isinstance(var, (bool, np.timedelta64))


class Bound(NamedTuple):
    """One side of a Box."""

    values: NDArray[Any]  # of the Box's shape and dtype, read-only
    bounded: NDArray[np.bool_]  # where the side is finite; of the same shape, read-only
    uniform: bool  # both arrays repeat one element in memory, so looking at the first is enough

    def all_bounded(self) -> bool:
        """Whether every element is finite on this side. Looks at one element where all are the same one."""
        return bool(first(self.bounded)) if self.uniform else bool(self.bounded.all())

    def differs_from(self, limit: Any) -> bool:
        """Whether any element is not ``limit``."""
        return bool(first(self.values) != limit) if self.uniform else bool((self.values != limit).any())

    def equals(self, other: Bound) -> bool:
        """Whether all elements are the same."""
        return b"\0" not in (self.values == other.values).tobytes()

    def digest(self) -> Any:
        """Something hashable that equal bounds share, whether they are stored as one number or as an array."""
        if self.values.size == 0:
            return None
        if self.uniform:
            number = first(self.values).item()
            return number, number, number
        flat = self.values.reshape(-1)
        return flat[0].item(), flat[flat.size // 2].item(), flat[-1].item()

    def compact(self) -> tuple[Any, Any, bool]:
        """The fields for a pickle: NumPy would write out every element of the views that `repeat` makes."""
        if self.uniform:
            return np.asarray(first(self.values)), np.asarray(first(self.bounded)), True
        return self.values, self.bounded, False

    def expand(self, shape: tuple[int, ...]) -> Bound:
        """Undo `compact`."""
        if self.uniform:
            values = repeat(self.values, shape, self.values.dtype)
            return Bound(values, repeat(self.bounded, shape, np.dtype(bool)), True)
        self.values.flags.writeable = self.bounded.flags.writeable = False
        return self


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
    if isinstance(value, (list, tuple)):
        try:
            value = np.asarray(value)
        except (ValueError, OverflowError) as error:
            raise InvalidBound(f"Box {side} is not a regular list of numbers: {error}") from None
    elif not isinstance(value, np.ndarray):
        raise InvalidBound(f"Box {side} must be a np.ndarray, integer, or float, actual type={type(value)}")
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
    # The largest 64 bit integers are not floats: as a float, the limit itself is already one too many.
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
    if values.size and bounded.all() == bounded.any() and dtype.itemsize <= 8:
        # Bits, not values: 0.0 and -0.0 print differently.
        bits = np.ascontiguousarray(values).reshape(-1).view(f"u{dtype.itemsize}")
        if (bits == bits[0]).all():
            return _uniform(first(values), bool(first(bounded)), values.shape, dtype)
    values.flags.writeable = False
    bounded.flags.writeable = False
    return Bound(values, bounded, uniform=False)


def _uniform(number: Any, bounded: bool, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Bound:
    return Bound(repeat(number, shape, dtype), repeat(bounded, shape, np.dtype(bool)), uniform=0 not in shape)


class BoxSampler:
    """Draws members of one Box: the numbers that Gymnasium draws, in its order, with everything prepared beforehand.

    Per element: uniform between two bounds, exponential from one bound, normal without bounds. Integers are floors of
    the uniform draw up to ``high + 1``.
    """

    def __init__(self, box: Box[Any]) -> None:
        low, high, below, above = box.low, box.high, box.bounded_below, box.bounded_above
        self._shape, self._dtype = box.shape, box.dtype
        self._is_float = low.dtype.kind == "f"
        self._uniform = box._span is not None
        if self._uniform:  # one number stands for all elements
            low, high, below, above = (np.asarray(first(array)) for array in (low, high, below, above))
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
            values = self._draw_between(generator, self._low, self._top, self._range, self._shape)
            if self._floors:
                np.floor(values, values)
            return self._cast_and_clip(values) if self._clips else values.astype(self._dtype)
        if self._all_free and self._is_float:
            return np.asarray(generator.standard_normal(self._shape)).astype(self._dtype)
        return self._draw_mixed(generator)

    def _draw_between(
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
            flat[between] = self._draw_between(generator, low[between], top[between], span[between], between.shape)
        if self._is_float:
            return values.astype(self._dtype)
        np.floor(values, values)
        return self._cast_and_clip(values)

    def _cast_and_clip(self, values: NDArray[np.float64]) -> NDArray[Any]:
        """Cast, and bring back what rounding or a long tail has put outside."""
        low, high = self._limits
        if not self._is_float and self._dtype.kind != "b":
            limits = np.iinfo(self._dtype)
            # nextafter: the largest float that still fits, because the limit of a 64 bit integer is not a float.
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
