"""One member of a space as JSON data, exactly, and back. Spaces of your own register rules for both directions.

Arrays are nested lists, infinity is the string ``"inf"`` or ``"-inf"``, a graph is an object of its three parts, and a
stacked Sequence is the list of its elements.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from paddock.errors import CustomSpaceError, InvalidSpace, InvalidValue
from paddock.spaces.batch import concatenate, create_empty_array, iterate
from paddock.spaces.box import Box
from paddock.spaces.dict import Dict
from paddock.spaces.discrete import Discrete
from paddock.spaces.graph import Graph, GraphInstance
from paddock.spaces.json_data import INFINITE, NotANumber, from_numbers, to_numbers
from paddock.spaces.multi_binary import MultiBinary
from paddock.spaces.multi_discrete import MultiDiscrete
from paddock.spaces.oneof import OneOf
from paddock.spaces.sequence import Sequence
from paddock.spaces.space import Space
from paddock.spaces.struct import Struct
from paddock.spaces.text import Text
from paddock.spaces.tuple import Tuple


def value_to_json(space: Space[Any], x: Any) -> Any:
    """``x`` as JSON data; InvalidSpace if it is not a member."""
    if not space.contains(x):
        raise InvalidSpace(f"$: {x!r:.200} is not in {space!r:.200}")
    return encode(space, x)


def value_from_json(space: Space[Any], data: Any) -> Any:
    """The member that ``data`` describes; InvalidSpace, with the path, if it describes none."""
    return decode(space, data, "$")


def _no_rule(space: Any) -> CustomSpaceError:
    name = type(space).__name__
    return CustomSpaceError(
        f"values of {name} have no JSON form; add rules: paddock.spaces.json_value.encode.register({name}, ...) "
        "and decode.register"
    )


@singledispatch
def encode(space: Space[Any], x: Any) -> Any:
    """The rule of `value_to_json` for one class of spaces; ``x`` is known to be a member."""
    match space:
        case Box():
            if space.dtype.itemsize > 8:
                raise InvalidSpace(f"$: values of {space.dtype} have no exact JSON form")
            return to_numbers(np.asarray(x, dtype=space.dtype))
        case Discrete():
            return int(x)
        case MultiDiscrete() | MultiBinary():
            return np.asarray(x).astype(space.dtype).tolist()
        case Text():
            return str.__str__(x)
        case Dict():
            check_keys(space)
            return {key: encode(part, x[key]) for key, part in space.spaces.items()}
        case Tuple():
            return [encode(part, value) for part, value in zip(space.spaces, x, strict=True)]
        case OneOf():
            return [int(x[0]), encode(space.spaces[int(x[0])], x[1])]
        case Sequence():
            items = iterate(space.stacked_feature_space, x) if space.stack else x
            return [encode(space.feature_space, item) for item in items]
        case Graph():
            nodes = [encode(space.node_space, node) for node in iterate(space.batch_node_space, x.nodes)]
            edge_space, batched = space.edge_space, space.batch_edge_space
            if x.edges is None or x.edge_links is None or edge_space is None or batched is None:
                return {"nodes": nodes, "edges": None, "edge_links": None}
            edges = [encode(edge_space, edge) for edge in iterate(batched, x.edges)]
            return {"nodes": nodes, "edges": edges, "edge_links": x.edge_links.tolist()}
        case Struct():
            return space.to_plain(x)
    raise _no_rule(space)


@singledispatch
def decode(space: Space[Any], data: Any, path: str) -> Any:
    """The rule of `value_from_json` for one class of spaces."""
    match space:
        case Box() | MultiDiscrete() | MultiBinary():
            return _decode_array(space, data, path)
        case Discrete():
            if type(data) is not int or not space.contains(data):
                _refuse(path, f"an integer from {space.start} to {space._end - 1}", data)
            return space.n.dtype.type(data)
        case Text():
            if type(data) is not str or not space.contains(data):
                expected = f"a string of {space.min_length} to {space.max_length} of the characters"
                _refuse(path, f"{expected} {space.characters:.80}", data)
            return str(data)
        case Dict():
            check_keys(space)
            _object(data, path, list(space.spaces))
            return {key: decode(part, data[key], f"{path}.{key}") for key, part in space.spaces.items()}
        case Tuple():
            pairs = zip(space.spaces, _list(data, path, len(space.spaces)), strict=True)
            return tuple(decode(part, item, f"{path}[{i}]") for i, (part, item) in enumerate(pairs))
        case OneOf():
            index, item = _list(data, path, 2)
            if type(index) is not int or not 0 <= index < len(space.spaces):
                _refuse(f"{path}[0]", f"an integer from 0 to {len(space.spaces) - 1}", index)
            return np.int64(index), decode(space.spaces[index], item, f"{path}[1]")
        case Sequence():
            members = _members(space.feature_space, data, path)
            return _batch(space.feature_space, members) if space.stack else tuple(members)
        case Graph():
            return _decode_graph(space, data, path)
        case Struct():
            try:
                return space.validate(data)
            except InvalidValue as error:
                place = error.path if error.path[:1] in ("", "[") else f".{error.path}"
                reason = str(error).removeprefix(f"{error.path}: ")
                raise InvalidValue(f"{path}{place}: {reason}", path=f"{path}{place}") from error
    raise _no_rule(space)


def _decode_array(space: Box | MultiDiscrete | MultiBinary, data: Any, path: str) -> NDArray[Any]:
    leaves = _leaves(data, space.shape, path)
    try:
        array = from_numbers(leaves, space.dtype, INFINITE).reshape(space.shape)
    except NotANumber as error:
        place = np.unravel_index(error.index, space.shape) if space.shape else ()
        _refuse(_at(path, place), error.expected, leaves[error.index])
    if isinstance(space, MultiBinary):
        low, high = np.zeros(space.shape, int), np.ones(space.shape, int)
    else:
        low, high = (space.low, space.high) if isinstance(space, Box) else (space.start, space._last)
    for place in map(tuple, np.argwhere(~((array >= low) & (array <= high)))[:1]):
        between = f"{'a number' if isinstance(space, Box) else 'an integer'} from {low[place]} to {high[place]}"
        _refuse(_at(path, place), "0 or 1" if isinstance(space, MultiBinary) else between, array[place].item())
    return array


def _decode_graph(space: Graph, data: Any, path: str) -> GraphInstance:
    _object(data, path, ["nodes", "edges", "edge_links"])
    node_list = _members(space.node_space, data["nodes"], f"{path}.nodes")
    nodes = _batch(space.node_space, node_list)
    if data["edges"] is None and data["edge_links"] is None:
        return GraphInstance(nodes, None, None)
    if space.edge_space is None:
        _refuse(f"{path}.edges", "null, because the space has no edges", data["edges"])
    edge_list = _members(space.edge_space, data["edges"], f"{path}.edges")
    shape = (len(edge_list), 2)
    leaves = _leaves(data["edge_links"], shape, f"{path}.edge_links")
    for i, link in enumerate(leaves):
        if type(link) is not int or not 0 <= link < len(node_list):
            _refuse(f"{path}.edge_links[{i // 2}][{i % 2}]", f"the index of one of {len(node_list)} nodes", link)
    links = np.array(leaves, dtype=np.int32).reshape(shape)
    return GraphInstance(nodes, _batch(space.edge_space, edge_list), links)


def check_keys(space: Dict) -> None:
    """Refuse a Dict whose keys are not strings: JSON has no other keys."""
    for key in space.spaces:
        if not isinstance(key, str):
            raise InvalidSpace(f"$: the key {key!r} of {space!r:.200} is not a str, so its values have no JSON form")


def _members(space: Space[Any], data: Any, path: str) -> list[Any]:
    return [decode(space, item, f"{path}[{i}]") for i, item in enumerate(_list(data, path))]


def _batch(space: Space[Any], members: list[Any]) -> Any:
    return concatenate(space, members, create_empty_array(space, len(members)))


def _list(data: Any, path: str, length: int | None = None) -> list[Any]:
    if not isinstance(data, (list, tuple)) or (length is not None and len(data) != length):
        _refuse(path, "a list" if length is None else f"a list of {length}", data)
    return list(data)


def _object(data: Any, path: str, keys: list[str]) -> None:
    if not isinstance(data, dict):
        _refuse(path, f"an object with the keys {', '.join(keys)}"[:200], data)
    for key in keys:
        if key not in data:
            raise InvalidSpace(f"{path}.{key}: this key is missing")
    for key in data:
        if key not in keys:
            raise InvalidSpace(f"{path}.{str(key)[:40]}: unknown key, expected {', '.join(keys)}"[:300])


def _leaves(data: Any, shape: tuple[int, ...], path: str) -> list[Any]:
    """The numbers in lists nested as ``shape`` says, in C order."""
    level = [data]
    for axis, size in enumerate(shape):
        for i, item in enumerate(level):
            if not isinstance(item, (list, tuple)) or len(item) != size:
                _refuse(_at(path, np.unravel_index(i, shape[:axis]) if axis else ()), f"a list of {size}", item)
        level = [leaf for item in level for leaf in item]
    return level


def _at(path: str, place: Any) -> str:
    return path + "".join(f"[{int(index)}]" for index in place)


def _refuse(path: str, expected: str, data: Any) -> NoReturn:
    try:
        shown = f"{data!r:.80}"
    except Exception:
        shown = f"a {type(data).__name__}"
    raise InvalidSpace(f"{path}: expected {expected}, got {shown}")
