"""A space as JSON text and back. Reading is safe for text from strangers: no code, no pickles, and everything bounded.

The form is one object per space, ``{"paddock": 1, "type": "Discrete", "n": 4, "start": 0, "dtype": "int64"}``, with the
version only at the top. Bounds are one number where they are uniform, else a flat list in C order; infinity is the
string ``"inf"``. The parts of a Dict are pairs, because their order matters and JSON objects have none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.errors import CustomSpaceError, InvalidSpace
from paddock.spaces.box import Bound, Box, first
from paddock.spaces.dict import Dict
from paddock.spaces.discrete import Discrete
from paddock.spaces.graph import Graph
from paddock.spaces.json_data import INFINITE, JsonLimits, NotJson, read_json
from paddock.spaces.multi_binary import MultiBinary
from paddock.spaces.multi_discrete import MultiDiscrete
from paddock.spaces.oneof import OneOf
from paddock.spaces.sequence import Sequence
from paddock.spaces.space import Space
from paddock.spaces.struct import Struct, known_record
from paddock.spaces.text import Text
from paddock.spaces.tuple import Tuple

VERSION = 1
NAME_LIMIT = 200
DEPTH_LIMIT = 32
NODE_LIMIT = 4096
ELEMENT_LIMIT = 2**26
CHARACTER_LIMIT = 2**20
AXIS_LIMIT = 32
# A space of the largest allowed number of nodes needs fewer brackets than this, and nests less deep. Surrogates are
# refused later, with their path.
_JSON = JsonLimits(16 << 20, nesting=128, brackets=40_000, objects=NODE_LIMIT, surrogates=True)

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBERS = (*INTEGERS, "float16", "float32", "float64", "bool")

_EXPECTED = {str: "a string", bool: "true or false", list: "a list"}
_TYPES = {
    kind.__name__: kind
    for kind in (Box, Discrete, MultiDiscrete, MultiBinary, Text, Tuple, Dict, Sequence, Graph, OneOf, Struct)
}


def to_json(space: Space[Any]) -> str:
    """``space`` as text that `from_json` reads. A space that could not be read back is an error already here."""
    text = json.dumps({"paddock": VERSION, **_write(space, "$", Budget())}, allow_nan=False, separators=(",", ":"))
    if len(text) > _JSON.text:
        raise InvalidSpace(f"$: the JSON form of this space is longer than {_JSON.text} bytes")
    return text


def from_json(text: str | bytes) -> Space[Any]:
    """The space that ``text`` describes, or InvalidSpace with the path of the field that is wrong."""
    if not isinstance(text, (str, bytes, bytearray)):
        raise InvalidSpace(f"$: the JSON form of a space is str or bytes, got {type(text).__name__}")
    try:
        data = read_json(text, _JSON)
    except NotJson as error:
        raise InvalidSpace(f"{error.path}: {error}") from None
    if isinstance(data, dict):
        version = data.pop("paddock", None)
        if type(version) is not int or version != VERSION:
            raise InvalidSpace(f"$.paddock: expected version {VERSION}, got {str(version)[:40]}")
    return _read(data, "$", Budget())


def write_form(space: Space[Any], path: str) -> dict[str, Any]:
    """``space`` as a part of other JSON data, without a version."""
    return _write(space, path, Budget())


def read_form(data: Any, path: str) -> Space[Any]:
    """The space that `write_form` wrote, or InvalidSpace."""
    return _read(data, path, Budget())


def _write(space: Space[Any], path: str, budget: Budget) -> dict[str, Any]:
    if type(space) not in _TYPES.values():
        raise CustomSpaceError(
            f"{path}: {type(space).__name__} is a space class of your own, which has no JSON form; build it of "
            f"{', '.join(_TYPES)}"
        )
    with budget.enter(path):
        return {"type": type(space).__name__, **_write_fields(space, path, budget)}


def _write_fields(space: Space[Any], path: str, budget: Budget) -> dict[str, Any]:
    match space:
        case Box():
            budget.spend(space.shape, f"{path}.shape")
            low, high = _write_bound(space._low, "-inf"), _write_bound(space._high, "inf")
            return {"low": low, "high": high, "shape": list(space.shape), "dtype": _write_dtype(space.dtype, path)}
        case Discrete():
            return {"n": int(space.n), "start": int(space.start), "dtype": _write_dtype(space.dtype, path)}
        case MultiDiscrete():
            budget.spend(space.shape, f"{path}.nvec")
            nvec, start = space.nvec.reshape(-1).tolist(), space.start.reshape(-1).tolist()
            return {"nvec": nvec, "start": start, "shape": list(space.shape), "dtype": _write_dtype(space.dtype, path)}
        case MultiBinary():
            budget.spend(space.shape, f"{path}.n")
            return {"n": space.n if isinstance(space.n, int) else list(space.n)}
        case Text():
            budget.spend((space.max_length,), f"{path}.max_length")
            charset = budget.check_text("".join(space.character_list), f"{path}.charset")
            return {"min_length": space.min_length, "max_length": space.max_length, "charset": charset}
        case Tuple() | OneOf():
            return {"spaces": [_write(part, f"{path}.spaces[{i}]", budget) for i, part in enumerate(space.spaces)]}
        case Dict():
            pairs = []
            for i, (key, part) in enumerate(space.spaces.items()):
                place = f"{path}.spaces[{i}]"
                if not isinstance(key, str):
                    raise InvalidSpace(f"{place}[0]: the key {key!r} is not a str, so the Dict has no JSON form")
                budget.check_text(key, f"{place}[0]")
                pairs.append([key, _write(part, f"{place}[1]", budget)])
            return {"spaces": pairs, "sort_keys": bool(space.sort_keys)}
        case Sequence():
            return {"space": _write(space.feature_space, f"{path}.space", budget), "stack": bool(space.stack)}
        case Graph():
            edges = None if space.edge_space is None else _write(space.edge_space, f"{path}.edge_space", budget)
            return {"node_space": _write(space.node_space, f"{path}.node_space", budget), "edge_space": edges}
    assert isinstance(space, Struct)  # the last of _TYPES
    return {"name": budget.check_text(space.name, f"{path}.name"), "schema": space.schema}


def _write_dtype(dtype: Any, path: str) -> str:
    # The byte order and width of the others depend on the machine.
    if not dtype.isnative or dtype.name not in NUMBERS:
        raise InvalidSpace(f"{path}.dtype: {dtype!r} has no JSON form, expected one of {', '.join(NUMBERS)}")
    return str(dtype.name)


def _write_bound(bound: Bound, infinity: str) -> Any:
    values, bounded = bound.values, bound.bounded
    if bound.uniform:
        return _write_number(first(values).item(), bool(first(bounded)), infinity)
    pairs = zip(values.reshape(-1).tolist(), bounded.reshape(-1).tolist(), strict=True)
    return [_write_number(value, is_bounded, infinity) for value, is_bounded in pairs]


def _write_number(value: Any, bounded: bool, infinity: str) -> Any:
    if not bounded:
        return infinity
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return int(value)


def _read(data: Any, path: str, budget: Budget) -> Space[Any]:
    fields = Fields(data, path)
    kind = fields.take("type", str)
    if kind not in _TYPES:
        raise InvalidSpace(f"{path}.type: unknown space {kind[:40]!r}, expected one of {', '.join(_TYPES)}")
    with budget.enter(path):
        try:
            space = _read_fields(kind, fields, budget)
        except InvalidSpace as error:
            # What a constructor says has no path yet.
            raise error if str(error).startswith("$") else InvalidSpace(f"{path}: {error}") from None
    fields.check_nothing_left()
    return space


def _read_fields(kind: str, fields: Fields, budget: Budget) -> Space[Any]:
    match kind:
        case "Box":
            dtype = np.dtype(fields.one_of("dtype", NUMBERS))
            shape = fields.shape("shape")
            budget.spend(shape, fields.at("shape"))
            low, high = (_read_bound(fields, name, shape, dtype) for name in ("low", "high"))
            return Box(low, high, shape, dtype)
        case "Discrete":
            n, start = fields.integer("n"), fields.integer("start")
            return Discrete(n, start=start, dtype=np.dtype(fields.one_of("dtype", INTEGERS)))
        case "MultiDiscrete":
            dtype = np.dtype(fields.one_of("dtype", INTEGERS))
            shape = fields.shape("shape")
            budget.spend(shape, fields.at("shape"))
            # Always lists: a count that stands for millions of elements would make a short text take much memory.
            nvec, starts = (
                np.array(fields.integers(name, math.prod(shape), np.iinfo(dtype)), dtype=dtype).reshape(shape)
                for name in ("nvec", "start")
            )
            return MultiDiscrete(nvec, dtype=dtype, start=starts)
        case "MultiBinary":
            sizes = fields.shape("n") if fields.is_list("n") else fields.integer("n")
            budget.spend((sizes,) if isinstance(sizes, int) else sizes, fields.at("n"))
            return MultiBinary(sizes)
        case "Text":
            longest = fields.integer("max_length")
            budget.spend((longest,), fields.at("max_length"))
            charset = budget.check_text(fields.take("charset", str), fields.at("charset"))
            return Text(longest, min_length=fields.integer("min_length"), charset=charset)
        case "Tuple" | "OneOf":
            items = enumerate(fields.take("spaces", list))
            parts = [_read(part, f"{fields.at('spaces')}[{i}]", budget) for i, part in items]
            return Tuple(parts) if kind == "Tuple" else OneOf(parts)
        case "Dict":
            return _read_dict(fields, budget)
        case "Sequence":
            feature = _read(fields.take("space"), fields.at("space"), budget)
            return Sequence(feature, stack=fields.take("stack", bool))
        case "Graph":
            nodes = _read(fields.take("node_space"), fields.at("node_space"), budget)
            edges = fields.take("edge_space")
            return Graph(nodes, None if edges is None else _read(edges, fields.at("edge_space"), budget))
    name = fields.take("name", str)[:NAME_LIMIT]
    space = Struct.from_schema(fields.take("schema"), name)
    known = known_record(name)
    typed: Struct[Any] = space if known is None else Struct(known)
    return typed if typed.schema == space.schema else space


def _read_dict(fields: Fields, budget: Budget) -> Dict:
    spaces: dict[str, Space[Any]] = {}
    for i, pair in enumerate(fields.take("spaces", list)):
        path = f"{fields.at('spaces')}[{i}]"
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
            raise InvalidSpace(f"{path}: expected a pair of a key and a space")
        key = budget.check_text(pair[0], f"{path}[0]")
        if key in spaces:
            raise InvalidSpace(f"{path}[0]: the key {key[:40]!r} occurs twice")
        spaces[key] = _read(pair[1], f"{path}[1]", budget)
    return Dict(list(spaces.items()), sort_keys=fields.take("sort_keys", bool))


def _read_bound(fields: Fields, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """A number, or an array that Box casts to ``dtype`` with its own checks; floats are cast here, silently."""
    data, path, whole = fields.take(name), fields.at(name), dtype.kind != "f"
    if not isinstance(data, list):
        return fields.number(data, name, integer=whole)
    if len(data) != math.prod(shape):
        raise InvalidSpace(f"{path}: expected {math.prod(shape)} numbers for the shape, got {len(data)}")
    numbers = [fields.number(item, f"{name}[{i}]", integer=whole) for i, item in enumerate(data)]
    if whole and any(type(number) is float for number in numbers):
        # Infinity among integers needs a float array, so the integers must be floats as well.
        if any(type(number) is int and abs(number) > 2**53 for number in numbers):
            raise InvalidSpace(f"{path}: integers beyond 2**53 can't stand beside infinity")
        return np.array(numbers, dtype=np.float64).reshape(shape)
    try:
        wide: NDArray[Any] = np.array(numbers, dtype={"f": np.float64, "u": np.uint64}.get(dtype.kind, np.int64))
    except OverflowError:
        raise InvalidSpace(f"{path}: a number is out of bounds of {dtype}") from None
    if whole:
        return wide.reshape(shape)
    with np.errstate(over="ignore"):
        cast = wide.astype(dtype)
    if (np.isinf(cast) != np.isinf(wide)).any():
        raise InvalidSpace(f"{path}: a number is out of bounds of {dtype}")
    return cast.reshape(shape)


class Budget:
    """Counts depth, spaces and elements of the whole text, and refuses what is beyond the limits."""

    def __init__(self) -> None:
        self._depth = self._nodes = self._elements = 0

    @contextmanager
    def enter(self, path: str) -> Iterator[None]:
        """Count one space, and one level while its parts are handled."""
        self._depth += 1
        self._nodes += 1
        if self._depth > DEPTH_LIMIT:
            raise InvalidSpace(f"{path}: spaces are nested deeper than {DEPTH_LIMIT} levels")
        if self._nodes > NODE_LIMIT:
            raise InvalidSpace(f"{path}: more than {NODE_LIMIT} spaces")
        yield
        self._depth -= 1

    def spend(self, shape: tuple[int, ...], path: str) -> None:
        """Count the elements of a value of that shape."""
        self._elements += math.prod(max(size, 1) for size in shape)
        if self._elements > ELEMENT_LIMIT:
            raise InvalidSpace(f"{path}: values of this space have more than {ELEMENT_LIMIT} elements")

    @staticmethod
    def check_text(text: str, path: str) -> str:
        """``text``, after checking that it is Unicode and not too long."""
        if len(text) > CHARACTER_LIMIT:
            raise InvalidSpace(f"{path}: longer than {CHARACTER_LIMIT} characters")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidSpace(f"{path}: a lone surrogate at {error.start} is not Unicode text") from None
        return text


class Fields:
    """The fields of one JSON object, taken one by one; a field left over at the end is an error.

    Every error begins with the field's path.
    """

    def __init__(self, data: Any, path: str) -> None:
        if not isinstance(data, dict):
            raise InvalidSpace(f"{path}: expected an object that describes a space, got {_kind(data)}")
        self._left, self._path = dict(data), path

    def at(self, name: str) -> str:
        return f"{self._path}.{name}"

    def take(self, name: str, kind: type | None = None) -> Any:
        """The field as it is, after checking its type where one is given."""
        if name not in self._left:
            raise InvalidSpace(f"{self.at(name)}: this field is missing")
        value = self._left.pop(name)
        if kind is not None and not isinstance(value, kind):
            raise InvalidSpace(f"{self.at(name)}: expected {_EXPECTED[kind]}, got {_kind(value)}")
        return value

    def check_nothing_left(self) -> None:
        """Refuse a field that was not taken: a reader of another version may give it a meaning."""
        for name in self._left:
            raise InvalidSpace(f"{self.at(name[:40])}: unknown field")

    def is_list(self, name: str) -> bool:
        """Whether the field is there and a list."""
        return isinstance(self._left.get(name), list)

    def integer(self, name: str) -> int:
        value = self.take(name)
        if type(value) is not int or value.bit_length() > 64:
            raise InvalidSpace(f"{self.at(name)}: expected an integer, got {_kind(value)}")
        return value

    def one_of(self, name: str, choices: tuple[str, ...]) -> str:
        value: str = self.take(name, str)
        if value not in choices:
            raise InvalidSpace(f"{self.at(name)}: expected one of {', '.join(choices)}, got {value[:40]!r}")
        return value

    def shape(self, name: str) -> tuple[int, ...]:
        """The sizes of some axes."""
        sizes = self.take(name, list)
        if len(sizes) > AXIS_LIMIT:
            raise InvalidSpace(f"{self.at(name)}: more than {AXIS_LIMIT} axes")
        for i, size in enumerate(sizes):
            if type(size) is not int or size < 0:
                raise InvalidSpace(f"{self.at(name)}[{i}]: expected an integer of zero or more, got {_kind(size)}")
        return tuple(sizes)

    def integers(self, name: str, count: int, limits: Any) -> Any:
        """A list of exactly ``count`` integers from ``limits.min`` to ``limits.max``."""
        numbers = self.take(name, list)
        if len(numbers) != count:
            raise InvalidSpace(f"{self.at(name)}: expected {count} integers for the shape, got {len(numbers)}")
        for i, number in enumerate(numbers):
            if type(number) is not int or not limits.min <= number <= limits.max:
                raise InvalidSpace(f"{self.at(name)}[{i}]: expected an integer of {limits.dtype}, got {_kind(number)}")
        return numbers

    def number(self, value: Any, name: str, *, integer: bool) -> int | float:
        """``value`` as a bound: a number (with ``integer`` only whole ones), or infinity by name."""
        if isinstance(value, str) and value in INFINITE:
            return INFINITE[value]
        if (type(value) is int and value.bit_length() <= 1024) or (type(value) is float and not integer):
            return value
        expected = "an integer" if integer else "a number"
        raise InvalidSpace(f'{self.at(name)}: expected {expected}, "inf" or "-inf", got {_kind(value)}')


def _kind(value: Any) -> str:
    """What a JSON value is, short enough for a message."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return f"{value:.6g}" if isinstance(value, float) or abs(value) < 2**60 else "a huge integer"
    if isinstance(value, str):
        return repr(value[:40])
    return "a list" if isinstance(value, list) else "an object"
