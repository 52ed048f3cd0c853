"""The arrays beside a trace: raw bytes one after another, in the order in which the lines name them.

No ``.npy``: its header is Python text. Each reference begins where the one before ended or later, so no few bytes can
be read as many arrays.
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from paddock.record.trace.lines import LIMITS, Limits

Array = NDArray[Any]

_NAMES = ["|b1", "|i1", "|u1", *(f"<{kind}{size}" for kind in "iu" for size in (2, 4, 8))]
_NAMES += ["<f2", "<f4", "<f8", "<c8", "<c16"]
DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(name) for name in _NAMES}
_MAX_AXES = 32


def beside(path: Path) -> Path:
    """Where the arrays of the trace at ``path`` lie."""
    return path.with_name(path.name + ".arrays")


def storable(array: Array) -> Array | None:
    """``array`` in C order and little-endian; None for one whose bytes say nothing elsewhere."""
    little = array.dtype.newbyteorder("<")
    if little.str not in DTYPES:
        return None
    return np.ascontiguousarray(array, little).reshape(array.shape)  # a 0-d array would come back with one axis


def size_of(dtype: Any, shape: Any) -> int:
    """The bytes of such an array; ValueError if there is none such."""
    if type(dtype) is not str or dtype not in DTYPES:
        raise ValueError(f"an array of {dtype!r:.40}, expected one of {', '.join(DTYPES)}")
    if type(shape) is not list or len(shape) > _MAX_AXES or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"an array of the shape {shape!r:.80}")
    if math.prod(n or 1 for n in shape) > 1 << 40:  # not more even where one axis is empty: NumPy has its own limits
        raise ValueError(f"an array of the shape {shape!r:.80} is too large")
    return math.prod(shape) * DTYPES[dtype].itemsize


class ArrayFile:
    """Arrays on their way to the file, which comes to be with the first of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._end = 0

    def place(self, array: Array, batch: list[Any]) -> list[Any]:
        """The reference to ``array``, which joins the ``batch`` to be written."""
        data = _bytes_of(array)
        if data.nbytes > LIMITS.array_bytes:
            raise ValueError(f"an array of {data.nbytes} bytes; at most {LIMITS.array_bytes} are read")
        offset = self._end + sum(piece.nbytes for piece in batch)
        batch.append(data)
        return [offset, array.dtype.str, list(array.shape), hashlib.sha256(data).hexdigest()]

    def write(self, batch: list[Any]) -> None:
        """All of a batch, to the system: the line that names the arrays may follow."""
        if not batch:
            return
        if self._file is None:
            self._file = self._path.open("xb", buffering=0)
        for piece in batch:
            write_all(self._file, piece)
            self._end += piece.nbytes

    def close(self) -> None:
        """Safe to call twice."""
        if self._file is not None:
            self._file.close()


class ArraySource:
    """Arrays as a reader asks for them, line by line."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path, self._limits = path, limits
        self._file: IO[bytes] | None = None
        self._size = 0
        self._end = 0
        self.taken = 0  # bytes of all arrays so far

    def fetch(self, reference: list[Any]) -> Array:
        """The array, with bytes that are what the line says; else a ValueError."""
        if len(reference) != 4 or type(reference[0]) is not int or type(reference[3]) is not str:
            raise ValueError("a reference to an array is [offset, dtype, shape, sha256]")
        offset, dtype, shape, digest = reference
        size = size_of(dtype, shape)
        if size > self._limits.array_bytes:
            raise ValueError(f"an array of {size} bytes; at most {self._limits.array_bytes} are read")
        if offset < self._end:
            raise ValueError(f"an array at {offset}, before the end of the one before it at {self._end}")
        self._open()
        if offset + size > self._size:
            raise ValueError(f"an array at {offset} of {size} bytes, and {self._path.name} has {self._size}")
        array: Array = np.empty(shape, DTYPES[dtype])
        self._read(offset, array)
        self._end, self.taken = offset + size, self.taken + size
        if hashlib.sha256(_bytes_of(array)).hexdigest() != digest:
            raise ValueError(f"the array at {offset} of {self._path.name} is not the one that was recorded")
        if array.dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
            raise ValueError(f"the array at {offset} has bytes that are neither true nor false")
        return array

    def close(self) -> None:
        """Safe to call twice."""
        if self._file is not None:
            self._file.close()

    def _read(self, offset: int, array: Array) -> None:
        assert self._file is not None
        self._file.seek(offset)
        into = _bytes_of(array)
        while into.nbytes:
            count = self._file.readinto(into)  # type: ignore[attr-defined]
            if not count:
                raise ValueError(f"{self._path.name} became shorter while it was read")
            into = into[count:]

    def _open(self) -> None:
        if self._file is not None:
            return
        # A trace was packed by someone else: a link here could lead to any file, a pipe would never end.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        try:
            fd = os.open(self._path, flags)
        except OSError as error:
            raise ValueError(f"its arrays can't be read from {self._path.name}: {error.strerror}") from None
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            raise ValueError(f"{self._path.name} is no file")
        self._file, self._size = os.fdopen(fd, "rb", buffering=0), status.st_size


def _bytes_of(array: Array) -> memoryview:
    """The same memory as single bytes."""
    return memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]  # buffers have a type from 3.12 on


def write_all(file: IO[bytes], data: Any) -> None:
    """All bytes, to the system: an unbuffered file may take fewer than it is given."""
    rest = memoryview(data)
    while rest.nbytes:
        count = file.write(rest)
        rest = rest[count or 0 :]
