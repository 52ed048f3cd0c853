"""The last observation of each lane, and batches of them. A lane that fails keeps the last good one."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from paddock.errors import PaddockError
from paddock.hosting import rows
from paddock.spaces import Dict, Space, Tuple
from paddock.spaces.batch import batch_space, concatenate, create_empty_array, iterate


class LaneObservations:
    """Observations of ``num_envs`` lanes: arrays where the space has a fixed size, else one object a lane."""

    def __init__(self, space: Space[Any], num_envs: int, *, copy: bool) -> None:
        self._space, self._num_envs, self._copy = space, num_envs, copy
        self._arrays = rows.empty(space, num_envs)
        self._each = [] if self._arrays is not None else _blanks(space, num_envs)
        self._flat = isinstance(self._arrays, np.ndarray)
        self._nested = isinstance(space, (Dict, Tuple))

    def put(self, lane: int, observation: Any) -> None:
        """One lane's observation; an error of NumPy's if it does not fit the space."""
        if self._arrays is None:
            if self._nested:  # one that lacks a part would break the batch of all lanes
                concatenate(self._space, [observation], create_empty_array(self._space, n=1))
            self._each[lane] = observation
        else:
            rows.put(self._arrays, lane, observation)

    def put_part(self, part: slice, values: Any) -> None:
        """Observations of neighbouring lanes, nested as the space is. Hot: each step of each worker comes here."""
        if self._flat and self._arrays.dtype != np.bool_:
            self._arrays[part] = values
        else:
            rows.each(lambda all_rows, some: _copy(all_rows, part, some), self._arrays, values)

    def put_row(self, lane: int, values: Any, row: int) -> None:
        """One lane's observation, from the row of a block."""
        rows.each(lambda all_rows, some: _copy(all_rows, lane, some[row]), self._arrays, values)

    def batch(self) -> Any:
        """All lanes: a copy, or with ``copy=False`` the buffers that the next step overwrites."""
        if self._flat:
            return self._arrays.copy() if self._copy else self._arrays
        if self._arrays is not None:
            return rows.each(np.copy, self._arrays) if self._copy else self._arrays
        batch = concatenate(self._space, self._each, create_empty_array(self._space, n=self._num_envs))
        return deepcopy(batch) if self._copy else batch

    def some(self, lanes: Sequence[int]) -> Any:
        """These lanes, in this order; always a copy."""
        if self._arrays is not None:
            return rows.each(lambda one: one[list(lanes)], self._arrays)
        chosen = [self._each[lane] for lane in lanes]
        return deepcopy(concatenate(self._space, chosen, create_empty_array(self._space, n=len(lanes))))


def _copy(all_rows: np.ndarray[Any, Any], place: Any, some: Any) -> None:
    # A worker may write any byte; one that is neither 0 nor 1 is no bool.
    all_rows[place] = np.asarray(some).view(np.uint8) != 0 if all_rows.dtype == np.bool_ else some


def _blanks(space: Space[Any], count: int) -> list[Any]:
    """What a lane shows that failed before it had an observation; None for spaces of a user's own class."""
    try:
        blanks = list(iterate(batch_space(space, count), create_empty_array(space, n=count)))
    except (PaddockError, TypeError):
        return [None] * count
    return blanks if len(blanks) == count else [None] * count
