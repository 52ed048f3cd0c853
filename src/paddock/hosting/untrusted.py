"""Checks of values from an untrusted worker: members of a space, values without one, and spaces themselves.

Stricter than ``Space.contains``, which lets lists and narrower dtypes pass: here a value has the very type and dtype
that was declared. An honest value comes back as the same object, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

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
from paddock.spaces.json_form import from_json

Test = Callable[[Any], bool]

_ANY_OBJECT = {"type": "object", "additionalProperties": True}
_JSON_ATOMS = frozenset({type(None), bool, int, str})
_DEPTH = 24  # levels that are looked at quickly
_KNOWN = frozenset({Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, OneOf, Sequence, Text, Tuple})


def violation(path: str, problem: str, *, rule: str = "") -> EnvironmentViolation:
    """The error for a lie. The code that catches it kills the worker, as the text says."""
    return EnvironmentViolation(f"{path}: {problem}. The environment has been stopped.", path=path, rule=rule)


def member_test(space: Space[Any]) -> Test:
    """A function that says whether a value is a member; it never raises. Hot: made once per space."""
    if is_open_object(space):
        # What is usual is told quickly; the space, which builds a copy to compare, says what else is a member.
        return lambda value: (type(value) is dict and _is_json(value)) or space.contains(value)
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
        by_key = {key: member_test(part) for key, part in space.spaces.items()}
        return lambda value: (
            type(value) is dict
            and len(value) == len(by_key)
            and all(key in value and test(value[key]) for key, test in by_key.items())
        )
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
    if text.count(b"[") + text.count(b"{") > most_depth and not _is_json(found, most_depth):
        raise violation("observation", f"it is nested deeper than {most_depth} levels")
    return found


def _is_json(value: Any, depth: int = _DEPTH) -> bool:
    """Whether it is JSON data with at most so many levels."""
    kind = type(value)
    if kind in _JSON_ATOMS:
        return True
    if kind is float:
        return math.isfinite(value)
    if kind is dict:
        return depth > 0 and all(type(key) is str and _is_json(one, depth - 1) for key, one in value.items())
    return kind is list and depth > 0 and all(_is_json(one, depth - 1) for one in value)


def _box_test(space: Box) -> Test:
    dtype, shape, few = space.dtype, space.shape, space._few_within
    kinds = (np.ndarray,) if shape else (np.ndarray, np.dtype(dtype).type)
    if space._pairs is not None:
        return lambda value: type(value) is np.ndarray and value.dtype == dtype and value.shape == shape and few(value)
    return lambda value: type(value) in kinds and value.dtype == dtype and value.shape == shape and space._within(value)


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


def wrong_place(space: Space[Any], value: Any, path: str) -> tuple[str, str]:
    """Where a value that is not a member is wrong, and how. Slow: only for a value that failed the test."""
    found = _in_parts(space, value, path)
    if found is not None:
        return found
    if isinstance(space, (Box, MultiDiscrete, MultiBinary)):
        return _in_array(space, value, path)
    return path, f"{describe_value(value)} is not in {_space_text(space)}"


def _in_parts(space: Space[Any], value: Any, path: str) -> tuple[str, str] | None:
    """The innermost wrong part, if the value is built as the space says and only a part is wrong."""
    if isinstance(space, Dict) and type(value) is dict:
        for key in space.spaces:
            if key not in value:
                return f"{path}[{quote_key(key)}]", "it is missing"
        for key in value:
            if key not in space.spaces:
                return f"{path}[{quote_key(key)}]", "the space has no such key"
        places = [(part, value[key], f"{path}[{quote_key(key)}]") for key, part in space.spaces.items()]
    elif isinstance(space, Tuple) and type(value) is tuple and len(value) == len(space.spaces):
        places = [(part, value[i], f"{path}[{i}]") for i, part in enumerate(space.spaces)]
    elif isinstance(space, Sequence) and type(value) is tuple and not space.stack:
        places = [(space.feature_space, part, f"{path}[{i}]") for i, part in enumerate(value)]
    elif isinstance(space, OneOf) and type(value) is tuple and len(value) == 2:
        if type(value[0]) not in (int, np.int64) or not 0 <= value[0] < len(space.spaces):
            return None
        places = [(space.spaces[value[0]], value[1], f"{path}[1]")]
    else:
        return None
    for part, item, place in places:
        if not member_test(part)(item):
            return wrong_place(part, item, place)
    return None


def _in_array(space: Any, value: Any, path: str) -> tuple[str, str]:
    if not isinstance(value, (np.ndarray, np.generic)):
        return path, f"{describe_value(value)} is not an array, {_space_text(space)} expects one of {space.dtype}"
    if value.dtype != space.dtype:
        return path, f"its dtype is {value.dtype}, {_space_text(space)} expects {space.dtype}"
    if value.shape != space.shape:
        return path, f"its shape is {value.shape}, {_space_text(space)} expects {space.shape}"
    if isinstance(space, Box):
        low, high = space.low, space.high
    else:
        low, high = (space.start, space._last) if isinstance(space, MultiDiscrete) else (np.int8(0), np.int8(1))
    outside = np.argwhere(~((value >= low) & (value <= high)))
    if not len(outside):
        return path, f"it is not in {_space_text(space)}"
    place = tuple(int(index) for index in outside[0])
    number = np.asarray(value)[place]
    low, high = (np.broadcast_to(bound, space.shape)[place] for bound in (low, high))
    return path + "".join(f"[{index}]" for index in place), f"{number} is not within {low} and {high}"


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


class ValueCheck:
    """One walk through a value, with a budget for all of it: few types, bounded, text made plain.

    ``wide`` also allows what an attribute may be and an info may not: complex numbers, keys that are not text, NumPy's
    text, spaces, random generators. ``colours`` leaves the colours in text.
    """

    __slots__ = ("_allowed", "_bytes_left", "_colours", "_depth", "_entries_left", "_path", "_places", "_wide")

    def __init__(
        self, path: str, *, max_bytes: int, depth: int, entries: int, wide: bool = False, colours: bool = False
    ) -> None:
        self._path, self._wide, self._colours = path, wide, colours
        self._allowed = max_bytes
        self._bytes_left, self._depth, self._entries_left = max_bytes, depth, entries
        self._places: list[Any] = []  # keys and indices that lead to where the walk is

    def read(self, value: Any) -> Any:
        """The value with its text made plain, or EnvironmentViolation. Copies a container only if that changes it."""
        kind = type(value)
        if kind in _SMALL:
            self._count(_ENTRY_BYTES)
            return value
        if kind is int:
            self._count(_ENTRY_BYTES + (value.bit_length() >> 3))
            return value
        if kind is str:
            return self._text(value)
        if kind is dict:
            return self._dict(value)
        if kind is list or kind is tuple:
            return self._items(value)
        if kind is np.ndarray and value.dtype.kind in _NUMERIC:
            self._count(_ENTRY_BYTES + value.nbytes)
            return value
        if kind is bytes:
            self._count(_ENTRY_BYTES + len(value))
            return value
        if isinstance(value, np.generic) and value.dtype.kind in _NUMERIC:
            self._count(_ENTRY_BYTES)
            return value
        if self._wide:
            return self._wider(value)
        raise self.refusal(
            f"{describe_value(value)} may not cross the wall: only None, bools, numbers, text, bytes, lists, tuples, "
            "dicts and arrays of numbers may"
        )

    def refusal(self, problem: str) -> EnvironmentViolation:
        """The error for the place where the walk is."""
        return violation(self._place(), problem)

    def _place(self) -> str:
        return self._path + "".join(f"[{quote_key(key)}]" for key in self._places)

    def _count(self, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            self._places.clear()  # all of it is too much, not the part that came last
            raise self.refusal(f"it has more than {self._allowed} bytes, counting {_ENTRY_BYTES} for each entry")

    def _text(self, text: str) -> str:
        # One rare letter makes every letter of a text take four bytes.
        self._count(_ENTRY_BYTES + (len(text) if text.isascii() else 4 * len(text)))
        return strip_escapes(text, colours=self._colours)

    def _enter(self, count: int) -> None:
        self._entries_left -= count
        if self._entries_left < 0:
            self._places.clear()
            raise self.refusal("it has too many entries")
        self._depth -= 1
        if self._depth < 0:
            raise self.refusal("it is nested too deeply")

    def _dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        self._count(_ENTRY_BYTES)
        self._enter(len(value))
        changed = False
        found: dict[Any, Any] = {}
        for key, item in value.items():
            new_key = self._key(key)
            self._places.append(new_key)
            new_item = item if item is None else self.read(item)
            if new_key is not key and new_key in found:
                raise self.refusal("the key occurs twice once it is plain text")
            changed |= new_key is not key or new_item is not item
            found[new_key] = new_item
            self._places.pop()
        self._depth += 1
        return found if changed else value

    def _key(self, key: Any) -> Any:
        if type(key) is str:
            return self._text(key)
        if self._wide and type(key) in (int, bool, float, bytes, type(None)):
            return self.read(key)
        raise self.refusal(f"the key {describe_value(key)} is not text")

    def _items(self, value: list[Any] | tuple[Any, ...]) -> Any:
        self._count(_ENTRY_BYTES)
        self._enter(len(value))
        found: list[Any] = []
        changed = False
        for index, item in enumerate(value):
            self._places.append(index)
            new_item = self.read(item)
            changed |= new_item is not item
            found.append(new_item)
            self._places.pop()
        self._depth += 1
        return value if not changed else found if type(value) is list else tuple(found)

    def _wider(self, value: Any) -> Any:
        kind = type(value)
        if kind is complex or isinstance(value, (Space, np.random.Generator)):
            self._count(_OBJECT_BYTES)
            if isinstance(value, Space):
                check_space(value, self._place(), limit=self._allowed)
            return value
        if kind is np.str_:
            text = self._text(str(value))
            return value if text == value else np.str_(text)
        if kind is np.ndarray and value.dtype.kind == "U":
            self._count(_ENTRY_BYTES + value.nbytes)
            clean = np.array([strip_escapes(text) for text in value.reshape(-1).tolist()], value.dtype).reshape(
                value.shape
            )
            return value if (clean == value).all() else clean
        if kind is GraphInstance:
            return GraphInstance(*self._items(tuple(value)))
        raise self.refusal(f"{describe_value(value)} may not cross the wall")


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
