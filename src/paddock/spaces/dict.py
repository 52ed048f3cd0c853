"""Named spaces: a member is a dict with one member of each. A plain mapping is sorted by key, as in Gymnasium."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, KeysView, Mapping
from collections.abc import Sequence as AbstractSequence
from typing import Any, Generic

import numpy as np

from paddock.errors import InvalidSpace
from paddock.spaces.space import SEED_LIMIT, Space, T_co, check_not_both, is_integer


class Dict(Space[dict[str, Any]], Mapping[str, Space[Any]], Generic[T_co]):
    """Dicts with exactly the keys of ``spaces``, each value a member of its space. Itself a mapping of those spaces.

    Spaces come as a mapping, as pairs, or as keywords. The keys of a mapping are sorted unless ``sort_keys=False``, it
    is an ``OrderedDict``, or they do not compare; pairs and keywords keep their order. `flatten` lays values out in
    that order; equality ignores it.

    >>> from paddock.spaces import Box, Discrete
    >>> Dict({"position": Box(-1, 1, (2,)), "color": Discrete(3)})
    Dict('color': Discrete(3), 'position': Box(-1.0, 1.0, (2,), float32))
    """

    spaces: dict[str, Space[Any]]
    sort_keys: bool

    def __init__(
        self,
        spaces: Mapping[str, Space[Any]] | AbstractSequence[tuple[str, Space[Any]]] | None = None,
        seed: dict[str, Any] | int | np.random.Generator | None = None,
        *,
        sort_keys: bool = True,
        **spaces_kwargs: Space[Any],
    ) -> None:
        self.sort_keys = sort_keys
        self.spaces = _in_order(spaces, sort_keys)
        for key, space in spaces_kwargs.items():
            if key in self.spaces:
                raise InvalidSpace(f"Dict space keyword '{key}' already exists in the spaces dictionary.")
            self.spaces[key] = space
        for key, space in self.spaces.items():
            if not isinstance(space, Space):
                raise InvalidSpace(f"Dict space element is not an instance of Space: key='{key}', space={space}")
        super().__init__(None, None, seed)  # type: ignore[arg-type]

    @property
    def is_np_flattenable(self) -> bool:
        return all(space.is_np_flattenable for space in self.spaces.values())

    def seed(self, seed: int | dict[str, Any] | None = None) -> dict[str, Any]:
        """Seed the subspaces: from entropy (None), from one integer, or with one seed each (dict)."""
        if seed is None:
            return {key: space.seed(None) for key, space in self.spaces.items()}
        if is_integer(seed):
            super().seed(seed)  # type: ignore[arg-type]
            subseeds = self.np_random.integers(SEED_LIMIT, size=len(self.spaces))
            return {
                key: space.seed(int(subseed))
                for (key, space), subseed in zip(self.spaces.items(), subseeds, strict=True)
            }
        if not isinstance(seed, dict):
            raise InvalidSpace(f"Expected seed type: dict, int or None, actual type: {type(seed)}")
        if seed.keys() != self.spaces.keys():
            raise InvalidSpace(f"The seed keys: {seed.keys()} are not identical to space keys: {self.spaces.keys()}")
        return {key: self.spaces[key].seed(seed[key]) for key in seed}

    def sample(
        self,
        mask: dict[str, Any] | None = None,
        probability: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """A random member. ``mask`` or ``probability``: a dict with one for each key, or None."""
        if mask is None and probability is None:
            return {key: space.sample() for key, space in self.spaces.items()}
        check_not_both(mask, probability)
        name, parts = ("mask", mask) if mask is not None else ("probability", probability)
        if not isinstance(parts, dict):
            raise InvalidSpace(f"Expected sample {name} to be a dict, actual type: {type(parts)}")
        if parts.keys() != self.spaces.keys():
            raise InvalidSpace(
                f"Expected sample {name} keys to be same as space keys, "
                f"mask keys: {parts.keys()}, space keys: {self.spaces.keys()}"
            )
        return {key: space.sample(**{name: parts[key]}) for key, space in self.spaces.items()}

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a dict with exactly these keys and a member for each. Never raises."""
        if type(x) is not dict:
            try:
                if not isinstance(x, dict):
                    return False
                x = {key: dict.__getitem__(x, key) for key in dict.keys(x)}
            except Exception:
                return False
        try:
            if len(x) != len(self.spaces):
                return False
            parts = [(space, x[key]) for key, space in self.spaces.items()]
        except Exception:  # a key is missing, or hostile keys collide
            return False
        for space, part in parts:  # noqa: SIM110 - faster than all() over a generator
            if not space.contains(part):
                return False
        return True

    def __getitem__(self, key: str) -> Space[Any]:
        return self.spaces[key]

    def keys(self) -> KeysView[str]:
        return KeysView(self.spaces)

    def __setitem__(self, key: str, value: Space[Any]) -> None:
        if not isinstance(value, Space):
            raise InvalidSpace(
                f"Trying to set {key} to Dict space with value that is not a gymnasium space, "
                f"actual type: {type(value)}"
            )
        self.spaces[key] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self.spaces)

    def __len__(self) -> int:
        return len(self.spaces)

    def __repr__(self) -> str:
        return "Dict(" + ", ".join([f"{key!r}: {space}" for key, space in self.spaces.items()]) + ")"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dict) and self.spaces == other.spaces

    def __hash__(self) -> int:
        return hash(("Dict", frozenset(self.spaces.items())))

    def to_jsonable(self, sample_n: Iterable[dict[str, Any]]) -> dict[str, list[Any]]:
        samples = list(sample_n)
        return {key: space.to_jsonable([sample[key] for sample in samples]) for key, space in self.spaces.items()}

    def from_jsonable(self, sample_n: dict[str, list[Any]]) -> list[dict[str, Any]]:  # type: ignore[override]
        columns = [space.from_jsonable(sample_n[key]) for key, space in self.spaces.items()]
        return [dict(zip(self.spaces, row, strict=True)) for row in zip(*columns, strict=True)]


def _in_order(spaces: Any, sort_keys: bool) -> dict[str, Space[Any]]:
    if spaces is None:
        return {}
    if isinstance(spaces, Mapping):
        items = list(spaces.items())
        if sort_keys and not isinstance(spaces, OrderedDict):
            try:
                items.sort(key=lambda item: item[0])
            except TypeError:  # keys that do not compare, such as 1 and "a", stay as they came
                items = list(spaces.items())
        return dict(items)
    if isinstance(spaces, AbstractSequence):
        try:
            return dict(spaces)
        except (TypeError, ValueError) as error:
            raise InvalidSpace(f"Dict space input is not a sequence of (key, space) pairs: {error}") from None
    raise InvalidSpace(
        f"Unexpected Dict space input, expecting dict, OrderedDict or Sequence, actual type: {type(spaces)}"
    )
