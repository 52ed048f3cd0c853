"""Values as the JSON of a trace: members of a space in its JSON form, everything else as data with a few tags.

Tags are objects of one key that begins with ``$``; ``docs/traces.md`` lists them. An object of a model's own that has
such a key is itself written under a tag, so nothing that an agent says can be taken for one.

Large arrays lie in a file beside the trace, raw bytes in the order in which the lines name them. Not as ``.npy``, whose
header is Python text. A reference begins where the one before it ended or later, so that a few bytes can't be read as
many arrays.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from paddock.core.problem import kind
from paddock.core.spec_json import NOT_FINITE, array_of
from paddock.errors import CustomSpaceError, InvalidSpace, InvalidTrace, InvalidValue
from paddock.record.trace.lines import LIMITS, Limits
from paddock.spaces import Box, Dict, MultiBinary, MultiDiscrete, Space, Tuple
from paddock.spaces.json_value import check_keys, decode, encode, name_infinities
from paddock.spaces.records.fields import is_record, open_up

Array: TypeAlias = NDArray[Any]
Keep: TypeAlias = Callable[[Array], Any]  # puts an array aside and returns what stands in the line for it
Fetch: TypeAlias = Callable[[Any], Array]

FEW = 16  # numbers that stand in the line itself
MAX_DEPTH = 64
_MAX_AXES = 32
_ARRAY_SPACES = (Box, MultiDiscrete, MultiBinary)
_INTEGERS = ("|u1", "|i1", "<i2", "<i4", "<i8")
_NAMES = ["|b1", "|i1", "|u1", *(f"<{kind}{size}" for kind in "iu" for size in (2, 4, 8))]
_NAMES += ["<f2", "<f4", "<f8", "<c8", "<c16"]
DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(name) for name in _NAMES}


@dataclass(frozen=True)
class Outside:
    """A value that is not in the space that the environment declares for it."""

    value: Any


@dataclass(frozen=True)
class Dropped:
    """An info that has no form in a trace: ``kind`` is its type."""

    kind: str


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


def free_form(value: Any, keep: Keep, name: str, *, drop: bool = False, depth: int = 0) -> Any:
    """Any value as data: a tuple as a list, a record as its fields. Without a form: dropped, or InvalidTrace."""
    if value is None or isinstance(value, (bool, str)):
        return str.__str__(value) if isinstance(value, str) else value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": str(float(value))}
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if depth > MAX_DEPTH:
        return _no_form(value, f"{name[:80]} is nested deeper than {MAX_DEPTH}", drop)
    if isinstance(value, dict):
        items = [
            (key, free_form(item, keep, f"{name}[{key!r:.40}]", drop=drop, depth=depth + 1))
            for key, item in value.items()
        ]
        if all(isinstance(key, str) and key[:1] != "$" for key, _ in items):
            return {str.__str__(key): item for key, item in items}
        return {
            "$dict": [
                [free_form(key, keep, f"a key of {name}", drop=drop, depth=depth + 1), item] for key, item in items
            ]
        }
    if isinstance(value, (list, tuple)):
        return [free_form(item, keep, f"{name}[{i}]", drop=drop, depth=depth + 1) for i, item in enumerate(value)]
    return _rarer_form(value, keep, name, drop=drop, depth=depth)


def _rarer_form(value: Any, keep: Keep, name: str, *, drop: bool, depth: int) -> Any:
    if isinstance(value, np.generic) and value.dtype.kind in "biufU" and value.dtype.char != "g":
        return free_form(value.item(), keep, name, drop=drop, depth=depth + 1)
    if isinstance(value, (np.ndarray, np.generic)):
        array = to_storable(np.asarray(value))
        if array is not None:
            if array.size > FEW:
                return keep(array)
            flat = array.reshape(-1)
            if array.dtype.kind == "c":
                flat = flat.view(f"<f{array.dtype.itemsize // 2}")
            data = [item if not isinstance(item, float) or math.isfinite(item) else str(item) for item in flat.tolist()]
            return {"$array": {"dtype": array.dtype.str, "shape": list(array.shape), "data": data}}
        if value.dtype.kind == "U":
            return value.tolist()
    elif isinstance(value, Dropped):  # from a trace that is written again
        return {"$dropped": value.kind}
    elif is_record(type(value)):
        try:
            return free_form(open_up(value), keep, name, drop=drop, depth=depth + 1)
        except InvalidValue:
            pass
    return _no_form(value, f"{name} is {kind(value)}, which has no form in a trace", drop)


def _no_form(value: Any, why: str, drop: bool) -> dict[str, Any]:
    if not drop:
        raise InvalidTrace(f"{why}. Expected numbers, text, bytes, arrays, records, lists and dicts.")
    return {"$dropped": f"{type(value).__module__}.{type(value).__qualname__}"[:200]}


def unfold(data: Any, fetch: Fetch, depth: int = 0) -> Any:
    """The data of a line with values in place of tags. A malformed tag is a ValueError."""
    if depth > 2 * MAX_DEPTH:
        raise ValueError(f"nested deeper than {2 * MAX_DEPTH}")
    if isinstance(data, list):
        return [unfold(item, fetch, depth + 1) for item in data]
    if not isinstance(data, dict):
        return data
    tag = next((key for key in data if key[:1] == "$"), None)
    if tag is None:
        return {key: unfold(item, fetch, depth + 1) for key, item in data.items()}
    if len(data) != 1 or tag not in _TAGS:
        raise ValueError(f"{tag[:40]!r} is not a tag of a trace")
    try:
        return _TAGS[tag](data[tag], fetch, depth + 1)
    except (TypeError, KeyError, OverflowError, binascii.Error):
        raise ValueError(f"the tag {tag} has content that does not belong there") from None


def _unfold_array(content: Any, fetch: Fetch, depth: int) -> Any:
    if isinstance(content, list):
        return fetch(content)
    dtype, shape, data = content["dtype"], content["shape"], content["data"]
    size = size_of(dtype, shape)
    parts = 2 if dtype[1] == "c" else 1
    if len(content) != 3 or type(data) is not list or len(data) * DTYPES[dtype].itemsize != size * parts:
        raise TypeError
    flat = np.dtype(f"<f{DTYPES[dtype].itemsize // 2}") if parts == 2 else DTYPES[dtype]
    return array_of(data, flat).view(DTYPES[dtype]).reshape(shape)


def _unfold_dict(content: Any, fetch: Fetch, depth: int) -> dict[Any, Any]:
    pairs = [(unfold(key, fetch, depth), unfold(item, fetch, depth)) for key, item in content]
    found = {tuple(key) if isinstance(key, list) else key: item for key, item in pairs}
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice in one $dict")
    return found


def _unfold_dropped(content: Any, fetch: Fetch, depth: int) -> Dropped:
    if not isinstance(content, str):
        raise TypeError
    return Dropped(content)


_TAGS: dict[str, Callable[[Any, Fetch, int], Any]] = {
    "$array": _unfold_array,
    "$float": lambda content, fetch, depth: NOT_FINITE[content],
    "$bytes": lambda content, fetch, depth: base64.b64decode(content, validate=True),
    "$dict": _unfold_dict,
    "$outside": lambda content, fetch, depth: Outside(unfold(content, fetch, depth)),
    "$dropped": _unfold_dropped,
}


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
        limits = np.iinfo(DTYPES[name])
        if limits.min <= low and high <= limits.max:
            return np.array(leaves, name)
    return None


def as_lists(data: Any) -> Any:
    """``data`` with nested lists in place of arrays, and names for infinity and NaN, as in JSON."""
    if isinstance(data, np.ndarray):
        lists = data.tolist()
        return lists if data.dtype.kind != "f" or np.isfinite(data).all() else name_infinities(lists)
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
    if little.str not in DTYPES:
        return None
    return np.ascontiguousarray(array, little).reshape(array.shape)  # a 0-d array would come back with one axis


def size_of(dtype: Any, shape: Any) -> int:
    """How many bytes such an array has. ValueError if there can't be one."""
    if type(dtype) is not str or dtype not in DTYPES:
        raise ValueError(f"an array of {dtype!r:.40}, expected one of {', '.join(DTYPES)}")
    if type(shape) is not list or len(shape) > _MAX_AXES or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"an array of the shape {shape!r:.80}")
    if math.prod(n or 1 for n in shape) > 1 << 40:  # not more even where one axis is empty: NumPy has its own limits
        raise ValueError(f"an array of the shape {shape!r:.80} is too large")
    return math.prod(shape) * DTYPES[dtype].itemsize


class ArrayFile:
    """Arrays on their way to the file, which is created with the first of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._end = 0

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
    rest = memoryview(data)
    while rest.nbytes:
        count = file.write(rest)
        rest = rest[count or 0 :]
