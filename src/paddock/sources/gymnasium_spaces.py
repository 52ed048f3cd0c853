"""Spaces and their values, converted between paddock and Gymnasium. Imported only where Gymnasium is installed.

Only graphs need converting among values: both libraries use plain NumPy and Python objects, except for their own
``GraphInstance``.
"""

from __future__ import annotations

import inspect
from typing import Any

import gymnasium.spaces as theirs
import numpy as np

import paddock.spaces as ours
from paddock.errors import CustomSpaceError
from paddock.sources.foreign import to_ours as to_ours
from paddock.spaces.flatten import parts


def to_theirs(space: ours.Space[Any]) -> theirs.Space[Any]:
    """Return Gymnasium's space with the same members, dtype and order of draws."""
    match space:
        case ours.Box():
            box = theirs.Box(np.array(space.low), np.array(space.high), space.shape, space.dtype)
            # For integers "no bound" is a fact beside the numbers: Gymnasium would cast infinities wrongly.
            box.bounded_below, box.bounded_above = np.array(space.bounded_below), np.array(space.bounded_above)
            return box
        case ours.Discrete():
            return theirs.Discrete(
                int(space.n), start=int(space.start), **_where_known(theirs.Discrete, dtype=space.dtype)
            )
        case ours.MultiDiscrete():
            return theirs.MultiDiscrete(np.array(space.nvec), dtype=space.dtype, start=np.array(space.start))
        case ours.MultiBinary():
            return theirs.MultiBinary(space.n)
        case ours.Text():
            charset = "".join(space.character_list)
            return theirs.Text(space.max_length, min_length=space.min_length, charset=charset)
        case ours.Tuple():
            return theirs.Tuple([to_theirs(part) for part in space.spaces])
        case ours.Dict():
            pairs = [(key, to_theirs(part)) for key, part in space.spaces.items()]  # a dict would be sorted before 1.3
            return theirs.Dict(pairs, **_where_known(theirs.Dict, sort_keys=False))
        case ours.Sequence():
            return theirs.Sequence(to_theirs(space.feature_space), stack=space.stack)
        case ours.Graph():
            edges = None if space.edge_space is None else to_theirs(space.edge_space)
            return _graph(to_theirs(space.node_space), edges)
        case ours.OneOf():
            return theirs.OneOf([to_theirs(part) for part in space.spaces])
    raise CustomSpaceError(
        f"{type(space).__name__} has no counterpart in Gymnasium. Build the environment's space from paddock.spaces, "
        f"or wrap the environment so that it shows one of those."
    )


def _where_known(kind: type, **arguments: Any) -> dict[str, Any]:
    """Return the arguments that this version of Gymnasium knows; older ones need no other to behave the same."""
    known = inspect.signature(kind).parameters
    return {name: value for name, value in arguments.items() if name in known}


def _graph(nodes: Any, edges: Any) -> theirs.Graph:
    try:
        return theirs.Graph(nodes, edges)
    except AssertionError as error:
        raise CustomSpaceError(f"This version of Gymnasium has no such graphs: {error}") from None


def has_graphs(space: ours.Space[Any]) -> bool:
    """Whether a value of this space may hold a graph."""
    return isinstance(space, ours.Graph) or any(map(has_graphs, parts(space)))


def convert_graphs(kind: type, value: Any) -> Any:
    """Return the value with every graph in it as a ``kind``, ours or theirs."""
    match value:
        case ours.GraphInstance() | theirs.GraphInstance():
            return kind(*(convert_graphs(kind, part) for part in value))
        case tuple():
            return tuple(convert_graphs(kind, part) for part in value)
        case dict():
            return {key: convert_graphs(kind, part) for key, part in value.items()}
    return value
