"""Gymnasium twins of our spaces, a bitwise comparison of values, and the catalogue of spaces that laws run over."""

from collections import OrderedDict

import gymnasium.spaces as theirs
import numpy as np

import paddock.spaces as ours


def twin(space):
    """Gymnasium's space with the same parameters."""
    match space:
        case ours.Box():
            low, high = np.array(space.low), np.array(space.high)
            if space.dtype.kind == "i":
                low, high = _with_infinity(low, space.bounded_below, -1), _with_infinity(high, space.bounded_above, 1)
            return theirs.Box(low, high, space.shape, space.dtype)
        case ours.Discrete():
            return theirs.Discrete(int(space.n), start=int(space.start), dtype=space.dtype)
        case ours.MultiDiscrete():
            return theirs.MultiDiscrete(space.nvec, dtype=space.dtype, start=space.start)
        case ours.MultiBinary():
            return theirs.MultiBinary(space.n)
        case ours.Text():
            return theirs.Text(space.max_length, min_length=space.min_length, charset="".join(space.character_list))
        case ours.Tuple():
            return theirs.Tuple([twin(part) for part in space.spaces])
        case ours.Dict():
            pairs = [(key, twin(part)) for key, part in space.spaces.items()]
            return theirs.Dict(OrderedDict(pairs), sort_keys=space.sort_keys)
        case ours.Sequence():
            return theirs.Sequence(twin(space.feature_space), stack=space.stack)
        case ours.Graph():
            return theirs.Graph(twin(space.node_space), None if space.edge_space is None else twin(space.edge_space))
        case ours.OneOf():
            return theirs.OneOf([twin(part) for part in space.spaces])
    raise TypeError(f"no twin of {space!r}")


def _with_infinity(bound, bounded, sign):
    if bounded.size and not bounded.any():
        return sign * np.inf  # a number: Gymnasium casts an array of infinities to int64 wrongly
    if bound.dtype == np.int64:
        return bound  # and likewise an array with some: the twin has the same members, but samples differently
    return bound if bounded.all() else np.where(bounded, bound.astype(np.float64), sign * np.inf)


def twin_value(value):
    """The same value with Gymnasium's own class for graphs."""
    match value:
        case ours.GraphInstance():
            return theirs.GraphInstance(twin_value(value.nodes), twin_value(value.edges), value.edge_links)
        case tuple():
            return tuple(twin_value(part) for part in value)
        case list():
            return [twin_value(part) for part in value]
        case dict():
            return {key: twin_value(part) for key, part in value.items()}
    return value


def same(a, b):
    """Whether two values are the same to the last bit: types, dtypes, shapes, key order."""
    if isinstance(a, (ours.GraphInstance, theirs.GraphInstance)):
        return isinstance(b, (ours.GraphInstance, theirs.GraphInstance)) and all(map(same, a, b))
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (np.ndarray, np.generic)):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return a == b


inf = np.inf

# Makers, not spaces: tests seed and sample them.
CATALOGUE = {
    "box": lambda: ours.Box(-1, 1, (4,)),
    "box-scalar": lambda: ours.Box(-2, 7, ()),
    "box-default-shape": lambda: ours.Box(0.25, 0.75),
    "box-lists": lambda: ours.Box([-1, -2, 0.1], [2, 4, 0.3]),
    "box-float64": lambda: ours.Box(-0.1, 1 / 3, (2, 3), np.float64),
    "box-float16": lambda: ours.Box(-3, 60000, (5,), np.float16),
    "box-free": lambda: ours.Box(-inf, inf, (3, 2)),
    "box-from-low": lambda: ours.Box(2.5, inf, (3,), np.float64),
    "box-to-high": lambda: ours.Box(-inf, -3.25, (2, 2)),
    "box-mixed": lambda: ours.Box([-inf, 0, -inf, 1], [inf, inf, 2, 3]),
    "box-one-point": lambda: ours.Box(0.5, 0.5, (2,)),
    "box-empty": lambda: ours.Box(0, 1, (0, 3)),
    "box-image": lambda: ours.Box(0, 255, (6, 5, 3), np.uint8),
    "box-int8": lambda: ours.Box(-128, 127, (7,), np.int8),
    "box-int32": lambda: ours.Box([-5, 0, 3], [-1, 9, 3], dtype=np.int32),
    "box-int32-mixed": lambda: ours.Box([-inf, -4, -inf], [inf, inf, 9], dtype=np.int32),
    "box-int64-free": lambda: ours.Box(-inf, inf, (2,), np.int64),
    "box-int64-large": lambda: ours.Box(-(2**60), 2**60, (3,), np.int64),
    "box-uint16": lambda: ours.Box(10, 65535, (2, 2), np.uint16),
    "box-uint64": lambda: ours.Box(3, 2**40, (2,), np.uint64),
    "box-bool": lambda: ours.Box(0, 1, (6,), np.bool_),
    "discrete": lambda: ours.Discrete(4),
    "discrete-one": lambda: ours.Discrete(1),
    "discrete-start": lambda: ours.Discrete(7, start=-3),
    "discrete-large": lambda: ours.Discrete(2**40),
    "discrete-int8": lambda: ours.Discrete(100, start=-50, dtype=np.int8),
    "discrete-int16": lambda: ours.Discrete(300, dtype=np.int16),
    "discrete-int32": lambda: ours.Discrete(11, dtype=np.int32),
    "discrete-uint64": lambda: ours.Discrete(3, dtype=np.uint64),
    "multi-discrete": lambda: ours.MultiDiscrete([5, 2, 2]),
    "multi-discrete-axes": lambda: ours.MultiDiscrete([[5, 2], [9, 1]], start=[[0, -2], [3, 4]]),
    "multi-discrete-int8": lambda: ours.MultiDiscrete([100, 3], dtype=np.int8, start=[-60, 0]),
    "multi-binary": lambda: ours.MultiBinary(5),
    "multi-binary-axes": lambda: ours.MultiBinary([3, 2]),
    "text": lambda: ours.Text(8),
    "text-charset": lambda: ours.Text(5, min_length=0, charset="zyx\u00e9\U0001f600"),
    "tuple": lambda: ours.Tuple([ours.Discrete(3), ours.Box(0, 1, (2,)), ours.MultiBinary(2)]),
    "tuple-empty": lambda: ours.Tuple([]),
    "tuple-nested": lambda: ours.Tuple([ours.Discrete(32), ours.Tuple([ours.Discrete(11), ours.Text(3)])]),
    "dict": lambda: ours.Dict({"position": ours.Box(-1, 1, (3,)), "color": ours.Discrete(5)}),
    "dict-in-order": lambda: ours.Dict([("z", ours.Discrete(2)), ("a", ours.Dict(b=ours.MultiDiscrete([2, 3])))]),
    "dict-unsorted": lambda: ours.Dict({"z": ours.Discrete(2), "a": ours.Discrete(3)}, sort_keys=False),
    "sequence": lambda: ours.Sequence(ours.Box(0, 1, (2,))),
    "sequence-stack": lambda: ours.Sequence(ours.Box(0, 1, (2,)), stack=True),
    "sequence-stack-discrete": lambda: ours.Sequence(ours.Discrete(4, start=1), stack=True),
    "sequence-stack-dict": lambda: ours.Sequence(ours.Dict(a=ours.Discrete(4), b=ours.Box(0, 1, (2,))), stack=True),
    "sequence-text": lambda: ours.Sequence(ours.Text(3)),
    "graph": lambda: ours.Graph(ours.Box(-1, 1, (3,)), ours.Discrete(5)),
    "graph-no-edges": lambda: ours.Graph(ours.Discrete(4), None),
    "graph-dict": lambda: ours.Graph(ours.Dict(a=ours.Discrete(3), b=ours.Box(0, 1, (2,))), ours.Box(0, 1, (2,))),
    "graph-text": lambda: ours.Graph(ours.Tuple([ours.Discrete(3), ours.MultiBinary(2)]), ours.Text(3)),
    "one-of": lambda: ours.OneOf([ours.Discrete(2), ours.Box(-1, 1, (2,)), ours.MultiBinary(3)]),
    "one-of-small": lambda: ours.OneOf([ours.Box(0, 1, (3,), np.int8), ours.Discrete(4, dtype=np.int8)]),
}
