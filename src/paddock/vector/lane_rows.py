"""CheckedRows: one worker's results of a step, copied out of shared memory and checked before anyone else sees them.

Copied first: the worker can write at any time, also between a check and the use of what was checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import ge, le
from typing import Any, NamedTuple

import numpy as np

from paddock.errors import EnvironmentViolation
from paddock.hosting.block import Block, size_of
from paddock.hosting.rows import layout, taken
from paddock.hosting.wall import finite_range, out_of_range
from paddock.hosting.wall_members import member_test, quoted, violation, wrong_place
from paddock.hosting.wall_rules import WallRules
from paddock.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

Array = np.ndarray[Any, Any]
Test = Callable[[Array], bool]

_BITS = b"\0\1"


# Up to so many numbers bounds are repeated for each row: comparing is faster so.
_FEW = 4096
# Up to so many, Python's own numbers are compared faster than NumPy's arrays.
_A_HANDFUL = 16


class Leaf(NamedTuple):
    """One array of the observations, with a row for each environment."""

    path: str
    space: Space[Any]
    values: Array
    all_fit: Test  # of the whole array
    some_fit: Test  # of some of its rows


class CheckedRows(Block):
    """A private block: copies of the results in a worker's own.

    ``spaces``: what each row's environment declared; ``single`` is the one by which memory is laid out.
    """

    def __init__(self, spaces: Sequence[Space[Any]], single: Space[Any], rules: WallRules) -> None:
        form, count = layout(single), len(spaces)
        self._lay_out(bytearray(size_of(count, form, None)), count, form, None)
        self._range = rules.reward_range
        self._low, self._high = (np.full(count, bound) for bound in finite_range(rules.reward_range))
        self._rewards_fit = between(self._low, self._high)
        alike = all(space == spaces[0] for space in spaces)
        self._leaves = [list(leaves(space, self.observations)) for space in (spaces[:1] if alike else spaces)]

    def all_honest(self) -> bool:
        """Whether nothing is wrong with any row; a False may be a false alarm. Hot: once a step of each worker."""
        if self.flags.tobytes().translate(None, _BITS):
            return False
        if not self._rewards_fit(self.rewards):
            return False
        if len(self._leaves) == 1:
            for leaf in self._leaves[0]:  # noqa: SIM110 - faster than all() over a generator
                if not leaf.all_fit(leaf.values):
                    return False
            return True
        return all(self._observation_problem(row) is None for row in range(self.rows))

    def problem(self, row: int) -> EnvironmentViolation | None:
        """What is wrong with this row, if anything is. Slow."""
        found = self._observation_problem(row)
        if found is not None:
            return found
        reward = self.rewards[row]
        if not self._low[row] <= reward <= self._high[row]:
            return out_of_range(reward, self._range)
        for name, flags in (("terminated", self.terminations), ("truncated", self.truncations)):
            if flags[row] > 1:
                return violation(name, f"{flags[row]} is no bool")
        return None

    def _observation_problem(self, row: int) -> EnvironmentViolation | None:
        for leaf in self._leaves[row if len(self._leaves) > 1 else 0]:
            part = leaf.values[row : row + 1]
            if not leaf.some_fit(part):
                if part.dtype == np.bool_ and not are_bits(part):
                    return violation(leaf.path, "a byte of it is no bool")
                return violation(*wrong_place(leaf.space, taken(leaf.values, row), leaf.path))
        return None


def leaves(space: Space[Any], values: Any, path: str = "observation") -> Iterator[Leaf]:
    """The arrays of observations that are nested as the space is, in the space's order, with their tests."""
    if isinstance(values, dict) and isinstance(space, Dict):
        for key, part in space.spaces.items():
            yield from leaves(part, values[key], f"{path}[{quoted(key)}]")
    elif isinstance(values, tuple) and isinstance(space, Tuple):
        for index, part in enumerate(space.spaces):
            yield from leaves(part, values[index], f"{path}[{index}]")
    elif isinstance(values, np.ndarray):
        test = _some_fit(space)
        yield Leaf(path, space, values, _all_fit(space, values) or test, test)


def _some_fit(space: Space[Any]) -> Test:
    """A test of many rows at once; dtype and shape are those of the layout, so only values are left to be tested."""
    kind = type(space)
    if kind is Box and isinstance(space, Box):
        if space.dtype == np.bool_:
            return lambda values: are_bits(values) and space._within(values)
        return space._within
    if kind is Discrete and isinstance(space, Discrete):
        return partial(_within, space._first, space._end - 1)
    if kind is MultiDiscrete and isinstance(space, MultiDiscrete):
        return partial(_within, space.start, space._last)
    if kind is MultiBinary:
        return are_bits
    test = member_test(space)  # a class of the caller's own
    return lambda values: all(test(taken(values, row)) for row in range(len(values)))


def _all_fit(space: Space[Any], values: Array) -> Test | None:
    """A faster test for all rows of a small float Box, the commonest observation; else None."""
    if not isinstance(space, Box) or type(space) is not Box or values.size > _FEW or space.dtype.kind != "f":
        return None
    low, high = (np.broadcast_to(bound, values.shape).copy() for bound in (space.low, space.high))
    return between(low, high)


def between(low: Array, high: Array) -> Test:
    """Whether an array of this very shape lies within the bounds; NaN does not."""
    if low.size > _A_HANDFUL:
        return partial(_within, low, high)
    lows, highs = low.ravel().tolist(), high.ravel().tolist()

    def within(values: Array) -> bool:
        numbers = values.ravel().tolist()
        return all(map(le, lows, numbers)) and all(map(ge, highs, numbers))

    return within


def _within(low: Any, high: Any, values: Array) -> bool:
    # Searching the bytes for a False is several times faster than `.all()` on small arrays.
    return b"\0" not in (values >= low).tobytes() and b"\0" not in (values <= high).tobytes()


def are_bits(values: Array) -> bool:
    """Whether each byte is 0 or 1, as a bool's is."""
    return not values.tobytes().translate(None, _BITS)
