"""Block: shared memory of one worker, with a row for each of its environments: actions down, results up.

Both ends compute the same layout from the spaces, so no address crosses. The file has no name (nothing is left behind
when both ends are gone) and its size is sealed (a worker can't shrink it under the parent's feet). A worker can write
anything into its own block at any time: the parent copies values out before it uses them.
"""

from __future__ import annotations

import math
import mmap
import os
import sys
import tempfile
import time
from typing import Any

import numpy as np

from paddock.spaces.rows import Layout, from_layout, put, take_row

Array = np.ndarray[Any, Any]

_ALIGNMENT = 64  # a cache line: the two ends never write into the same one by accident
_NO_ROW = -1


class Block:
    """``rows`` environments' actions and results. ``observations`` or ``actions`` is None where sizes are not fixed.

    rewards: float64[rows]; terminations, truncations: uint8[rows], 0 or 1; observations, actions: as their layouts.
    """

    def __init__(self, fd: int, rows: int, observations: Layout, actions: Layout) -> None:
        self._lay_out(mmap.mmap(fd, size_of(rows, observations, actions)), rows, observations, actions)
        self._running[0] = _NO_ROW

    def _lay_out(self, memory: mmap.mmap | bytearray, rows: int, observations: Layout, actions: Layout) -> None:
        self._memory = memory
        self._next = 0
        self.rows = rows
        # Which row is being stepped, and since when (nanoseconds of the monotonic clock, which processes share).
        self._running = self._place(np.dtype(np.int64), (2,))
        results_at = self._next
        self.rewards = self._place(np.dtype(np.float64), (rows,))
        flags_at = self._next
        self.terminations = self._place(np.dtype(np.uint8), (rows,))
        self.truncations = self._place(np.dtype(np.uint8), (rows,))
        # All flags, and what is between and after them.
        self.flags: Array = np.ndarray(self._next - flags_at, np.uint8, memory, flags_at)
        self.observations = from_layout(observations, lambda dtype, shape: self._place(dtype, (rows, *shape)))
        self._results: Array = np.ndarray(self._next - results_at, np.uint8, memory, results_at)
        self.actions = from_layout(actions, lambda dtype, shape: self._place(dtype, (rows, *shape)))
        # The common case: one array of observations, no nesting.
        self._flat = self.observations if isinstance(self.observations, np.ndarray) else None

    def copy_results(self, other: Block) -> None:
        """Copy all results of a block with the same rows and observations, as they are at this moment."""
        self._results[:] = other._results

    @classmethod
    def create(cls, rows: int, observations: Layout, actions: Layout) -> tuple[Block, int]:
        """A new block, and the descriptor to send to the worker, which the caller closes."""
        fd = _nameless_file(size_of(rows, observations, actions))
        try:
            return cls(fd, rows, observations, actions), fd
        except BaseException:
            os.close(fd)
            raise

    def _place(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        offset, self._next = self._next, self._next + _room(dtype, shape)
        array: Array = np.ndarray(shape, dtype, self._memory, offset)
        return array

    def begin(self, row: int) -> None:
        """Note that this row is being stepped now."""
        self._running[1] = time.monotonic_ns()
        self._running[0] = row

    def idle(self) -> None:
        """Note that no row is being stepped."""
        self._running[0] = _NO_ROW

    def running(self) -> tuple[int | None, float]:
        """The row being stepped and since when (seconds of time.monotonic); the worker's claim only."""
        row, since = self._running.tolist()
        return (row if 0 <= row < self.rows else None), since / 1e9

    def action(self, row: int) -> Any:
        """The row's action; a copy, because an environment may keep it."""
        return take_row(self.actions, row)

    def put(self, row: int, observation: Any, reward: Any, terminated: Any, truncated: Any) -> None:
        """Store one step's results; ValueError or TypeError for an observation that does not fit."""
        flat = self._flat
        if flat is not None and type(observation) is np.ndarray and observation.dtype is flat.dtype:
            if observation.shape != flat.shape[1:]:
                raise ValueError(f"the observation has shape {observation.shape}, its space {flat.shape[1:]}.")
            flat[row] = observation
        elif self.observations is not None:
            put(self.observations, row, observation)
        self.rewards[row] = reward
        self.terminations[row] = bool(terminated)
        self.truncations[row] = bool(truncated)


def size_of(rows: int, observations: Layout, actions: Layout) -> int:
    """The bytes of a block."""
    sizes = [
        _room(np.dtype(np.int64), (2,)),
        _room(np.dtype(np.float64), (rows,)),
        2 * _room(np.dtype(np.uint8), (rows,)),
    ]
    for form in (observations, actions):
        from_layout(form, lambda dtype, shape: sizes.append(_room(dtype, (rows, *shape))))
    return sum(sizes)


def _room(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    return -(-dtype.itemsize * math.prod(shape) // _ALIGNMENT) * _ALIGNMENT


def _nameless_file(size: int) -> int:
    if sys.platform != "linux":
        with tempfile.TemporaryFile() as file:  # unlinked at once; no seals there
            fd = os.dup(file.fileno())
        os.ftruncate(fd, size)
        return fd
    import fcntl

    fd = os.memfd_create("paddock", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    except BaseException:
        os.close(fd)
        raise
    return fd
