"""Canonical bytes: one byte string for a value, the same on every machine and at every distance.

A value that travelled may come back as another type of the same kind, so an int and an ``np.int64``, or a tuple and a
list, have the same bytes; but no two values that differ in any number, dtype, shape or nesting do.

The form, little-endian throughout, every count and length a uint64::

    None N    False F    True T
    integer   i length two's-complement-bytes
    float     f float64                 complex   c float64 float64
    text      s length utf-8            bytes     b length bytes
    sequence  l count item…             mapping   d count (key value)…   ordered by the keys' bytes
    record    the mapping of its fields, with its tag if it has one
    array     a dtype ndim dim… bytes   in C order; the dtype as text, such as <f4
              o ndim dim… item…         of objects or variable-length text
              r ndim dim… count (name array)…   with fields, which leaves out the padding

Floats count by their bits: 0.0 and -0.0 differ, and so do two NaNs with different payloads.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np

from paddock.core.problem import kind
from paddock.errors import NoCanonicalForm
from paddock.spaces.records.fields import fields_of

MAX_DEPTH = 64
_PLAIN_KINDS = "biufcSUMmV"
_BY_ELEMENT = "OT"


def canonical_bytes(value: Any) -> bytes:
    """The bytes of a value made of None, numbers, text, bytes, arrays, tuples, lists, dicts and records.

    Anything else, and nesting deeper than ``MAX_DEPTH``, is a NoCanonicalForm that names the place.

    >>> canonical_bytes((1, "a")) == canonical_bytes([np.int64(1), "a"])
    True
    """
    if type(value) is np.ndarray:  # the usual observation
        return b"".join(_array(value, "value", 0))
    return b"".join(_chunks(value, "value", 0))


def _chunks(value: Any, path: str, depth: int) -> Iterator[bytes]:
    if depth > MAX_DEPTH:
        raise NoCanonicalForm(f"{path[:80]}… is nested deeper than {MAX_DEPTH}.")
    if isinstance(value, np.ndarray):
        return _array(value, path, depth)
    if isinstance(value, np.generic):
        return _scalar(value, path, depth)
    for types, form in _FORMS:
        if isinstance(value, types):
            return form(value, path, depth)
    fields = fields_of(value)
    if fields is not None:
        return _mapping(fields, path, depth)
    raise NoCanonicalForm(
        f"{path} is {kind(value)}, which has no canonical bytes. "
        f"Expected None, numbers, text, bytes, arrays, tuples, lists, dicts or records."
    )


def _constant(value: bool | None, path: str, depth: int) -> Iterator[bytes]:
    yield {None: b"N", False: b"F", True: b"T"}[value]


def _integer(value: int, path: str, depth: int) -> Iterator[bytes]:
    number = int(value)
    yield _sized(b"i", number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True))


def _float(value: float, path: str, depth: int) -> Iterator[bytes]:
    yield b"f" + struct.pack("<d", value)


def _complex(value: complex, path: str, depth: int) -> Iterator[bytes]:
    yield b"c" + struct.pack("<dd", value.real, value.imag)


def _text(value: str, path: str, depth: int) -> Iterator[bytes]:
    yield _sized(b"s", value.encode("utf-8", "surrogatepass"))


def _bytes(value: bytes | bytearray | memoryview, path: str, depth: int) -> Iterator[bytes]:
    yield _sized(b"b", bytes(value))


def _sequence(value: tuple[Any, ...] | list[Any], path: str, depth: int) -> Iterator[bytes]:
    yield b"l" + _count(len(value))
    for at, item in enumerate(value):
        yield from _chunks(item, f"{path}[{at}]", depth + 1)


def _mapping(value: dict[Any, Any], path: str, depth: int) -> Iterator[bytes]:
    yield b"d" + _count(len(value))
    # By the keys' bytes: insertion order is not part of a mapping, and keys of several types do not compare.
    pairs = ((b"".join(_chunks(key, f"{path} key", depth + 1)), key) for key in value)
    keyed = sorted(pairs, key=itemgetter(0))
    for key_bytes, key in keyed:
        yield key_bytes
        yield from _chunks(value[key], f"{path}[{key!r}]", depth + 1)


def _scalar(value: np.generic, path: str, depth: int) -> Iterator[bytes]:
    # By value, so that np.float32(0.5) is 0.5; datetimes and long doubles have no type in Python.
    by_value = value.dtype.kind in "biufcSU" and value.dtype.char not in "gG"
    return _chunks(value.item(), path, depth) if by_value else _array(np.asarray(value), path, depth)


def _array(value: np.ndarray[Any, Any], path: str, depth: int) -> Iterator[bytes]:
    kind = value.dtype.kind
    if value.dtype.fields is not None:
        return _record_array(value, path, depth)
    if kind in _BY_ELEMENT:
        return _object_array(value, path, depth)
    # A long double is 8, 10 or 16 bytes of number by platform, the rest padding of no certain value.
    if kind not in _PLAIN_KINDS or value.dtype.char in "gG":
        raise NoCanonicalForm(f"{path} is an array of {value.dtype}, which has no canonical bytes.")
    header, little = _header(value.dtype, value.shape)
    return iter((header, (value if little is None else value.astype(little)).tobytes()))


def _object_array(value: np.ndarray[Any, Any], path: str, depth: int) -> Iterator[bytes]:
    yield b"o" + _shape(value.shape)
    for at, item in enumerate(value.ravel().tolist()):
        yield from _chunks(item, f"{path}.flat[{at}]", depth + 1)


def _record_array(value: np.ndarray[Any, Any], path: str, depth: int) -> Iterator[bytes]:
    names = value.dtype.names or ()
    yield b"r" + _shape(value.shape) + _count(len(names))
    for name in names:
        yield _sized(b"s", name.encode("utf-8", "surrogatepass"))
        yield from _chunks(value[name], f"{path}[{name!r}]", depth + 1)


@lru_cache(maxsize=256)
def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[bytes, np.dtype[Any] | None]:
    """What stands before an array's bytes, and the dtype to convert to first if its bytes are in the other order."""
    little = dtype.newbyteorder("<")
    return _sized(b"a", little.str.encode()) + _shape(shape), (None if little.str == dtype.str else little)


def _shape(shape: tuple[int, ...]) -> bytes:
    return _count(len(shape)) + b"".join(map(_count, shape))


def _sized(tag: bytes, data: bytes) -> bytes:
    return tag + _count(len(data)) + data


def _count(number: int) -> bytes:
    return struct.pack("<Q", number)


# bool stands before int, of which it is a subclass.
_FORMS: tuple[tuple[tuple[type, ...], Callable[[Any, str, int], Iterator[bytes]]], ...] = (
    ((type(None), bool), _constant),
    ((int,), _integer),
    ((float,), _float),
    ((str,), _text),
    ((tuple, list), _sequence),
    ((dict,), _mapping),
    ((bytes, bytearray, memoryview), _bytes),
    ((complex,), _complex),
)
