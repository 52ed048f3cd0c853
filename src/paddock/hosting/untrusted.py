"""Checks of values from an untrusted worker: members of a space, values without one, and spaces themselves.

Stricter than ``Space.contains``, which lets lists and narrower dtypes pass: here a value has the very type and dtype
that was declared. An honest value comes back as the same object, bit for bit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from operator import is_
from typing import Any, NamedTuple

import msgspec
import numpy as np

from paddock.errors import EnvironmentViolation
from paddock.sandbox.plain_text import drives_terminal, shorten, strip_escapes
from paddock.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Space,
    Struct,
    Text,
    Tuple,
)
from paddock.spaces.flatten import parts
from paddock.spaces.graph import GraphInstance
from paddock.spaces.json_data import is_json
from paddock.spaces.json_form import from_json

Test = Callable[[Any], bool]

_ANY_OBJECT = {"type": "object", "additionalProperties": True}
_DEPTH = 24  # levels that are looked at quickly
_FEW = 16  # up to this many numbers, Python's own compare faster than NumPy's arrays
_KNOWN = frozenset({Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, OneOf, Sequence, Text, Tuple})


def violation(path: str, problem: str, *, rule: str = "") -> EnvironmentViolation:
    """The error for a lie. The code that catches it kills the worker, as the text says."""
    rule = rule or ("observation-outside" if path.startswith("observation") else "")
    return EnvironmentViolation(f"{path}: {problem}. The environment has been stopped.", path=path, rule=rule)


def demand(fine: bool, path: str, value: Any, expected: str) -> None:
    """Raise EnvironmentViolation unless the value is ``fine``."""
    if not fine:
        raise violation(path, f"{describe_value(value)} came back, expected {expected}")


def member_test(space: Space[Any]) -> Test:
    """A function that says whether a value is a member; it never raises. Hot: made once per space."""
    if is_open_object(space):
        # What is usual is told quickly; the space, which builds a copy to compare, says what else is a member.
        return lambda value: (type(value) is dict and is_json(value, _DEPTH)) or space.contains(value)
    if type(space) not in _KNOWN:
        return space.contains  # the caller's own class knows its members itself
    if isinstance(space, Box):
        return _box_test(space)
    if isinstance(space, Discrete):
        return lambda value: (type(value) is int or isinstance(value, np.integer)) and space.contains(value)
    if isinstance(space, (MultiDiscrete, MultiBinary)):
        dtype = space.dtype
        return lambda value: type(value) is np.ndarray and value.dtype == dtype and space.contains(value)
    if isinstance(space, Text):
        return lambda value: type(value) is str and space.contains(value)
    if isinstance(space, Dict):
        return _dict_test({key: member_test(part) for key, part in space.spaces.items()})
    if isinstance(space, Sequence):
        if space.stack:
            return lambda value: _is_batch(space.feature_space, value) and space.contains(value)
        each = member_test(space.feature_space)
        return lambda value: type(value) is tuple and all(map(each, value))
    if isinstance(space, Graph):
        return lambda value: (
            type(value) is GraphInstance
            and _is_batch(space.node_space, value.nodes)
            and (value.edges is None or space.edge_space is None or _is_batch(space.edge_space, value.edges))
            and space.contains(value)
        )
    assert isinstance(space, (Tuple, OneOf))
    tests = [member_test(part) for part in space.spaces]
    if isinstance(space, OneOf):
        return lambda value: (
            type(value) is tuple
            and len(value) == 2
            and type(value[0]) in (int, np.int64)
            and 0 <= value[0] < len(tests)
            and tests[int(value[0])](value[1])
        )
    return lambda value: (
        type(value) is tuple
        and len(value) == len(tests)
        and all(test(part) for test, part in zip(tests, value, strict=True))
    )


def open_object(name: str) -> Struct:
    """Return the space of all JSON objects."""
    return Struct.from_schema(_ANY_OBJECT, name)


def is_open_object(space: Space[Any]) -> bool:
    """Whether every JSON object is a member, as with environments written for OpenEnv."""
    return type(space) is Struct and not space.records and space.schema == _ANY_OBJECT


def decode_object(text: bytes, most_bytes: int, most_depth: int) -> dict[str, Any]:
    """The observation in an untrusted JSON text. Hot."""
    if len(text) > most_bytes:
        raise violation("observation", f"it has more than {most_bytes} bytes")
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise violation("observation", "it is not JSON") from None
    if type(found) is not dict:
        raise violation("observation", f"{describe_value(found)} is not an object")
    if text.count(b"[") + text.count(b"{") > most_depth and not is_json(found, most_depth):
        raise violation("observation", f"it is nested deeper than {most_depth} levels")
    return found


def _dict_test(tests: dict[str, Test]) -> Test:
    def all_fit(value: Any) -> bool:
        if type(value) is not dict or len(value) != len(tests):
            return False
        for key, fits in tests.items():  # noqa: SIM110 - faster than all() over a generator
            if key not in value or not fits(value[key]):
                return False
        return True

    return all_fit


def _box_test(space: Box) -> Test:
    dtype, shape = space.dtype, space.shape
    kinds = (np.ndarray,) if shape else (np.ndarray, np.dtype(dtype).type)
    within = space._within if dtype != np.bool_ else lambda value: are_bits(value) and space._within(value)
    if space.low.size > _FEW or dtype == np.bool_:
        return lambda value: type(value) in kinds and value.dtype == dtype and value.shape == shape and within(value)
    pairs, vector = list(zip(space.low.ravel().tolist(), space.high.ravel().tolist(), strict=True)), len(shape) == 1

    def few_fit(value: Any) -> bool:
        if type(value) not in kinds or value.dtype != dtype or value.shape != shape:
            return False
        i = 0
        for number in value.tolist() if vector else value.ravel().tolist():
            low, high = pairs[i]
            if not low <= number <= high:
                return False
            i += 1  # noqa: SIM113 - a hot loop: enumerate and zip are slower
        return True

    return few_fit


def are_bits(values: Any) -> bool:
    """Whether each byte is 0 or 1, as a bool's is."""
    return not values.tobytes().translate(None, b"\0\1")


def _is_batch(space: Space[Any], value: Any) -> bool:
    """Whether a batch has the dtype of its space; its elements are for ``contains``, which takes narrower ones too."""
    if isinstance(space, (Box, Discrete, MultiBinary, MultiDiscrete)):
        return type(value) is np.ndarray and value.dtype == space.dtype
    if isinstance(space, Dict):
        return type(value) is dict and all(
            key in value and _is_batch(part, value[key]) for key, part in space.spaces.items()
        )
    if type(value) is not tuple:
        return False
    if isinstance(space, Tuple):
        return len(value) == len(space.spaces) and all(map(_is_batch, space.spaces, value))
    return all(map(member_test(space), value))


def not_a_member(space: Space[Any], value: Any, path: str) -> EnvironmentViolation:
    """The error for a value that failed the test of its space, with the innermost place that is wrong. Slow."""
    if isinstance(space, Dict) and type(value) is dict:
        for key in [*space.spaces, *value]:
            if key not in value or key not in space.spaces:
                problem = "it is missing" if key not in value else "the space has no such key"
                return violation(f"{path}[{quote_key(key)}]", problem)
        places = [(part, value[key], f"{path}[{quote_key(key)}]") for key, part in space.spaces.items()]
    elif isinstance(space, Tuple) and type(value) is tuple and len(value) == len(space.spaces):
        places = [(part, value[i], f"{path}[{i}]") for i, part in enumerate(space.spaces)]
    elif isinstance(space, Sequence) and type(value) is tuple and not space.stack:
        places = [(space.feature_space, part, f"{path}[{i}]") for i, part in enumerate(value)]
    elif isinstance(space, (Box, MultiDiscrete, MultiBinary)):
        return _wrong_array(space, value, path)
    else:
        places = []
    for part, item, place in places:
        if not member_test(part)(item):
            return not_a_member(part, item, place)
    return violation(path, f"{describe_value(value)} is not in {_space_text(space)}")


def _wrong_array(space: Any, value: Any, path: str) -> EnvironmentViolation:
    expected = f"{_space_text(space)} expects"
    if not isinstance(value, (np.ndarray, np.generic)):
        return violation(path, f"{describe_value(value)} is not an array, {expected} one of {space.dtype}")
    if value.dtype != space.dtype:
        return violation(path, f"its dtype is {value.dtype}, {expected} {space.dtype}")
    if value.shape != space.shape:
        return violation(path, f"its shape is {value.shape}, {expected} {space.shape}")
    if isinstance(space, Box):
        low, high = space.low, space.high
    else:
        low, high = (space.start, space._last) if isinstance(space, MultiDiscrete) else (np.int8(0), np.int8(1))
    outside = np.argwhere(~((value >= low) & (value <= high)))
    if not len(outside):
        return violation(path, f"it is not in {_space_text(space)}")
    place = tuple(int(index) for index in outside[0])
    low, high = (np.broadcast_to(bound, space.shape)[place] for bound in (low, high))
    problem = f"{np.asarray(value)[place]} is not within {low} and {high}"
    return violation(path + "".join(f"[{index}]" for index in place), problem)


def _space_text(space: Space[Any]) -> str:
    return shorten(repr(space), 200)


def describe_value(value: Any) -> str:
    """An untrusted value in an error text: short, and never the ``repr`` of something large."""
    if value is None or type(value) in (bool, float) or isinstance(value, np.generic):
        return shorten(str(value), 60)
    if type(value) is int:
        return str(value) if value.bit_length() <= 64 else f"an integer of {value.bit_length()} bits"
    if type(value) is str:
        return quote_key(value)
    if type(value) is np.ndarray:
        return f"an array of {value.dtype}{list(value.shape)}"
    if type(value) in (list, tuple, dict, bytes):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"


def quote_key(key: Any) -> str:
    """An untrusted key in a path."""
    return repr(shorten(key, 60)) if type(key) is str else describe_value(key)


# Values without a space: infos, states, attributes, pictures


_ENTRY_BYTES = 8  # an entry costs at least this, so that many empty ones count too
_OBJECT_BYTES = 1024  # for a space or a generator: far less than it took to send one
_SMALL = frozenset({type(None), bool, float})
_NUMERIC = "biufc"


class Bounds(NamedTuple):
    """How much one value may be: all of its bytes, levels of nesting, entries of all containers."""

    bytes: int
    depth: int
    entries: int


class ValueCheck:
    """One walk through a value, with a budget for all of it: few types, bounded, text made plain.

    ``wide`` also allows what an attribute may be and an info may not: complex numbers, keys that are not text, NumPy's
    text, spaces, random generators. ``colours`` leaves the colours in text.
    """

    __slots__ = ("_bounds", "_bytes_left", "_colours", "_depth_left", "_entries_left", "_path", "_places", "_wide")

    def __init__(self, path: str, bounds: Bounds, *, wide: bool = False, colours: bool = False) -> None:
        self._path, self._bounds, self._wide, self._colours = path, bounds, wide, colours
        self._bytes_left, self._depth_left, self._entries_left = bounds
        self._places: list[Any] = []  # keys and indices that lead to where the walk is

    def read(self, value: Any) -> Any:
        """The value with its text made plain, or EnvironmentViolation. Copies a container only if that changes it."""
        kind = type(value)
        if kind is str:
            return self._text(value)
        if kind is dict:
            return self._dict(value)
        if kind is list or kind is tuple:
            self._enter(len(value))
            if self._take_numbers(value):
                return value
            found = self._items(range(len(value)), value)
            return value if all(map(is_, found, value)) else kind(found)
        if kind in _SMALL:
            self._count(0)
        elif kind is int:
            self._count(value.bit_length() >> 3)
        elif kind is bytes:
            self._count(len(value))
        elif (kind is np.ndarray or isinstance(value, np.generic)) and value.dtype.kind in _NUMERIC:
            self._count(value.nbytes)
        elif self._wide:
            return self._wider(value)
        else:
            raise self._refusal(
                f"{describe_value(value)} may not cross the wall: only None, bools, numbers, text, bytes, lists, "
                "tuples, dicts and arrays of numbers may"
            )
        return value

    def _dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        self._enter(len(value))
        keys = [self._key(key) for key in value]
        found = self._items(keys, value.values())
        if all(map(is_, keys, value)) and all(map(is_, found, value.values())):
            return value
        plain = dict(zip(keys, found, strict=True))
        if len(plain) < len(value):
            self._places.append(Counter(keys).most_common(1)[0][0])
            raise self._refusal("the key occurs twice once it is plain text")
        return plain

    def _key(self, key: Any) -> Any:
        if type(key) is str or (self._wide and type(key) in (int, bool, float, bytes, type(None))):
            return self.read(key)
        raise self._refusal(f"the key {describe_value(key)} is not text")

    def _items(self, keys: Iterable[Any], items: Iterable[Any]) -> list[Any]:
        found = []
        for key, item in zip(keys, items, strict=True):
            self._places.append(key)
            found.append(self.read(item))
            self._places.pop()
        self._depth_left += 1
        return found

    def _take_numbers(self, items: Collection[Any]) -> bool:
        """Count a list of plain numbers at once; False for any other. Hot: a picture in JSON has 100,000 of them."""
        kinds = set(map(type, items))
        if not (kinds <= _SMALL or kinds == {int}):
            return False
        self._depth_left += 1
        self._count(_ENTRY_BYTES * (len(items) - 1) + (sum(map(int.bit_length, items)) >> 3 if int in kinds else 0))
        return True

    def _enter(self, entries: int) -> None:
        self._count(0)
        self._entries_left -= entries
        if self._entries_left < 0:
            self._places.clear()
            raise self._refusal("it has too many entries")
        self._depth_left -= 1
        if self._depth_left < 0:
            raise self._refusal("it is nested too deeply")

    def _text(self, text: str) -> str:
        # One rare letter makes every letter of a text take four bytes.
        self._count(len(text) if text.isascii() else 4 * len(text))
        return strip_escapes(text, colours=self._colours)

    def _count(self, size: int) -> None:
        self._bytes_left -= _ENTRY_BYTES + size
        if self._bytes_left < 0:
            self._places.clear()  # all of it is too much, not the part that came last
            raise self._refusal(f"it has more than {self._bounds.bytes} bytes, counting {_ENTRY_BYTES} for each entry")

    def _refusal(self, problem: str) -> EnvironmentViolation:
        return violation(self._place(), problem)

    def _place(self) -> str:
        return self._path + "".join(f"[{quote_key(key)}]" for key in self._places)

    def _wider(self, value: Any) -> Any:
        kind = type(value)
        if kind is complex or isinstance(value, (Space, np.random.Generator)):
            self._count(_OBJECT_BYTES)
            if isinstance(value, Space):
                check_space(value, self._place(), limit=self._bounds.bytes)
            return value
        if kind is np.str_ or (kind is np.ndarray and value.dtype.kind == "U"):
            self._count(value.nbytes)
            texts = [strip_escapes(text) for text in value.reshape(-1).tolist()]
            clean = np.array(texts, value.dtype).reshape(value.shape)[()]
            return value if np.array_equal(clean, value) else clean
        if kind is GraphInstance:
            return GraphInstance(*self.read(tuple(value)))
        raise self._refusal(f"{describe_value(value)} may not cross the wall")


# Spaces: a short text can describe one too large to allocate. ``from_json`` bounds what rebuilding a space takes; this
# bounds what a sample, a buffer or a batch of it would take.


_JSON_BYTES = 1 << 22
_SMALL_VALUE_BYTES = 64  # about what Python takes for a small value
# More than a sample holds: about 3 members of a Sequence; 10 nodes and up to 90 edges of a Graph.
_MEMBERS, _NODES, _EDGES = 8, 10, 90


def read_space(text: Any, path: str, *, limit: int) -> Space[Any]:
    """The space that a worker describes, or EnvironmentViolation."""
    if type(text) is not str:
        raise violation(path, "it has no form on the wire: its class is the environment's own")
    if len(text) > _JSON_BYTES:
        raise violation(path, f"its description has more than {_JSON_BYTES} bytes")
    try:
        space = from_json(text)
    except Exception as error:  # InvalidSpace; a Warning, where the user made them errors
        raise violation(path, f"it is malformed: {shorten(str(error), 300)}") from None
    check_space(space, path, limit=limit)
    return space


def check_space(space: Space[Any], path: str, *, limit: int) -> None:
    """Refuse a space whose values would take too much, or may drive a terminal."""
    check_size(space, path, limit=limit)
    _check_characters(space, path)


def check_size(space: Space[Any], path: str, *, limit: int, count: int = 1) -> None:
    """Refuse a space of which ``count`` values take more than ``limit`` bytes."""
    size = count * value_bytes(space)
    if size > limit:
        what = "a value" if count == 1 else f"values of {count} lanes"
        raise violation(path, f"{what} may take {size} bytes, more than the {limit} that this side allocates")


def value_bytes(space: Space[Any]) -> int:
    """About how many bytes one sample takes; where its size is not fixed, how many an unlucky one does."""
    if isinstance(space, (Box, MultiBinary, MultiDiscrete)):
        return math.prod(space.shape) * np.dtype(space.dtype).itemsize
    if isinstance(space, Text):
        return 4 * space.max_length
    if isinstance(space, Sequence):
        return _SMALL_VALUE_BYTES + _MEMBERS * value_bytes(space.feature_space)
    if isinstance(space, Graph):
        edges = 0 if space.edge_space is None else value_bytes(space.edge_space)
        return _SMALL_VALUE_BYTES + _NODES * value_bytes(space.node_space) + _EDGES * edges
    return _SMALL_VALUE_BYTES + sum(value_bytes(part) for part in parts(space))


def _check_characters(space: Space[Any], path: str) -> None:
    """Text observations pass unchanged, so no space may declare characters that drive a terminal."""
    if isinstance(space, Text):
        found = drives_terminal("".join(space.character_list))
    elif isinstance(space, Dict):
        found = next(filter(None, map(drives_terminal, space.spaces)), None)
    else:
        found = None
    if found is not None:
        raise violation(path, f"it declares the character U+{ord(found):04X}, which drives a terminal")
    for part in parts(space):
        _check_characters(part, path)
