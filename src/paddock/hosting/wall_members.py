"""Whether a value that came from behind a wall is one of its space, of the very type and dtype; and if not, where not.

Stricter than ``contains``, which lets lists and narrower dtypes pass: here nothing is believed that was not declared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from paddock.errors import EnvironmentViolation
from paddock.sandbox.plain_text import brief
from paddock.spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, OneOf, Sequence, Space, Text, Tuple
from paddock.spaces.graph import GraphInstance

Test = Callable[[Any], bool]


def violation(path: str, problem: str, *, rule: str = "") -> EnvironmentViolation:
    """What to raise for a lie. Who raises it has the environment stopped."""
    return EnvironmentViolation(f"{path}: {problem}. The environment has been stopped.", path=path, rule=rule)


def member_test(space: Space[Any]) -> Test:
    """A function that says whether a value is a member. Hot: made once for each space, it never raises."""
    rule = _TESTS.get(type(space))
    return space.contains if rule is None else rule(space)  # a class of the caller's own knows its members itself


def _test_box(space: Box) -> Test:
    dtype, shape, few = space.dtype, space.shape, space._few_within
    kinds = (np.ndarray,) if shape else (np.ndarray, np.dtype(dtype).type)
    if space._pairs is not None:

        def few_are_members(value: Any) -> bool:
            return type(value) is np.ndarray and value.dtype == dtype and value.shape == shape and few(value)

        return few_are_members
    return lambda value: type(value) in kinds and value.dtype == dtype and value.shape == shape and space._within(value)


def _test_discrete(space: Discrete) -> Test:
    def is_member(value: Any) -> bool:
        return (type(value) is int or isinstance(value, np.integer)) and space.contains(value)

    return is_member


def _test_array(space: MultiDiscrete | MultiBinary) -> Test:
    dtype = space.dtype
    return lambda value: type(value) is np.ndarray and value.dtype == dtype and space.contains(value)


def _test_text(space: Text) -> Test:
    return lambda value: type(value) is str and space.contains(value)


def _test_tuple(space: Tuple) -> Test:
    tests = [member_test(part) for part in space.spaces]

    def is_member(value: Any) -> bool:
        return (
            type(value) is tuple
            and len(value) == len(tests)
            and all(test(part) for test, part in zip(tests, value, strict=True))
        )

    return is_member


def _test_dict(space: Dict) -> Test:
    tests = {key: member_test(part) for key, part in space.spaces.items()}

    def is_member(value: Any) -> bool:
        return (
            type(value) is dict
            and len(value) == len(tests)
            and all(key in value and test(value[key]) for key, test in tests.items())
        )

    return is_member


def _test_one_of(space: OneOf) -> Test:
    tests = [member_test(part) for part in space.spaces]

    def is_member(value: Any) -> bool:
        if type(value) is not tuple or len(value) != 2 or type(value[0]) not in (int, np.int64):
            return False
        return 0 <= value[0] < len(tests) and tests[int(value[0])](value[1])

    return is_member


def _test_sequence(space: Sequence) -> Test:
    if space.stack:
        return lambda value: _is_batch(space.feature_space, value) and space.contains(value)
    test = member_test(space.feature_space)
    return lambda value: type(value) is tuple and all(map(test, value))


def _test_graph(space: Graph) -> Test:
    def is_member(value: Any) -> bool:
        return (
            type(value) is GraphInstance
            and _is_batch(space.node_space, value.nodes)
            and (value.edges is None or space.edge_space is None or _is_batch(space.edge_space, value.edges))
            and space.contains(value)
        )

    return is_member


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


_TESTS: dict[type, Callable[[Any], Test]] = {
    Box: _test_box,
    Discrete: _test_discrete,
    MultiDiscrete: _test_array,
    MultiBinary: _test_array,
    Text: _test_text,
    Tuple: _test_tuple,
    Dict: _test_dict,
    OneOf: _test_one_of,
    Sequence: _test_sequence,
    Graph: _test_graph,
}


def wrong_place(space: Space[Any], value: Any, path: str) -> tuple[str, str]:
    """The place of what is no member, and what is wrong there. Slow: asked only of a value that failed the test."""
    found = _in_parts(space, value, path)
    if found is not None:
        return found
    if isinstance(space, (Box, MultiDiscrete, MultiBinary)):
        return _in_array(space, value, path)
    return path, f"{shown(value)} is not in {_named(space)}"


def _in_parts(space: Space[Any], value: Any, path: str) -> tuple[str, str] | None:
    """The innermost wrong part, if the value is built as the space says and only a part is wrong."""
    if isinstance(space, Dict) and type(value) is dict:
        for key in space.spaces:
            if key not in value:
                return f"{path}[{quoted(key)}]", "it is missing"
        for key in value:
            if key not in space.spaces:
                return f"{path}[{quoted(key)}]", "the space has no such key"
        places = [(part, value[key], f"{path}[{quoted(key)}]") for key, part in space.spaces.items()]
    elif isinstance(space, Tuple) and type(value) is tuple and len(value) == len(space.spaces):
        places = [(part, value[i], f"{path}[{i}]") for i, part in enumerate(space.spaces)]
    elif isinstance(space, Sequence) and type(value) is tuple and not space.stack:
        places = [(space.feature_space, part, f"{path}[{i}]") for i, part in enumerate(value)]
    elif isinstance(space, OneOf) and _has_choice(space, value):
        places = [(space.spaces[value[0]], value[1], f"{path}[1]")]
    else:
        return None
    for part, item, place in places:
        if not member_test(part)(item):
            return wrong_place(part, item, place)
    return None


def _has_choice(space: OneOf, value: Any) -> bool:
    paired = type(value) is tuple and len(value) == 2 and type(value[0]) in (int, np.int64)
    return paired and 0 <= value[0] < len(space.spaces)


def _in_array(space: Any, value: Any, path: str) -> tuple[str, str]:
    if not isinstance(value, (np.ndarray, np.generic)):
        return path, f"{shown(value)} is no array, {_named(space)} expects one of {space.dtype}"
    if value.dtype != space.dtype:
        return path, f"its dtype is {value.dtype}, {_named(space)} expects {space.dtype}"
    if value.shape != space.shape:
        return path, f"its shape is {value.shape}, {_named(space)} expects {space.shape}"
    if isinstance(space, Box):
        low, high = space.low, space.high
    else:
        low, high = (space.start, space._last) if isinstance(space, MultiDiscrete) else (np.int8(0), np.int8(1))
    outside = np.argwhere(~((value >= low) & (value <= high)))
    if not len(outside):
        return path, f"it is not in {_named(space)}"
    place = tuple(int(index) for index in outside[0])
    number = np.asarray(value)[place]
    low, high = (np.broadcast_to(bound, space.shape)[place] for bound in (low, high))
    return path + "".join(f"[{index}]" for index in place), f"{number} is not within {low} and {high}"


def _named(space: Space[Any]) -> str:
    return brief(repr(space), 200)


def shown(value: Any) -> str:
    """A stranger's value in a message: short, and never by the ``repr`` of something large."""
    if value is None or type(value) in (bool, float) or isinstance(value, np.generic):
        return brief(str(value), 60)
    if type(value) is int:
        return str(value) if value.bit_length() <= 64 else f"an integer of {value.bit_length()} bits"
    if type(value) is str:
        return quoted(value)
    if type(value) is np.ndarray:
        return f"an array of {value.dtype}{list(value.shape)}"
    if type(value) in (list, tuple, dict, bytes):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"


def quoted(key: Any) -> str:
    """A stranger's key in a path."""
    return repr(brief(key, 60)) if type(key) is str else shown(key)
