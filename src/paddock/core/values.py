"""How values are written: one table of kinds, and the two forms of them that have no transport of their own.

A kind is what a value is, whatever class says so: an IntEnum is an int, an OrderedDict a dict. Every form has a rule
for each kind that it carries, and an error that names the place of any other::

    kind          tagged JSON (specs, traces)       canonical bytes (digests)    the wire (hosting/values.py)
    none, bool    itself                            N, F, T                      itself
    int           itself                            i                            itself; beyond 64 bits its digits
    float         itself; {"$float": "inf"}         f                            itself
    complex       -                                 c                            real, imag
    text          itself                            s                            itself; in the body if it is long
    bytes         trace: {"$bytes": base64}         b                            itself; in the body if it is long
    bytearray     as bytes                          b                            -
    memoryview    -                                 b                            -
    list          a list                            l                            a list
    tuple         a list                            l, as a list                 its items; a namedtuple is refused
    dict          an object; trace: {"$dict": ...}  d, ordered by its keys       a map, or pairs
    array         {"$array": ...}                   a, o or r                    bytes in the body
    scalar        as the Python number it equals    as that number               its dtype and bytes
    class, dtype  spec: {"$dtype": ...}             -                            -
    record        trace: its fields                 the dict of its fields       its fields

Tuples come back as tuples from the wire alone. Members of a space have its own JSON form, see ``spaces/json_value.py``.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.core.problem import kind as name_kind
from paddock.errors import InvalidSpec, InvalidTrace, InvalidValue, NoCanonicalForm, PaddockError
from paddock.spaces.json_data import NOT_FINITE, NotANumber, from_numbers, path_of, to_numbers
from paddock.spaces.records.fields import fields_of, is_record, open_up

# In this order: a np.float64 is a float too, a bool is an int.
_BASES: tuple[tuple[type, str], ...] = (
    (np.ndarray, "array"),
    (np.generic, "scalar"),
    (type(None), "none"),
    (bool, "bool"),
    (int, "int"),
    (float, "float"),
    (complex, "complex"),
    (str, "text"),
    (bytes, "bytes"),
    (bytearray, "bytearray"),
    (memoryview, "memoryview"),
    (list, "list"),
    (tuple, "tuple"),
    (dict, "dict"),
    (type, "class"),
    (np.dtype, "dtype"),
)
# Arrays of these are written as their bytes, under these names; DTYPES has those in the other byte order too.
_SIZED = ("i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
LITTLE_DTYPES = {name: np.dtype(name) for name in ("|b1", "|i1", "|u1", *(f"<{kind}" for kind in _SIZED))}
DTYPES = {**LITTLE_DTYPES, **{f">{kind}": np.dtype(f">{kind}") for kind in _SIZED}}
NAMED_DTYPES = {dtype.name: np.dtype(dtype.name) for dtype in LITTLE_DTYPES.values() if dtype.kind != "c"}


def _classify(cls: type) -> str:
    """The kind of the values of this class; "other" if no form has a rule for it."""
    for base, kind in _BASES:
        if issubclass(cls, base):
            return kind
    return "record" if is_record(cls) else "other"


kind_of: Callable[[type], str] = lru_cache(maxsize=1024)(_classify)


def has_python_twin(scalar: np.generic) -> bool:
    """Whether ``scalar.item()`` is the same value: not of datetimes and long doubles, which Python has not."""
    return scalar.dtype.kind in "biufcSU" and scalar.dtype.char not in "gG"


# Tagged JSON: what JSON has no form for is an object of one key, a tag, that begins with ``$``


@dataclass(frozen=True)
class Dialect:
    """What one use of tagged JSON carries. ``dtypes``: those of its arrays, by name; ``error``: for what it can't."""

    name: str
    tags: frozenset[str]
    dtypes: Mapping[str, np.dtype[Any]]
    depth: int
    error: type[PaddockError]
    records: bool = False


_TRACE_TAGS = frozenset(("$array", "$float", "$bytes", "$dict", "$outside", "$dropped"))
SPEC = Dialect("spec", frozenset(("$array", "$float", "$dtype")), NAMED_DTYPES, 32, InvalidSpec)
TRACE = Dialect("trace", _TRACE_TAGS, LITTLE_DTYPES, 64, InvalidTrace, records=True)
FEW = 16  # numbers of an array that are not put aside


@dataclass(frozen=True)
class Outside:
    """A value that is not in the space that the environment declares for it."""

    value: Any


@dataclass(frozen=True)
class Dropped:
    """An info that has no form: ``kind`` is its type."""

    kind: str


class _BadTag(ValueError):
    """``data`` is an object with a tag that can't be read."""

    def __init__(self, data: dict[str, Any], problem: object) -> None:
        super().__init__(problem)
        self.data = data


class TaggedJson:
    """Values as the JSON data of a dialect, and back.

    ``keep`` puts a large array aside and returns what stands for it; ``fetch`` gets it back. With ``drop`` a value
    without a form is lost instead of an error.
    """

    def __init__(
        self,
        dialect: Dialect,
        *,
        keep: Callable[[NDArray[Any]], Any] | None = None,
        fetch: Callable[[Any], NDArray[Any]] | None = None,
        drop: bool = False,
    ) -> None:
        self._dialect, self._keep, self._fetch, self._drop = dialect, keep, fetch, drop

    def write(self, value: Any, path: str, depth: int = 0) -> Any:
        """``value`` as JSON data; ``path`` is what it is called in an error."""
        kind = kind_of(type(value))
        if kind == "text":
            return str.__str__(value)
        if kind == "float":
            return float(value) if math.isfinite(value) else {"$float": str(float(value))}
        if kind == "int":
            return int(value)
        if kind == "none" or kind == "bool":
            return value
        if kind == "scalar" and has_python_twin(value) and value.dtype.kind != "c":
            return self.write(value.item(), path, depth)
        if kind == "array" or kind == "scalar":
            return self._write_array(value, path)
        if kind == "list" or kind == "tuple" or kind == "dict":
            if depth > self._dialect.depth:
                return self._refuse(value, f"{path[:80]} is nested deeper than {self._dialect.depth}")
            if kind == "dict":
                return self._write_dict(value, path, depth + 1)
            return [self.write(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
        return self._write_other(kind, value, path, depth)

    def _write_dict(self, value: dict[Any, Any], path: str, depth: int) -> Any:
        items = [(key, self.write(item, f"{path}.{key!s:.40}", depth)) for key, item in value.items()]
        odd = next((key for key in value if not isinstance(key, str) or key[:1] == "$"), None)
        if odd is None:
            return {str.__str__(key): item for key, item in items}
        if "$dict" not in self._dialect.tags:
            raise self._dialect.error(f"{path} has the key {odd!r:.80}; keys are text that does not begin with $.")
        return {"$dict": [[self.write(key, f"a key of {path}", depth), item] for key, item in items]}

    def _write_array(self, value: NDArray[Any] | np.generic, path: str) -> Any:
        names, array = self._dialect.dtypes, np.asarray(value)
        if array.dtype.kind in "UT" and self._dialect.records:
            return array.tolist()
        if array.dtype.kind in "biufc":
            array = array.astype(array.dtype.newbyteorder("<"), "C", copy=False)
        name = array.dtype.str if array.dtype.str in names else array.dtype.name
        if name not in names:
            no_form = f"{path} is an array of {array.dtype}, which has no form in a {self._dialect.name}"
            return self._refuse(value, no_form)
        if array.size > FEW and self._keep is not None:
            return self._keep(array)
        flat = array.reshape(-1)
        if array.dtype.kind == "c":  # as pairs
            flat = flat.view(f"<f{array.dtype.itemsize // 2}")
        return {"$array": {"dtype": name, "shape": list(array.shape), "data": to_numbers(flat)}}

    def _write_other(self, kind: str, value: Any, path: str, depth: int) -> Any:
        tags = self._dialect.tags
        if kind in ("bytes", "bytearray") and "$bytes" in tags:
            return {"$bytes": base64.b64encode(value).decode("ascii")}
        of_numbers = kind == "dtype" or (kind == "class" and issubclass(value, (int, float, np.generic)))
        if of_numbers and "$dtype" in tags and np.dtype(value).name in self._dialect.dtypes:
            return {"$dtype": np.dtype(value).name}
        if isinstance(value, Dropped) and "$dropped" in tags:  # from a trace that is written again
            return {"$dropped": value.kind}
        if kind == "record" and self._dialect.records:
            with suppress(InvalidValue):
                return self.write(open_up(value), path, depth + 1)
        return self._refuse(value, f"{path} is {name_kind(value)}, which has no form in a {self._dialect.name}")

    def _refuse(self, value: Any, problem: str) -> dict[str, Any]:
        if not self._drop:
            called = f"Callable found in {problem}" if callable(value) else problem
            raise self._dialect.error(f"{called}. Use numbers, text, arrays, lists and dicts.")
        return {"$dropped": f"{type(value).__module__}.{type(value).__qualname__}"[:200]}

    def read(self, data: Any, path: str) -> Any:
        """What was written; a ValueError that names the place if ``data`` is something else."""
        try:
            return self._read(data, 0)
        except _BadTag as error:
            tag = next(key for key in error.data if key[:1] == "$")
            raise ValueError(f"{path_of(error.data, data, path)} has the tag {tag[:40]!r}: {error}") from None

    def _read(self, data: Any, depth: int) -> Any:
        if not isinstance(data, (list, dict)):
            return data
        if depth > 2 * self._dialect.depth:  # a tag makes two levels of one
            raise ValueError(f"nested deeper than {2 * self._dialect.depth}")
        if isinstance(data, list):
            return [self._read(item, depth + 1) for item in data]
        tag = next((key for key in data if key[:1] == "$"), None)
        if tag is None:
            return {key: self._read(item, depth + 1) for key, item in data.items()}
        if len(data) != 1 or tag not in self._dialect.tags:
            raise _BadTag(data, f"not a tag of a {self._dialect.name}")
        try:
            return self._read_tag(tag, data[tag], depth + 1)
        except _BadTag:
            raise
        except (TypeError, KeyError, NotANumber, binascii.Error):
            raise _BadTag(data, "it has content that does not belong there") from None
        except ValueError as error:
            raise _BadTag(data, error) from None

    def _read_tag(self, tag: str, content: Any, depth: int) -> Any:
        match tag:
            case "$float":
                return NOT_FINITE[content]
            case "$dtype":
                return self._dialect.dtypes[content]
            case "$bytes":
                return base64.b64decode(content, validate=True)
            case "$outside":
                return Outside(self._read(content, depth))
            case "$dropped" if isinstance(content, str):
                return Dropped(content)
            case "$array" if isinstance(content, list) and self._fetch is not None:
                return self._fetch(content)
            case "$array":
                return self._read_array(content)
            case "$dict":
                pairs = [(self._read(key, depth), self._read(item, depth)) for key, item in content]
                found = {tuple(key) if isinstance(key, list) else key: item for key, item in pairs}
                if len(found) != len(pairs):
                    raise ValueError("a key occurs twice in one $dict")
                return found
        raise TypeError

    def _read_array(self, content: Any) -> NDArray[Any]:
        name, shape, data = content["dtype"], content["shape"], content["data"]
        size = size_of(name, shape, self._dialect.dtypes)
        dtype = self._dialect.dtypes[name]
        part = np.dtype(f"<f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
        if len(content) != 3 or type(data) is not list or len(data) * part.itemsize != size:
            raise TypeError
        array: NDArray[Any] = from_numbers(data, part).view(dtype).reshape(shape)
        return array


def size_of(name: Any, shape: Any, dtypes: Mapping[str, np.dtype[Any]]) -> int:
    """How many bytes an array of this dtype and shape has. ValueError if there can't be one."""
    if type(name) is not str or name not in dtypes:
        raise ValueError(f"an array of {name!r:.40}, expected one of {', '.join(dtypes)}")
    if type(shape) is not list or len(shape) > 32 or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"an array of the shape {shape!r:.80}")
    if math.prod(n or 1 for n in shape) > 1 << 40:  # not more even where one axis is empty: NumPy has its own limits
        raise ValueError(f"an array of the shape {shape!r:.80} is too large")
    return math.prod(shape) * dtypes[name].itemsize


# Canonical bytes. The form, little-endian throughout, every count and length a uint64::
#
#     None N    False F    True T
#     integer   i length two's-complement-bytes
#     float     f float64                 complex   c float64 float64
#     text      s length utf-8            bytes     b length bytes
#     sequence  l count item…             mapping   d count (key value)…   ordered by the keys' bytes
#     record    the mapping of its fields, with its tag if it has one
#     array     a dtype ndim dim… bytes   in C order; the dtype as text, such as <f4
#               o ndim dim… item…         of objects or variable-length text
#               r ndim dim… count (name array)…   with fields, which leaves out the padding
#
# Floats count by their bits: 0.0 and -0.0 differ, and so do two NaNs with different payloads.


CANONICAL_DEPTH = 64


def canonical_bytes(value: Any) -> bytes:
    """The bytes of a value, the same on every machine and at every distance.

    A value may arrive as another type of the same kind, so an int and an ``np.int64``, or a tuple and a list, have the
    same bytes; two values that differ in any number, dtype, shape or nesting never do. A kind without such bytes, and
    nesting deeper than ``CANONICAL_DEPTH``, is a NoCanonicalForm that names the place.

    >>> canonical_bytes((1, "a")) == canonical_bytes([np.int64(1), "a"])
    True
    """
    if type(value) is np.ndarray:  # the usual observation
        return b"".join(_array(value, "value", 0))
    return b"".join(_chunks(value, "value", 0))


def _chunks(value: Any, path: str, depth: int) -> Iterable[bytes]:
    if depth > CANONICAL_DEPTH:
        raise NoCanonicalForm(f"{path[:80]}… is nested deeper than {CANONICAL_DEPTH}.")
    rule = _CANONICAL.get(kind_of(type(value)))
    if rule is None:
        raise NoCanonicalForm(
            f"{path} is {name_kind(value)}, which has no canonical bytes. "
            f"Expected None, numbers, text, bytes, arrays, tuples, lists, dicts or records."
        )
    return rule(value, path, depth)


def _sequence(value: tuple[Any, ...] | list[Any], path: str, depth: int) -> Iterator[bytes]:
    yield b"l" + _count(len(value))
    for at, item in enumerate(value):
        yield from _chunks(item, f"{path}[{at}]", depth + 1)


def _mapping(value: dict[Any, Any], path: str, depth: int) -> Iterator[bytes]:
    yield b"d" + _count(len(value))
    # By the keys' bytes: insertion order is not part of a mapping, and keys of several types do not compare.
    pairs = ((b"".join(_chunks(key, f"{path} key", depth + 1)), key) for key in value)
    for key_bytes, key in sorted(pairs, key=itemgetter(0)):
        yield key_bytes
        yield from _chunks(value[key], f"{path}[{key!r}]", depth + 1)


def _integer(value: int, path: str, depth: int) -> Iterable[bytes]:
    number = int(value)
    return (_with_size(b"i", number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)),)


def _scalar(value: np.generic, path: str, depth: int) -> Iterable[bytes]:
    if has_python_twin(value):  # so that np.float32(0.5) is 0.5
        return _chunks(value.item(), path, depth)
    return _array(np.asarray(value), path, depth)


def _array(value: NDArray[Any], path: str, depth: int) -> Iterable[bytes]:
    kind = value.dtype.kind
    if value.dtype.fields is not None:
        return _record_array(value, path, depth)
    if kind in "OT":
        return _object_array(value, path, depth)
    # A long double is 8, 10 or 16 bytes of number by platform, the rest padding of no certain value.
    if kind not in "biufcSUMmV" or value.dtype.char in "gG":
        raise NoCanonicalForm(f"{path} is an array of {value.dtype}, which has no canonical bytes.")
    header, little = _header(value.dtype, value.shape)
    return header, (value if little is None else value.astype(little)).tobytes()


def _object_array(value: NDArray[Any], path: str, depth: int) -> Iterator[bytes]:
    yield b"o" + _shape(value.shape)
    for at, item in enumerate(value.ravel().tolist()):
        yield from _chunks(item, f"{path}.flat[{at}]", depth + 1)


def _record_array(value: NDArray[Any], path: str, depth: int) -> Iterator[bytes]:
    names = value.dtype.names or ()
    yield b"r" + _shape(value.shape) + _count(len(names))
    for name in names:
        yield _with_size(b"s", name.encode("utf-8", "surrogatepass"))
        yield from _chunks(value[name], f"{path}[{name!r}]", depth + 1)


@lru_cache(maxsize=256)
def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[bytes, np.dtype[Any] | None]:
    """What stands before an array's bytes, and the dtype to convert to if its bytes are in the other order."""
    little = dtype.newbyteorder("<")
    return _with_size(b"a", little.str.encode()) + _shape(shape), (None if little.str == dtype.str else little)


def _shape(shape: tuple[int, ...]) -> bytes:
    return _count(len(shape)) + b"".join(map(_count, shape))


def _with_size(tag: bytes, data: bytes) -> bytes:
    return tag + _count(len(data)) + data


def _count(number: int) -> bytes:
    return struct.pack("<Q", number)


_CANONICAL: dict[str, Callable[[Any, str, int], Iterable[bytes]]] = {
    "none": lambda value, path, depth: (b"N",),
    "bool": lambda value, path, depth: (b"T" if value else b"F",),
    "int": _integer,
    "float": lambda value, path, depth: (b"f" + struct.pack("<d", value),),
    "complex": lambda value, path, depth: (b"c" + struct.pack("<dd", value.real, value.imag),),
    "text": lambda value, path, depth: (_with_size(b"s", value.encode("utf-8", "surrogatepass")),),
    **dict.fromkeys(("bytes", "bytearray", "memoryview"), lambda value, path, depth: (_with_size(b"b", bytes(value)),)),
    "list": _sequence,
    "tuple": _sequence,
    "dict": _mapping,
    "array": _array,
    "scalar": _scalar,
    "record": lambda value, path, depth: _mapping(fields_of(value) or {}, path, depth),
}
