"""``gymnasium.spaces``."""

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import paddock.spaces
from paddock.aliases import add_aliases
from paddock.spaces import Box as Box
from paddock.spaces import Dict as Dict
from paddock.spaces import Discrete as Discrete
from paddock.spaces import Graph as Graph
from paddock.spaces import GraphInstance as GraphInstance
from paddock.spaces import MultiBinary as MultiBinary
from paddock.spaces import MultiDiscrete as MultiDiscrete
from paddock.spaces import OneOf as OneOf
from paddock.spaces import Sequence as Sequence
from paddock.spaces import Space as Space
from paddock.spaces import Text as Text
from paddock.spaces import Tuple as Tuple
from paddock.spaces import flatdim as flatdim
from paddock.spaces import flatten as flatten
from paddock.spaces import flatten_space as flatten_space
from paddock.spaces import unflatten as unflatten

if not TYPE_CHECKING:  # checkers read the imports
    __all__ = sorted(set(dir()) & set(paddock.spaces.__all__))

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
add_aliases(__name__, ALIASES, at_once=ALIASES)
