"""Family: problems that differ in their parameters alone. The answers are computed here, where no agent's code runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

Arguments = tuple[Any, ...]  # of one call, plain data
One = TypeVar("One")


class Draws:
    """What arguments are drawn from, in Python's own numbers: results are compared by their types."""

    def __init__(self, *seeds: int) -> None:
        self._stream = np.random.default_rng(seeds)

    def number(self, least: int, most: int) -> int:
        """From ``least`` to ``most``, both included."""
        return int(self._stream.integers(least, most + 1))

    def one_of(self, choices: Sequence[One]) -> One:
        """Any of them."""
        return choices[self.number(0, len(choices) - 1)]


@dataclass(frozen=True)
class Family:
    """``statement`` has a place for each parameter. ``answer`` takes a call's arguments, then the parameters by name.

    ``draw`` makes the arguments of a call; ``edges`` are calls that a hasty solution gets wrong.
    """

    name: str
    signature: str  # as "numbers: list[int]) -> int", what follows "def solve("
    statement: str
    variants: Sequence[dict[str, Any]]
    answer: Callable[..., Any]
    draw: Callable[[Draws], Arguments]
    edges: Sequence[Arguments] = ()


def each(**choices: Iterable[Any]) -> list[dict[str, Any]]:
    """Every combination of the parameters' values.

    >>> each(base=(2, 3))
    [{'base': 2}, {'base': 3}]
    """
    found: list[dict[str, Any]] = [{}]
    for name, values in choices.items():
        listed = list(values)
        found = [{**one, name: value} for one in found for value in listed]
    return found


def whole_numbers(draws: Draws, least: int, most: int, count: int) -> list[int]:
    """``count`` of them, in any order, with repetitions."""
    return [draws.number(least, most) for _ in range(count)]
