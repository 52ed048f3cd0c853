"""Values as the JSON of a trace: members of a space in its JSON form, everything else as data with a few tags.

Tags are objects of one key that begins with ``$``; ``docs/traces.md`` lists them. An object of a model's own that has
such a key is itself written under a tag, so nothing that an agent says can be taken for one.

Large arrays lie in a file beside the trace, raw bytes in the order in which the lines name them. Not as ``.npy``, whose
header is Python text. A reference begins where the one before it ended or later, so that a few bytes can't be read as
many arrays.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from paddock.core.values import FEW, LITTLE_DTYPES, TRACE, Outside, TaggedJson, size_of
from paddock.errors import CustomSpaceError, InvalidSpace
from paddock.record.trace.lines import LIMITS, Limits
from paddock.spaces import Box, Dict, MultiBinary, MultiDiscrete, Space, Struct, Tuple
from paddock.spaces.json_data import is_json, to_numbers
from paddock.spaces.json_value import check_keys, decode, encode

Array: TypeAlias = NDArray[Any]
Keep: TypeAlias = Callable[[Array], Any]  # puts an array aside and returns what stands in the line for it
Fetch: TypeAlias = Callable[[Any], Array]

_ARRAY_SPACES = (Box, MultiDiscrete, MultiBinary)
_NUMBERS = re.compile(rb"\[[-+0-9.,eE\[\]trufals]{%d,}" % (2 * FEW))  # what may be a list that is put aside
_LEVELS = 16  # data that nests deeper goes the long way
_INTEGERS = ("|u1", "|i1", "<i2", "<i4", "<i8")


def member_text(space: Space[Any] | None, value: Any, keep: Keep, name: str) -> Any:
    """``member_form`` for a line. What agents and their environments say goes in as the JSON text that it is."""
    text = space.written(value) if type(space) is Struct else None
    if text is None or b'"$' in text or (text.count(b",") >= FEW and _NUMBERS.search(text)):
        return member_form(space, value, keep, name)
    return msgspec.Raw(text)


def member_form(space: Space[Any] | None, value: Any, keep: Keep, name: str) -> Any:
    """``value`` in its space's JSON form. A value outside the space is data under a tag, so that a trace has it too."""
    if space is None:
        return free_form(value, keep, name)
    try:
        if space.contains(value):
            return _form(space, value, keep)
    except (InvalidSpace, CustomSpaceError):  # keys that are not text, numbers beyond float64, a custom class
        pass
    return {"$outside": free_form(value, keep, name)}


def _form(space: Space[Any], value: Any, keep: Keep) -> Any:
    if isinstance(space, _ARRAY_SPACES):
        array = to_storable(np.asarray(value, space.dtype))
        return encode(space, value) if array is None or array.size <= FEW else keep(array)
    if type(space) is Tuple:
        return [_form(part, item, keep) for part, item in zip(space.spaces, value, strict=True)]
    if type(space) is Dict:
        check_keys(space)
        return _object({key: _form(part, value[key], keep) for key, part in space.spaces.items()})
    return _put_lists_aside(encode(space, value), keep)


def _put_lists_aside(data: Any, keep: Keep) -> Any:
    """JSON data in which long lists of numbers are put aside as arrays."""
    if isinstance(data, list):
        array = as_array(data, FEW)
        return [_put_lists_aside(item, keep) for item in data] if array is None else keep(array)
    if isinstance(data, dict):
        return _object({key: _put_lists_aside(item, keep) for key, item in data.items()})
    return data


def _object(items: dict[str, Any]) -> dict[str, Any]:
    """``items``, under a tag if one of the keys could be taken for a tag."""
    return {"$dict": [[key, item] for key, item in items.items()]} if any(k[:1] == "$" for k in items) else items


def free_form(value: Any, keep: Keep, name: str, *, drop: bool = False) -> Any:
    """Any value as data: a tuple as a list, a record as its fields. Without a form: dropped, or InvalidTrace."""
    return value if is_json(value, _LEVELS, tagged=True) else TaggedJson(TRACE, keep=keep, drop=drop).write(value, name)


def unfold(data: Any, fetch: Fetch) -> Any:
    """The data of a line with values in place of tags. A malformed tag is a ValueError."""
    return TaggedJson(TRACE, fetch=fetch).read(data, "$")


def member(space: Space[Any] | None, data: Any) -> Any:
    """The member of ``space`` that unfolded data describes. If there is none, an InvalidSpace names the place."""
    if isinstance(data, Outside):
        return data.value
    return data if space is None else _member(space, data, "$")


def _member(space: Space[Any], data: Any, path: str) -> Any:
    if isinstance(space, _ARRAY_SPACES) and isinstance(data, np.ndarray):
        if data.dtype != space.dtype or not space.contains(data):
            raise InvalidSpace(f"{path}: an array of {data.dtype} and shape {data.shape} is not in {space!r:.200}")
        return data
    if type(space) is Tuple and isinstance(data, list) and len(data) == len(space.spaces):
        return tuple(
            _member(part, item, f"{path}[{i}]") for i, (part, item) in enumerate(zip(space.spaces, data, strict=True))
        )
    if type(space) is Dict and isinstance(data, dict) and data.keys() == space.spaces.keys():
        return {key: _member(part, data[key], f"{path}.{key}") for key, part in space.spaces.items()}
    return decode(space, as_lists(data), path)


def as_array(data: list[Any], few: int) -> Array | None:
    """An array whose ``tolist`` is ``data``. None for few numbers, or for an irregular or mixed list."""
    shape: list[int] = []
    first: Any = data
    while isinstance(first, list) and first:
        shape.append(len(first))
        first = first[0]
    if math.prod(shape) <= few or type(first) not in (bool, int, float) or len(shape) > 32:
        return None
    leaves = data
    for size in shape[1:]:
        if any(type(row) is not list or len(row) != size for row in leaves):
            return None
        leaves = [leaf for row in leaves for leaf in row]
    if set(map(type, leaves)) != {type(first)}:
        return None
    array = _narrow_array(leaves, type(first))
    return None if array is None else array.reshape(shape)


def _narrow_array(leaves: list[Any], kind: type) -> Array | None:
    """The narrowest array that holds the numbers exactly."""
    if kind is bool:
        return np.array(leaves, np.bool_)
    if kind is float:
        wide: Array = np.array(leaves, np.float64)
        with np.errstate(over="ignore"):
            narrow = wide.astype(np.float32)
        return narrow if narrow.astype(np.float64).tobytes() == wide.tobytes() else wide
    low, high = min(leaves), max(leaves)
    for name in _INTEGERS:
        limits = np.iinfo(name)
        if limits.min <= low and high <= limits.max:
            return np.array(leaves, name)
    return None


def as_lists(data: Any) -> Any:
    """``data`` with nested lists in place of arrays, and names for infinity and NaN, as in JSON."""
    if isinstance(data, np.ndarray):
        return to_numbers(data)
    if isinstance(data, list):
        return [as_lists(item) for item in data]
    if isinstance(data, dict):
        return {key: as_lists(item) for key, item in data.items()}
    return data


def arrays_path(path: Path) -> Path:
    """The file with the arrays of the trace at ``path``."""
    return path.with_name(path.name + ".arrays")


def to_storable(array: Array) -> Array | None:
    """``array`` in C order and little-endian; None for one whose bytes mean nothing on another machine."""
    little = array.dtype.newbyteorder("<")
    return array.astype(little, "C", copy=False) if little.str in LITTLE_DTYPES else None


class ArrayFile:
    """Arrays on their way to the file, which is created with the first of them."""

    def __init__(self, path: Path, *, append: bool = False) -> None:
        self._path = path
        self._file: IO[bytes] | None = path.open("ab", buffering=0) if append and path.exists() else None
        self._end = 0 if self._file is None else self._file.seek(0, os.SEEK_END)

    def place(self, array: Array, batch: list[Any]) -> list[Any]:
        """Add ``array`` to the ``batch`` to be written; returns the reference to it."""
        data = _bytes_of(array)
        if data.nbytes > LIMITS.array_bytes:
            raise ValueError(f"an array of {data.nbytes} bytes; at most {LIMITS.array_bytes} are read")
        offset = self._end + sum(piece.nbytes for piece in batch)
        batch.append(data)
        return [offset, array.dtype.str, list(array.shape), hashlib.sha256(data).hexdigest()]

    def write(self, batch: list[Any]) -> None:
        """Hand all of a batch to the system: the line that names the arrays may follow."""
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
    """The arrays beside a trace, read line by line."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path, self._limits = path, limits
        self._file: IO[bytes] | None = None
        self._size = 0
        self._end = 0
        self.bytes_read = 0  # of all arrays so far

    def fetch(self, reference: list[Any]) -> Array:
        """Read the array that the line names. Other bytes than the line says are a ValueError."""
        if len(reference) != 4 or type(reference[0]) is not int or type(reference[3]) is not str:
            raise ValueError("a reference to an array is [offset, dtype, shape, sha256]")
        offset, dtype, shape, digest = reference
        size = size_of(dtype, shape, LITTLE_DTYPES)
        if size > self._limits.array_bytes:
            raise ValueError(f"an array of {size} bytes; at most {self._limits.array_bytes} are read")
        if offset < self._end:
            raise ValueError(f"an array at {offset}, before the end of the one before it at {self._end}")
        self._open()
        if offset + size > self._size:
            raise ValueError(f"an array at {offset} of {size} bytes, and {self._path.name} has {self._size}")
        array: Array = np.empty(shape, LITTLE_DTYPES[dtype])
        self._read(offset, array)
        self._end, self.bytes_read = offset + size, self.bytes_read + size
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
            raise ValueError(f"{self._path.name} is not a file")
        self._file, self._size = os.fdopen(fd, "rb", buffering=0), status.st_size


def _bytes_of(array: Array) -> memoryview:
    """The same memory as single bytes."""
    return memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]  # buffers have a type from 3.12 on


def write_all(file: IO[bytes], data: Any) -> None:
    """Hand all bytes to the system: one write of an unbuffered file may take fewer."""
    count = file.write(data)
    rest = memoryview(data)[count or 0 :]  # nearly always nothing
    while rest.nbytes:
        count = file.write(rest)
        rest = rest[count or 0 :]
