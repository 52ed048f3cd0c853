"""Arrays between two bounds. The bounds are read-only, and uniform ones take no memory however large the Box is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from paddock.errors import InvalidBound, InvalidSpace
from paddock.spaces.box_bounds import Bound, cast_bound, first, is_float_integer, repeat
from paddock.spaces.box_sampling import BoxSampler
from paddock.spaces.space import Space

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ScalarT_co = TypeVar("ScalarT_co", bound=np.generic, covariant=True, default=Any)
else:
    from typing import TypeVar

    ScalarT_co = TypeVar("ScalarT_co", bound=np.generic, covariant=True)

__all__ = ["Box", "array_short_repr", "is_float_integer"]

# What `_bind` computes from the bounds, and so no part of a pickle.
_DERIVED = (
    *("_low", "_high", "_span", "_pairs", "_check_low", "_check_high"),
    *("_sampler", "_low_repr", "_high_repr", "_hash"),
)

# Up to so many numbers are compared faster one by one in Python than by two calls of NumPy.
FEW = 16


class Box(Space[NDArray[ScalarT_co]]):
    """Arrays whose elements lie between ``low`` and ``high``, both included; infinite bounds mean no bound.

    ``low`` and ``high`` are numbers, arrays or lists. Without ``shape`` it is that of the arrays, or ``(1,)``.

    >>> Box(-1.0, 2.0, (3, 4))
    Box(-1.0, 2.0, (3, 4), float32)
    >>> Box([-1, -2], [2, 4])
    Box([-1. -2.], [2. 4.], (2,), float32)
    """

    dtype: np.dtype[Any]
    _shape: tuple[int, ...]

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
        dims = _infer_shape(low, high) if shape is None else _check_shape(shape)
        self._bind(cast_bound("low", low, dims, kind), cast_bound("high", high, dims, kind))
        low_first = self._span[0] > self._span[1] if self._span is not None else (self.low > self.high).any()
        if low_first:
            raise InvalidBound(
                "Box all low values must be less than or equal to high (some values break this), "
                f"low={self.low}, high={self.high}"
            )
        super().__init__(dims, kind, seed)

    def _bind(self, low: Bound, high: Bound) -> None:
        """Set the bounds and what `contains` needs of them."""
        self._low, self._high = low, high
        self._check_low, self._check_high = _needed_checks(low, high)
        self._span = (first(low.values).item(), first(high.values).item()) if low.uniform and high.uniform else None
        few = low.values.ndim == 1 and 0 < len(low.values) <= FEW
        self._pairs = list(zip(low.values.tolist(), high.values.tolist(), strict=True)) if few else None
        self._sampler: BoxSampler | None = None
        self._low_repr: str | None = None
        self._high_repr: str | None = None
        self._hash: int | None = None

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
        """Where ``low`` was given as a finite number, read-only."""
        return self._low.bounded

    @property
    def bounded_above(self) -> NDArray[np.bool_]:
        """Where ``high`` was given as a finite number, read-only."""
        return self._high.bounded

    @property
    def low_repr(self) -> str:
        """The lower bounds as `repr` shows them."""
        if self._low_repr is None:
            self._low_repr = str(first(self.low)) if self._low.uniform else array_short_repr(self.low)
        return self._low_repr

    @property
    def high_repr(self) -> str:
        """The upper bounds as `repr` shows them."""
        if self._high_repr is None:
            self._high_repr = str(first(self.high)) if self._high.uniform else array_short_repr(self.high)
        return self._high_repr

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def is_np_flattenable(self) -> Literal[True]:
        return True

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
        sampler = self._sampler
        if sampler is None:
            uniform = self._span is not None
            sampler = BoxSampler(self.low, self.high, self.bounded_below, self.bounded_above, uniform=uniform)
            self._sampler = sampler
        return sampler.draw(self._np_random or self.np_random)

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

    def to_jsonable(self, sample_n: Iterable[NDArray[Any]]) -> list[Any]:
        return [sample.tolist() for sample in sample_n]

    def from_jsonable(self, sample_n: Iterable[Any]) -> list[NDArray[Any]]:
        return [np.asarray(sample, dtype=self.dtype) for sample in sample_n]

    def __repr__(self) -> str:
        return f"Box({self.low_repr}, {self.high_repr}, {self.shape}, {self.dtype})"

    def __eq__(self, other: object) -> bool:
        if not (isinstance(other, Box) and self._shape == other._shape and self.dtype == other.dtype):
            return False
        if self._span is not None and other._span is not None:
            return bool(self._span == other._span)
        return _same_bound(self._low, other._low) and _same_bound(self._high, other._high)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(("Box", self._shape, self.dtype, _digest(self._low), _digest(self._high)))
        return self._hash

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in self.__dict__.items() if name not in _DERIVED}
        return {**kept, "bounds": (_compact(self._low), _compact(self._high))}

    def __setstate__(self, state: Iterable[tuple[str, Any]] | Mapping[str, Any]) -> None:
        fields = dict(state)
        if "bounds" in fields:
            low, high = (Bound(*bound) for bound in fields.pop("bounds"))
            shape = fields["_shape"]
        else:  # the fields of Gymnasium's pickles
            low, high = fields.pop("low"), fields.pop("high")
            low = Bound(
                low, fields.pop("bounded_below", -np.inf < low), False
            )  # the oldest do not say which are bounded
            high = Bound(high, fields.pop("bounded_above", high < np.inf), False)
            shape = low.values.shape
        for name in ("low_repr", "high_repr"):
            fields.pop(name, None)
        self._bind(_expand(low, shape), _expand(high, shape))
        super().__setstate__(fields)


def array_short_repr(arr: NDArray[Any]) -> str:
    """The one number that all elements are, or the whole array, as text."""
    if arr.size != 0 and np.min(arr) == np.max(arr):
        return str(np.min(arr))
    return str(arr)


def _check_shape(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, Iterable):
        raise InvalidSpace(f"Expected Box shape to be an iterable, actual type={type(shape)}")
    dims = tuple(shape)
    if not all(isinstance(dim, (int, np.integer)) for dim in dims):
        raise InvalidSpace(
            f"Expected all Box shape elements to be integer, actual type={tuple(type(dim) for dim in dims)}"
        )
    if any(dim < 0 for dim in dims):
        raise InvalidSpace(f"Expected all Box shape elements to be zero or more, actual shape={dims}")
    return tuple(int(dim) for dim in dims)


def _infer_shape(low: Any, high: Any) -> tuple[int, ...]:
    shapes = [_shape_of(bound) for bound in (low, high)]
    if None in shapes:
        raise InvalidBound(
            "Box shape is not specified, therefore inferred from low and high. Expected low and high to be np.ndarray, "
            f"integer, or float. Actual types low={type(low)}, high={type(high)}"
        )
    arrays = [shape for shape in shapes if shape != "number"]
    if not arrays:
        return (1,)
    if arrays[0] != arrays[-1]:
        raise InvalidBound(f"Box low.shape and high.shape don't match, low.shape={arrays[0]}, high.shape={arrays[-1]}")
    return arrays[0]  # type: ignore[return-value]


def _shape_of(bound: Any) -> tuple[int, ...] | Literal["number"] | None:
    if isinstance(bound, np.ndarray):
        return tuple(bound.shape)
    if isinstance(bound, (list, tuple)):
        try:
            return tuple(np.shape(bound))
        except ValueError as error:
            raise InvalidBound(f"Box bound {bound} is not a regular list of numbers: {error}") from None
    return "number" if is_float_integer(bound) else None


def _needed_checks(low: Bound, high: Bound) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """The bounds that `contains` has to compare with: not those which the dtype guarantees."""
    dtype = low.values.dtype
    least: Any
    most: Any
    if dtype.kind == "f":
        least, most = -np.inf, np.inf
    elif dtype.kind == "b":
        least, most = False, True
    else:
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    need_high = _differs(high, most)
    # One comparison must remain for floats: it is the one that refuses NaN.
    need_low = _differs(low, least) or (dtype.kind == "f" and not need_high)
    return low.values if need_low else None, high.values if need_high else None


def _differs(bound: Bound, limit: Any) -> bool:
    return bool(first(bound.values) != limit) if bound.uniform else bool((bound.values != limit).any())


def _same_bound(one: Bound, other: Bound) -> bool:
    return b"\0" not in (one.values == other.values).tobytes()


def _digest(bound: Bound) -> Any:
    """Something hashable that equal bounds share, whether they are stored as one number or as an array."""
    if bound.values.size == 0:
        return None
    if bound.uniform:
        number = first(bound.values).item()
        return number, number, number
    flat = bound.values.reshape(-1)
    return flat[0].item(), flat[flat.size // 2].item(), flat[-1].item()


def _compact(bound: Bound) -> tuple[Any, Any, bool]:
    """A bound for pickling: NumPy would write out every element of the views that `repeat` makes."""
    if bound.uniform:
        return np.asarray(first(bound.values)), np.asarray(first(bound.bounded)), True
    return bound


def _expand(bound: Bound, shape: tuple[int, ...]) -> Bound:
    if bound.uniform:
        return Bound(
            repeat(bound.values, shape, bound.values.dtype), repeat(bound.bounded, shape, np.dtype(bool)), True
        )
    for array in bound[:2]:
        array.flags.writeable = False
    return bound
