"""FilterObservation: some parts of a Dict or Tuple observation, the others left out. The values are not copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from typing import Any

from paddock.core.env import Env
from paddock.errors import InvalidSpace
from paddock.spaces import Dict, Space, Tuple
from paddock.wrappers.fitted import FittedObservation
from paddock.wrappers.shown import of_logic
from paddock.wrappers.transform_observation import TransformObservation


class _Parts(FittedObservation):
    """Rows nest as members do, so one form serves both."""

    named: bool  # a Dict's parts, not a Tuple's


@dataclass(frozen=True)
class Filter(_Parts):
    """The parts that ``filter_keys`` names: keys of a Dict, places in a Tuple."""

    filter_keys: Sequence[str | int]
    around: InitVar[Space[Any]]

    def __post_init__(self, around: Space[Any]) -> None:
        keys = self.filter_keys
        if not isinstance(keys, Sequence) or isinstance(keys, str):
            raise InvalidSpace(f"Expects `filter_keys` to be a Sequence, actual type: {type(keys)}")
        if isinstance(around, Dict):
            _check_names(keys, around)
            seen: Space[Any] = Dict({key: around.spaces[key] for key in keys}, sort_keys=around.sort_keys)  # type: ignore[misc,index]
        elif isinstance(around, Tuple):
            _check_places(keys, around)
            seen = Tuple(around.spaces[key] for key in keys)  # type: ignore[index]
        else:
            raise InvalidSpace(
                "FilterObservation wrapper is only usable with `Dict` and `Tuple` observations, "
                f"actual type: {type(around)}"
            )
        self._fit(around, seen, named=isinstance(around, Dict))

    def one(self, value: Any) -> Any:
        if not self.named:
            return tuple([value[key] for key in self.filter_keys])
        kept = {}
        for key in self.filter_keys:  # not a comprehension: before Python 3.12 that is another frame
            kept[key] = value[key]
        return kept

    def rows(self, values: Any) -> Any:
        return self.one(values)


def _check_names(keys: Sequence[Any], space: Dict) -> None:
    if not all(isinstance(key, str) for key in keys):
        raise InvalidSpace(f"All filter keys must be strings for a Dict space, got {keys}")
    if missing := [key for key in keys if key not in space.spaces]:
        raise InvalidSpace(
            "All the `filter_keys` must be included in the observation space.\n"
            f"Filter keys: {keys}\nObservation keys: {list(space.spaces)}\nMissing keys: {missing}"
        )
    _check_any(keys)


def _check_places(keys: Sequence[Any], space: Tuple) -> None:
    if not all(isinstance(key, int) for key in keys):
        raise InvalidSpace(f"All filter keys must be integers for a Tuple space, got {keys}")
    length = len(space.spaces)
    if missing := [key for key in keys if not -length <= key < length]:
        raise InvalidSpace(
            "All the `filter_keys` must be included in the length of the observation space.\n"
            f"Filter keys: {keys}, length of observation: {length}, missing indexes: {missing}"
        )
    if len({key % length for key in keys}) != len(keys):
        raise InvalidSpace(f"Duplicate keys exist, filter_keys: {keys}")
    _check_any(keys)


def _check_any(keys: Sequence[Any]) -> None:
    if not len(keys):
        raise InvalidSpace("The observation space is empty due to filtering all of the keys.")


class FilterObservation(TransformObservation):
    """The agent sees only the parts ``filter_keys``: keys of a Dict, places in a Tuple."""

    filter_keys: Sequence[str | int] = of_logic()

    def __init__(self, env: Env[Any, Any], filter_keys: Sequence[str | int]) -> None:
        self._look_through(env, Filter(filter_keys, env.observation_space))
