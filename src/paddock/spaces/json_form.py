"""A space as JSON text and back. Reading is safe for text from strangers: no code, no pickles, and everything bounded.

The form is one object per space, ``{"paddock": 1, "type": "Discrete", "n": 4, "start": 0, "dtype": "int64"}``, the
version only at the top. Bounds are one number where they are uniform, else a flat list in C order; infinity is the
string ``"inf"``. The parts of a Dict are pairs, because their order matters and JSON objects have none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.errors import CustomSpaceError, InvalidSpace
from paddock.spaces.box import Box
from paddock.spaces.box_bounds import Bound, first
from paddock.spaces.dict import Dict
from paddock.spaces.discrete import Discrete
from paddock.spaces.graph import Graph
from paddock.spaces.json_fields import NODE_LIMIT, Budget, Fields
from paddock.spaces.json_guard import TEXT_LIMIT_BYTES, parse
from paddock.spaces.multi_binary import MultiBinary
from paddock.spaces.multi_discrete import MultiDiscrete
from paddock.spaces.oneof import OneOf
from paddock.spaces.records.known import known_record
from paddock.spaces.sequence import Sequence
from paddock.spaces.space import Space
from paddock.spaces.struct import Struct
from paddock.spaces.text import Text
from paddock.spaces.tuple import Tuple

VERSION = 1
NAME_LIMIT = 200

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBERS = (*INTEGERS, "float16", "float32", "float64", "bool")


def to_json(space: Space[Any]) -> str:
    """``space`` as text that `from_json` reads. What could not be read back is an error here already."""
    text = json.dumps({"paddock": VERSION, **_write(space, "$", Budget())}, allow_nan=False, separators=(",", ":"))
    if len(text) > TEXT_LIMIT_BYTES:
        raise InvalidSpace(f"$: the JSON form of this space is longer than {TEXT_LIMIT_BYTES} bytes")
    return text


def from_json(text: str | bytes) -> Space[Any]:
    """The space that ``text`` describes, or InvalidSpace with the path of the field that is wrong."""
    data = parse(text, object_limit=NODE_LIMIT)
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
    rule = _WRITERS.get(type(space))
    if rule is None:
        raise CustomSpaceError(
            f"{path}: {type(space).__name__} is a space class of your own, which has no JSON form; build it of "
            f"{', '.join(kind.__name__ for kind in _WRITERS)}"
        )
    with budget.enter(path):
        return {"type": type(space).__name__, **rule(space, path, budget)}


def _write_dtype(dtype: Any, path: str) -> str:
    # The byte order and width of the others depend on the machine.
    if not dtype.isnative or dtype.name not in NUMBERS:
        raise InvalidSpace(f"{path}.dtype: {dtype!r} has no JSON form, expected one of {', '.join(NUMBERS)}")
    return str(dtype.name)


def _write_box(space: Box, path: str, budget: Budget) -> dict[str, Any]:
    budget.spend(space.shape, f"{path}.shape")
    return {
        "low": _write_bound(space._low, "-inf"),
        "high": _write_bound(space._high, "inf"),
        "shape": list(space.shape),
        "dtype": _write_dtype(space.dtype, path),
    }


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


def _write_discrete(space: Discrete, path: str, budget: Budget) -> dict[str, Any]:
    return {"n": int(space.n), "start": int(space.start), "dtype": _write_dtype(space.dtype, path)}


def _write_multi_discrete(space: MultiDiscrete, path: str, budget: Budget) -> dict[str, Any]:
    budget.spend(space.shape, f"{path}.nvec")
    return {
        "nvec": space.nvec.reshape(-1).tolist(),
        "start": space.start.reshape(-1).tolist(),
        "shape": list(space.shape),
        "dtype": _write_dtype(space.dtype, path),
    }


def _write_multi_binary(space: MultiBinary, path: str, budget: Budget) -> dict[str, Any]:
    budget.spend(space.shape, f"{path}.n")
    return {"n": space.n if isinstance(space.n, int) else list(space.n)}


def _write_text(space: Text, path: str, budget: Budget) -> dict[str, Any]:
    budget.spend((space.max_length,), f"{path}.max_length")
    charset = budget.check_text("".join(space.character_list), f"{path}.charset")
    return {"min_length": space.min_length, "max_length": space.max_length, "charset": charset}


def _write_spaces(space: Tuple | OneOf, path: str, budget: Budget) -> dict[str, Any]:
    return {"spaces": [_write(part, f"{path}.spaces[{i}]", budget) for i, part in enumerate(space.spaces)]}


def _write_dict(space: Dict, path: str, budget: Budget) -> dict[str, Any]:
    pairs = []
    for i, (key, part) in enumerate(space.spaces.items()):
        if not isinstance(key, str):
            raise InvalidSpace(f"{path}.spaces[{i}][0]: the key {key!r} is not a str, so the Dict has no JSON form")
        budget.check_text(key, f"{path}.spaces[{i}][0]")
        pairs.append([key, _write(part, f"{path}.spaces[{i}][1]", budget)])
    return {"spaces": pairs, "sort_keys": bool(space.sort_keys)}


def _write_sequence(space: Sequence, path: str, budget: Budget) -> dict[str, Any]:
    return {"space": _write(space.feature_space, f"{path}.space", budget), "stack": bool(space.stack)}


def _write_graph(space: Graph, path: str, budget: Budget) -> dict[str, Any]:
    edges = None if space.edge_space is None else _write(space.edge_space, f"{path}.edge_space", budget)
    return {"node_space": _write(space.node_space, f"{path}.node_space", budget), "edge_space": edges}


def _write_struct(space: Struct, path: str, budget: Budget) -> dict[str, Any]:
    return {"name": budget.check_text(space.name, f"{path}.name"), "schema": space.schema}


def _read(data: Any, path: str, budget: Budget) -> Space[Any]:
    fields = Fields(data, path)
    kind = fields.text("type")
    rule = _READERS.get(kind)
    if rule is None:
        raise InvalidSpace(f"{path}.type: unknown space {kind[:40]!r}, expected one of {', '.join(_READERS)}")
    with budget.enter(path):
        try:
            space = rule(fields, budget)
        except InvalidSpace as error:
            # What a constructor says has no path yet.
            raise error if str(error).startswith("$") else InvalidSpace(f"{path}: {error}") from None
    fields.check_nothing_left()
    return space


def _read_box(fields: Fields, budget: Budget) -> Box:
    dtype = np.dtype(fields.one_of("dtype", NUMBERS))
    shape = fields.shape("shape")
    budget.spend(shape, fields.at("shape"))
    low, high = (_read_bound(fields, name, shape, dtype) for name in ("low", "high"))
    return Box(low, high, shape, dtype)


def _read_bound(fields: Fields, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    data = fields.take(name)
    if not isinstance(data, list):
        return fields.number(data, name, integer=dtype.kind != "f")
    if len(data) != math.prod(shape):
        raise InvalidSpace(f"{fields.at(name)}: expected {math.prod(shape)} numbers for the shape, got {len(data)}")
    numbers = [fields.number(item, f"{name}[{i}]", integer=dtype.kind != "f") for i, item in enumerate(data)]
    return _to_array(numbers, fields.at(name), dtype).reshape(shape)


def _to_array(numbers: list[Any], path: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array that Box casts to ``dtype`` itself, with its own checks; floats are cast here, silently."""
    if dtype.kind != "f" and any(type(number) is float for number in numbers):
        # Infinity among integers needs a float array, so the integers must be floats as well.
        if any(type(number) is int and abs(number) > 2**53 for number in numbers):
            raise InvalidSpace(f"{path}: integers beyond 2**53 can't stand beside infinity")
        return np.array(numbers, dtype=np.float64)
    wide_dtype = {"f": np.float64, "u": np.uint64}.get(dtype.kind, np.int64)
    try:
        wide: NDArray[Any] = np.array(numbers, dtype=wide_dtype)
    except OverflowError:
        raise InvalidSpace(f"{path}: a number is out of bounds of {dtype}") from None
    if dtype.kind != "f":
        return wide
    with np.errstate(over="ignore"):
        cast = wide.astype(dtype)
    if (np.isinf(cast) != np.isinf(wide)).any():
        raise InvalidSpace(f"{path}: a number is out of bounds of {dtype}")
    return cast


def _read_discrete(fields: Fields, budget: Budget) -> Discrete:
    return Discrete(
        fields.integer("n"), start=fields.integer("start"), dtype=np.dtype(fields.one_of("dtype", INTEGERS))
    )


def _read_multi_discrete(fields: Fields, budget: Budget) -> MultiDiscrete:
    dtype = np.dtype(fields.one_of("dtype", INTEGERS))
    shape = fields.shape("shape")
    budget.spend(shape, fields.at("shape"))
    # Always lists: a count that stands for millions of elements would make a short text take much memory.
    nvec, start = (
        np.array(fields.integers(name, math.prod(shape), np.iinfo(dtype)), dtype=dtype).reshape(shape)
        for name in ("nvec", "start")
    )
    return MultiDiscrete(nvec, dtype=dtype, start=start)


def _read_multi_binary(fields: Fields, budget: Budget) -> MultiBinary:
    n = fields.integer("n") if not fields.is_list("n") else fields.shape("n")
    budget.spend((n,) if isinstance(n, int) else n, fields.at("n"))
    return MultiBinary(n)


def _read_text(fields: Fields, budget: Budget) -> Text:
    longest = fields.integer("max_length")
    budget.spend((longest,), fields.at("max_length"))
    charset = budget.check_text(fields.text("charset"), fields.at("charset"))
    return Text(longest, min_length=fields.integer("min_length"), charset=charset)


def _read_parts(fields: Fields, budget: Budget) -> list[Space[Any]]:
    return [_read(part, f"{fields.at('spaces')}[{i}]", budget) for i, part in enumerate(fields.list("spaces"))]


def _read_tuple(fields: Fields, budget: Budget) -> Tuple:
    return Tuple(_read_parts(fields, budget))


def _read_one_of(fields: Fields, budget: Budget) -> OneOf:
    return OneOf(_read_parts(fields, budget))


def _read_dict(fields: Fields, budget: Budget) -> Dict:
    spaces: dict[str, Space[Any]] = {}
    for i, pair in enumerate(fields.list("spaces")):
        path = f"{fields.at('spaces')}[{i}]"
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
            raise InvalidSpace(f"{path}: expected a pair of a key and a space")
        key = budget.check_text(pair[0], f"{path}[0]")
        if key in spaces:
            raise InvalidSpace(f"{path}[0]: the key {key[:40]!r} stands twice")
        spaces[key] = _read(pair[1], f"{path}[1]", budget)
    return Dict(list(spaces.items()), sort_keys=fields.boolean("sort_keys"))


def _read_sequence(fields: Fields, budget: Budget) -> Sequence:
    return Sequence(_read(fields.take("space"), fields.at("space"), budget), stack=fields.boolean("stack"))


def _read_graph(fields: Fields, budget: Budget) -> Graph:
    nodes = _read(fields.take("node_space"), fields.at("node_space"), budget)
    edges = fields.take("edge_space")
    return Graph(nodes, None if edges is None else _read(edges, fields.at("edge_space"), budget))


def _read_struct(fields: Fields, budget: Budget) -> Struct:
    name = fields.text("name")[:NAME_LIMIT]
    space = Struct.from_schema(fields.take("schema"), name)
    known = known_record(name)
    typed: Struct[Any] = space if known is None else Struct(known)
    return typed if typed.schema == space.schema else space


_WRITERS: dict[type, Callable[[Any, str, Budget], dict[str, Any]]] = {
    Box: _write_box,
    Discrete: _write_discrete,
    MultiDiscrete: _write_multi_discrete,
    MultiBinary: _write_multi_binary,
    Text: _write_text,
    Tuple: _write_spaces,
    Dict: _write_dict,
    Sequence: _write_sequence,
    Graph: _write_graph,
    OneOf: _write_spaces,
    Struct: _write_struct,
}

_READERS: dict[str, Callable[[Fields, Budget], Space[Any]]] = {
    "Box": _read_box,
    "Discrete": _read_discrete,
    "MultiDiscrete": _read_multi_discrete,
    "MultiBinary": _read_multi_binary,
    "Text": _read_text,
    "Tuple": _read_tuple,
    "Dict": _read_dict,
    "Sequence": _read_sequence,
    "Graph": _read_graph,
    "OneOf": _read_one_of,
    "Struct": _read_struct,
}
