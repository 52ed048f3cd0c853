"""StepLayout: where a step's actions and results lie as bytes. One layout for shared memory, sockets and websockets.

Both ends compute it from the spaces, so no address crosses. What a row would change, if only its type, does not go into
a row: it travels as a value. A Block is n rows in memory that a worker shares with its parent.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
import sys
import tempfile
import time
from typing import Any, TypeAlias

import numpy as np

from paddock.errors import BadFrame
from paddock.spaces.rows import Layout, each, from_layout, put, put_exactly, take_row

Array = np.ndarray[Any, Any]
Buffer: TypeAlias = "bytes | bytearray | memoryview | mmap.mmap"

_INTEGER = struct.Struct("<q")
_INTEGERS = range(-(1 << 63), 1 << 63)
_NUMBERS = struct.Struct("<dBB6x")  # of one environment: reward, terminated, truncated
FLAGS: tuple[Any, ...] = (False, True, *range(2, 256))  # a byte that is not a bool stays what it is


def _padded(size: int, to: int = 8) -> int:
    return -(-size // to) * to


class ValueRows:
    """``count`` values of a space in a buffer, or with None the one of an environment by itself."""

    def __init__(self, form: Layout, count: int | None) -> None:
        self.form, self._count = form, count
        sizes: list[int] = []
        from_layout(form, lambda dtype, shape: sizes.append(_padded(self._size(dtype, shape))))
        self.size = sum(sizes)
        self._flat: tuple[np.dtype[Any], tuple[int, ...]] | None = None
        self._scalar: type | None = None  # of NumPy, if one value is a number
        if form is not None and "array" in form:
            dtype, shape = np.dtype(form["array"][0]), tuple(form["array"][1])
            self._flat = dtype, shape if count is None else (count, *shape)
            self._scalar = dtype.type if self._flat[1] == () else None
            self._padding = bytes(self.size - self._size(dtype, shape))

    def _size(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
        return (1 if self._count is None else self._count) * dtype.itemsize * math.prod(shape)

    def arrays(self, buffer: Buffer, at: int) -> Any:
        """Views of the buffer, nested like the space, with a leading axis of all rows."""
        count = self._count or 1

        def place(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
            nonlocal at
            array: Array = np.ndarray((count, *shape), dtype, buffer, at)
            at += _padded(self._size(dtype, shape))
            return array

        return from_layout(self.form, place)

    def pack(self, value: Any) -> bytes | None:
        """The bytes of a value, or None if they would not give back the very same. Hot."""
        if self._flat is None:
            return self._pack_parts(value)
        kind = type(value)
        if kind is np.ndarray:
            dtype, shape = self._flat
            if not shape or value.dtype != dtype or value.shape != shape:
                return None
            return value.tobytes() + self._padding  # type: ignore[no-any-return]
        if kind is self._scalar:
            return value.tobytes() + self._padding  # type: ignore[no-any-return]
        if kind is int and self._scalar is np.int64 and value in _INTEGERS:
            return _INTEGER.pack(value)
        return None

    def _pack_parts(self, value: Any) -> bytes | None:
        if self.form is None:
            return None
        buffer = bytearray(self.size)
        arrays = self.arrays(buffer, 0)
        if self._count is None:
            return bytes(buffer) if put_exactly(arrays, 0, value) else None
        whole = each(lambda array: array[None], arrays)  # as one row of all
        return bytes(buffer) if put_exactly(whole, 0, value) else None

    def take(self, buffer: Buffer, at: int, *, plain: bool) -> Any:
        """The value; arrays are views of the buffer. ``plain``: an integer is Python's own. Hot."""
        if plain:
            if self._scalar is not np.int64:
                raise BadFrame("a row is said to hold an int of Python's, which its space does not have")
            return _INTEGER.unpack_from(buffer, at)[0]
        if self._flat is None or self._flat[0] == np.bool_:
            arrays = each(_with_bools, self.arrays(buffer, at))
            return take_row(arrays, 0) if self._count is None else arrays
        dtype, shape = self._flat
        array: Array = np.ndarray(shape, dtype, buffer, at)
        return array if shape else array[()]


def _with_bools(array: Array) -> Array:
    if array.dtype == np.bool_:
        octets = array.view(np.uint8)
        np.minimum(octets, 1, out=octets)  # NumPy trusts that a bool is 0 or 1
    return array


class StepLayout:
    """The rows of ``count`` environments, or with None of one by itself: its actions down, its results up.

    Results: float64 rewards, a byte for each terminated, then for each truncated, then observations. Each array begins
    at a multiple of 8 bytes.
    """

    def __init__(self, observations: Layout, actions: Layout, count: int | None = None) -> None:
        self.count = count
        self.actions, self.observations = ValueRows(actions, count), ValueRows(observations, count)
        self._rows = rows = 1 if count is None else count
        self.observations_at = _padded(10 * rows)
        self.result_bytes = self.observations_at + self.observations.size

    def pack_result(self, observation: Any, reward: Any, terminated: Any, truncated: Any) -> bytes | None:
        """The bytes of a step's results, or None if they would not give back the very same. Hot."""
        if self.count is None:
            if type(reward) is not float or type(terminated) is not bool or type(truncated) is not bool:
                return None
            numbers = _NUMBERS.pack(reward, terminated, truncated)
        else:
            shape = (self.count,)
            for array, dtype in ((reward, np.float64), (terminated, np.bool_), (truncated, np.bool_)):
                if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
                    return None
            padding = bytes(self.observations_at - 10 * self.count)
            numbers = b"".join((reward.tobytes(), terminated.tobytes(), truncated.tobytes(), padding))
        rows = self.observations.pack(observation)
        return None if rows is None else numbers + rows

    def take_result(self, buffer: bytearray | memoryview, *, plain: bool) -> tuple[Any, Any, Any, Any]:
        """Observation, reward, terminated, truncated: what ``pack_result`` was given. The buffer is theirs now. Hot."""
        if len(buffer) != self.result_bytes or self.observations.form is None:
            raise BadFrame(f"the rows of a step have {len(buffer)} bytes, expected {self.result_bytes}")
        observation = self.observations.take(buffer, self.observations_at, plain=plain)
        if self.count is None:
            reward, terminated, truncated = _NUMBERS.unpack_from(buffer)
            return observation, reward, FLAGS[terminated], FLAGS[truncated]
        rewards, terminations, truncations = self.numbers(buffer, 0)
        return observation, rewards, terminations.view(np.bool_), truncations.view(np.bool_)

    def take_action(self, buffer: bytearray | memoryview, *, plain: bool) -> Any:
        """What ``actions.pack`` was given. The buffer is its now."""
        if len(buffer) != self.actions.size or self.actions.form is None:
            raise BadFrame(f"the rows of an action have {len(buffer)} bytes, expected {self.actions.size}")
        return self.actions.take(buffer, 0, plain=plain)

    def numbers(self, buffer: Buffer, at: int) -> tuple[Array, Array, Array]:
        """Views of the rewards and, as bytes, of the flags."""
        rows = self._rows
        return (
            np.ndarray(rows, np.float64, buffer, at),
            np.ndarray(rows, np.uint8, buffer, at + 8 * rows),
            np.ndarray(rows, np.uint8, buffer, at + 9 * rows),
        )


_LINE = 64  # of the cache: the two ends never write into the same one by accident
_NO_ROW = -1


class Block:
    """Memory of one worker with a row for each of its environments.

    Its file has no name (nothing is left behind when both ends are gone) and its size is sealed (a worker can't shrink
    it under the parent's feet). A worker can write anything into it at any time: the parent copies before it uses.
    ``observations`` or ``actions`` is None where sizes are not fixed. rewards: float64[rows]; terminations,
    truncations: uint8[rows].
    """

    def __init__(self, layout: StepLayout, fd: int | None = None) -> None:
        """Map the file ``fd``, or use private memory."""
        self.layout = layout
        actions_at = _LINE + _padded(layout.result_bytes, _LINE)
        size = actions_at + _padded(layout.actions.size, _LINE)
        memory: Any = bytearray(size) if fd is None else mmap.mmap(fd, size)
        self.rows = rows = layout.count or 1
        # Which row is being stepped, and since when (nanoseconds of the monotonic clock, which processes share).
        self._running: Array = np.ndarray(2, np.int64, memory)
        self._running[0] = _NO_ROW
        self._results: Array = np.ndarray(layout.result_bytes, np.uint8, memory, _LINE)
        self.rewards, self.terminations, self.truncations = layout.numbers(memory, _LINE)
        self.flags: Array = np.ndarray((2, rows), np.uint8, memory, _LINE + 8 * rows)
        self.observations = layout.observations.arrays(memory, _LINE + layout.observations_at)
        self.actions = layout.actions.arrays(memory, actions_at)
        self._flat = self.observations if isinstance(self.observations, np.ndarray) else None

    @classmethod
    def create(cls, layout: StepLayout) -> tuple[Block, int]:
        """A new block, and the descriptor to send to the worker, which the caller closes."""
        fd = _nameless_file(_LINE + _padded(layout.result_bytes, _LINE) + _padded(layout.actions.size, _LINE))
        try:
            return cls(layout, fd), fd
        except BaseException:
            os.close(fd)
            raise

    def copy_results(self, other: Block) -> None:
        """Copy all results of a block with the same layout, as they are at this moment."""
        self._results[:] = other._results

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
