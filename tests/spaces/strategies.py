"""Spaces of every class with random parameters, nested to a small depth."""

import numpy as np
from hypothesis import strategies as st

import paddock.spaces as ours

FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
shapes = st.lists(st.integers(1, 3), max_size=3).map(tuple)


@st.composite
def boxes(draw):
    dtype = np.dtype(draw(st.sampled_from([*FLOATS, *INTEGERS, "bool"])))
    shape = draw(st.one_of(shapes, st.just((0, 2))))
    count = 1 if draw(st.booleans()) else int(np.prod(shape))
    lows, highs = zip(*[_pair(draw, dtype) for _ in range(count)], strict=True) if count else ((), ())
    if count == 1:
        return ours.Box(lows[0], highs[0], shape, dtype)
    low, high = (np.array(bound, dtype=object).reshape(shape) for bound in (lows, highs))
    return ours.Box(_plain(low, dtype), _plain(high, dtype), dtype=dtype)


def _pair(draw, dtype):
    """A lower and an upper bound; either may be missing where the dtype allows."""
    low, high = sorted((draw(_numbers(dtype)), draw(_numbers(dtype))))
    if dtype.kind in "if":
        low, high = draw(st.sampled_from([(low, high), (-np.inf, high), (low, np.inf), (-np.inf, np.inf)]))
    return low, high


def _numbers(dtype):
    if dtype.kind == "f":
        limit, width = float(np.finfo(dtype).max), dtype.itemsize * 8
        return st.one_of(st.floats(-4, 4, width=width), st.floats(-limit, limit, width=width))
    if dtype.kind == "b":
        return st.integers(0, 1)
    limits = np.iinfo(dtype)
    # Up to 2**53: an array that also holds infinity is one of floats.
    return st.integers(max(limits.min, -(2**53)), min(limits.max, 2**53))


def _plain(bound, dtype):
    if dtype.kind != "f" and not any(isinstance(value, float) for value in bound.reshape(-1)):
        return bound.astype(dtype)
    return bound.astype(np.float64 if dtype.kind != "f" else dtype)


discretes = st.builds(
    lambda n, start, dtype: ours.Discrete(n, start=start if dtype[0] == "i" else abs(start), dtype=np.dtype(dtype)),
    st.integers(1, 60),
    st.integers(-60, 60),
    st.sampled_from(INTEGERS),
)


@st.composite
def multi_discretes(draw):
    dtype = np.dtype(draw(st.sampled_from(INTEGERS)))
    shape = draw(shapes.filter(bool))
    count = int(np.prod(shape))
    nvec = np.array(draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))).reshape(shape)
    start = np.array(draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))).reshape(shape)
    return ours.MultiDiscrete(nvec, dtype=dtype, start=-start if dtype.kind == "i" else start)


multi_binaries = st.one_of(st.integers(1, 5), shapes.filter(bool)).map(ours.MultiBinary)

texts = st.builds(
    lambda least, more, charset: ours.Text(least + more, min_length=least, charset=charset),
    st.integers(0, 2),
    st.integers(0, 3),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6),
)

leaf_spaces = st.one_of(boxes(), discretes, multi_discretes(), multi_binaries, texts)
keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)


# Not graphs again: ten nodes of ten nodes of ten nodes take long to sample.
_parts_of_graphs = st.one_of(leaf_spaces, st.lists(leaf_spaces, min_size=1, max_size=2).map(ours.Tuple))


def _composites(inner):
    return st.one_of(
        # Never empty: a batch of empty tuples or dicts has no length, so a Graph of them has no number of nodes.
        st.lists(inner, min_size=1, max_size=3).map(ours.Tuple),
        st.lists(inner, min_size=1, max_size=3).map(ours.OneOf),
        st.builds(
            lambda parts, ordered: ours.Dict(list(parts.items()) if ordered else parts),
            st.dictionaries(keys, inner, min_size=1, max_size=3),
            st.booleans(),
        ),
        st.builds(lambda space, stack: ours.Sequence(space, stack=stack), inner, st.booleans()),
        st.builds(ours.Graph, _parts_of_graphs, st.one_of(st.none(), _parts_of_graphs)),
    )


spaces = st.recursive(leaf_spaces, _composites, max_leaves=4)
