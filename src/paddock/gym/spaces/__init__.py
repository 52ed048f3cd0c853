"""``gymnasium.spaces``."""

from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from paddock.aliases import add_aliases
from paddock.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    GraphInstance,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Space,
    Text,
    Tuple,
    flatdim,
    flatten,
    flatten_space,
    unflatten,
)

__all__ = [
    "Box",
    "Dict",
    "Discrete",
    "Graph",
    "GraphInstance",
    "MultiBinary",
    "MultiDiscrete",
    "OneOf",
    "Sequence",
    "Space",
    "Text",
    "Tuple",
    "flatdim",
    "flatten",
    "flatten_space",
    "unflatten",
]

T = TypeVar("T")


def array_short_repr(arr: np.ndarray[Any, Any]) -> str:
    """An array as text: one number if all its elements are equal."""
    return str(arr.flat[0]) if arr.size and (arr == arr.flat[0]).all() else str(arr)


def is_float_integer(var: object) -> bool:
    """Whether a value is a float, or an integer of any kind but bool."""
    return np.issubdtype(type(var), np.integer) or np.issubdtype(type(var), np.floating)


ALIASES = {
    "box": {"paddock.spaces.box": "Box", "paddock.gym.spaces": "array_short_repr is_float_integer"},
    "dict": {"paddock.spaces.dict": "Dict"},
    "discrete": {"paddock.spaces.discrete": "Discrete"},
    "graph": {"paddock.spaces.graph": "Graph GraphInstance"},
    "multi_binary": {"paddock.spaces.multi_binary": "MultiBinary"},
    "multi_discrete": {"paddock.spaces.multi_discrete": "MultiDiscrete"},
    "oneof": {"paddock.spaces.oneof": "OneOf"},
    "sequence": {"paddock.spaces.sequence": "Sequence"},
    "space": {"paddock.spaces.space": "Space"},
    "text": {"paddock.spaces.text": "Text alphanumeric"},
    "tuple": {"paddock.spaces.tuple": "Tuple"},
    "utils": {
        "paddock.spaces.flatten": "flatdim flatten flatten_space is_space_dtype_shape_equiv unflatten",
        "paddock.gym.spaces": "T",
    },
}
add_aliases(__name__, ALIASES)
for _name in ALIASES:  # attributes from the first import on, as in Gymnasium
    import_module(f"{__name__}.{_name}")
