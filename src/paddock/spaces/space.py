"""The root of all spaces: what a value may be. `np_random` is made on first use: most spaces are never sampled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

import numpy as np
import numpy.typing as npt

from paddock import seeding
from paddock.errors import InvalidSpace

if TYPE_CHECKING:
    # Only type checkers know TypeVar defaults on Python 3.10; they let you write plain `Space`.
    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", covariant=True, default=Any)
    ScalarT_co = TypeVar("ScalarT_co", bound=np.generic, covariant=True, default=Any)
    IntegerT_co = TypeVar("IntegerT_co", bound=np.integer[Any], covariant=True, default=Any)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)
    ScalarT_co = TypeVar("ScalarT_co", bound=np.generic, covariant=True)
    IntegerT_co = TypeVar("IntegerT_co", bound=np.integer, covariant=True)

MaskNDArray: TypeAlias = npt.NDArray[np.int8]

# Subspaces are seeded with draws below this number, so that every seed fits an int32.
SEED_LIMIT = 2**31 - 1


class _ForPydantic:
    """A hook of pydantic for spaces, which annotate fields; their classes don't have it."""

    def __init__(self, function: str) -> None:
        self._function = function

    def __get__(self, space: Space[Any] | None, owner: type) -> Any:
        if space is None:
            raise AttributeError(self._function)
        from paddock.spaces.records import pydantic

        return partial(getattr(pydantic, self._function), space)


class _Plain:
    """Gives spaces the memory layout of any class, so that Python lets other bases be added (``core/env.py``)."""


class Space(_Plain, Generic[T_co]):
    """What a value may be: checks it, samples it, and has a JSON form.

    A space of your own subclasses this and defines at least ``sample`` and ``contains``. ``contains`` must answer for
    any object and never raise. Functions over spaces (`flatten`, `batch_space`, ...) take rules for your class through
    their ``register``.
    """

    dtype: np.dtype[Any] | None
    _shape: tuple[int, ...] | None
    _np_random: np.random.Generator | None
    __get_pydantic_core_schema__ = _ForPydantic("core_schema_of")
    __get_pydantic_json_schema__ = _ForPydantic("json_schema_of")

    def __init__(
        self,
        shape: Sequence[int] | None = None,
        dtype: npt.DTypeLike | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        self._shape = None if shape is None else tuple(shape)
        self.dtype = None if dtype is None else np.dtype(dtype)
        self._np_random = None
        if seed is None:
            return
        if isinstance(seed, np.random.Generator):
            self._np_random = seed
        else:
            self.seed(seed)

    @property
    def np_random(self) -> np.random.Generator:
        """The generator behind ``sample``; seeded from the system's entropy unless ``seed`` was called."""
        if self._np_random is None:
            self.seed()
        if self._np_random is None:  # seed() of a Tuple or Dict without a seed reaches only the subspaces
            self._np_random, _ = seeding.np_random()
        assert self._np_random is not None
        return self._np_random

    def _copy_np_random(self) -> np.random.Generator:
        """A copy of the generator in its present state, so that ours is never shared."""
        return deepcopy(self.np_random)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of the values, or None where they are not arrays."""
        return self._shape

    @property
    def is_np_flattenable(self) -> bool:
        """Whether `flatten` gives one flat array."""
        raise NotImplementedError

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> T_co:
        """A random member. ``mask`` and ``probability`` narrow the choice; at most one of them may be given."""
        raise NotImplementedError

    def seed(self, seed: int | None = None) -> int | Any:
        """Start a new random stream and return the seed that was used; a composite space seeds its subspaces too."""
        self._np_random, used = seeding.np_random(seed)
        return used

    def _seed_with_parts(self, seed: Any, parts: Sequence[Space[Any]]) -> tuple[Any, ...]:
        """Seed this space and its parts: from entropy (None), one integer, or one seed each, the own first."""
        if seed is None:
            seed = [None] * (len(parts) + 1)
        elif is_integer(seed):
            own = Space.seed(self, seed)
            seed = [own, *self.np_random.integers(SEED_LIMIT, size=len(parts)).tolist()]
        # After one integer the own stream begins again, so that the tuple of all seeds begins the same one.
        return (Space.seed(self, seed[0]), *(part.seed(sub) for part, sub in zip(parts, seed[1:], strict=True)))

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a member. Answers for any object and never raises."""
        raise NotImplementedError

    def __contains__(self, x: Any) -> bool:
        return self.contains(x)

    def __setstate__(self, state: Iterable[tuple[str, Any]] | Mapping[str, Any]) -> None:
        """Restore a pickle; those of old versions name two of the fields without the underscore."""
        fields = dict(state)
        for name in ("shape", "np_random"):
            if name in fields:
                fields[f"_{name}"] = fields.pop(name)
        for name, value in fields.items():
            setattr(self, name, value)

    def to_jsonable(self, sample_n: Iterable[T_co]) -> list[Any] | Any:
        """A batch of members as data for ``json.dumps``, in Gymnasium's form; `value_to_json` is the exact one."""
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[Any]:
        """The batch of members that `to_jsonable` wrote."""
        return sample_n

    def to_json(self) -> str:
        """The space as JSON text: versioned, free of code, and without the random stream."""
        from paddock.spaces.json_form import to_json

        return to_json(self)

    @staticmethod
    def from_json(text: str | bytes) -> Space[Any]:
        """The space that `to_json` wrote. Safe for text from strangers: bounded, and any flaw is an InvalidSpace.

        >>> from paddock.spaces import Discrete, Space
        >>> Space.from_json(Discrete(4).to_json())
        Discrete(4)
        """
        from paddock.spaces.json_form import from_json

        return from_json(text)

    def json_schema(self) -> dict[str, Any]:
        """A JSON Schema (draft 2020-12) of what `value_to_json` gives for the members."""
        from paddock.spaces.json_schema import json_schema

        return json_schema(self)

    def value_to_json(self, x: Any) -> Any:
        """One member as JSON data; exact, with the strings ``"inf"`` and ``"-inf"`` for infinity."""
        from paddock.spaces.json_value import value_to_json

        return value_to_json(self, x)

    def value_from_json(self, data: Any) -> Any:
        """The member that `value_to_json` wrote; anything else is an InvalidSpace that names the place."""
        from paddock.spaces.json_value import value_from_json

        return value_from_json(self, data)


class ArraySpace(Space[T_co]):
    """A space whose members are arrays of one shape and dtype. Those of Discrete have no axes."""

    dtype: np.dtype[Any]
    _shape: tuple[int, ...]
    is_np_flattenable = True

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def _plain_array(self, x: Any) -> npt.NDArray[Any] | None:
        """An array, or a list as long as the space's first axis, as a plain array; None for anything else."""
        if isinstance(x, Sequence):
            return np.array(x) if self._shape and len(x) == self._shape[0] else None
        return np.asarray(x) if isinstance(x, np.ndarray) else None

    def to_jsonable(self, sample_n: Iterable[Any]) -> list[Any]:
        return [np.asarray(sample).tolist() for sample in sample_n]

    def from_jsonable(self, sample_n: Iterable[Any]) -> list[Any]:
        return [np.asarray(sample, dtype=self.dtype) for sample in sample_n]


def check_not_both(mask: Any, probability: Any) -> None:
    """Refuse a sample with both a mask and probabilities."""
    if mask is not None and probability is not None:
        raise InvalidSpace(
            "Only one of `mask` or `probability` can be provided, "
            f"actual values: mask={mask}, probability={probability}"
        )


def is_integer(value: Any) -> bool:
    """Whether ``value`` is one integer, Python's or NumPy's (``bool`` counts, as it does everywhere in Python)."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, np.timedelta64)
