"""EnvPool's batches as those of our spaces: rows of some lanes among all, dtypes, and bounds that say what is meant.

EnvPool writes "no bound" of floating point numbers as the smallest positive number and the largest, where the smallest
positive one is hardly meant.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import paddock.spaces as ours
from paddock.errors import CustomSpaceError

Array = np.ndarray[Any, Any]


def known_bounds(space: Any) -> ours.Space[Any]:
    """Ours for a space of EnvPool's, with infinities where it means them."""
    from paddock.sources.gymnasium_spaces import to_ours

    if isinstance(space, dict):
        raise CustomSpaceError(
            f"EnvPool's tasks with several actions at once ({', '.join(map(str, space))}) have no form as lanes here."
        )
    return _unbounded(to_ours(space))


def _unbounded(space: ours.Space[Any]) -> ours.Space[Any]:
    if isinstance(space, ours.Dict):
        return ours.Dict({key: _unbounded(part) for key, part in space.spaces.items()}, sort_keys=False)
    if isinstance(space, ours.Box) and space.dtype is not None and space.dtype.kind == "f":
        limits = np.finfo(space.dtype)
        free = (np.abs(space.low) == limits.tiny) & (space.high == limits.max)
        if free.any():
            low, high = np.where(free, -np.inf, space.low), np.where(free, np.inf, space.high)
            return ours.Box(low.astype(space.dtype), high.astype(space.dtype), space.shape, space.dtype)
    return space


def as_space(space: ours.Space[Any] | None, value: Any) -> Any:
    """The batch as its space has it; the very arrays where they fit. Without a space it stays as it is."""
    if isinstance(space, ours.Dict):
        return {key: as_space(part, value[key]) for key, part in space.spaces.items()}
    if space is None or (value.dtype == space.dtype and value.shape == space.shape):
        return value
    return value.reshape(space.shape).astype(space.dtype)


def with_rows(batch: Any, lanes: Any, rows: Any, num_envs: int = 0) -> Any:
    """A copy of the batch with these lanes' rows; without a batch, zeros elsewhere."""
    if isinstance(rows, dict):
        return {key: with_rows(batch and batch[key], lanes, part, num_envs) for key, part in rows.items()}
    whole = np.zeros((num_envs, *rows.shape[1:]), rows.dtype) if batch is None else batch.copy()
    whole[lanes] = rows.reshape(len(lanes), *whole.shape[1:])
    return whole
