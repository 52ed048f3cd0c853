"""Objects that lie or raise, and a strategy for values of every kind: what `contains` must answer for."""

import datetime
import decimal
import fractions

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import paddock.spaces as ours


class RaisesOnEverything:
    def __getattribute__(self, name):
        raise RuntimeError(f"touched {name}")

    def __repr__(self):
        return "RaisesOnEverything()"  # so that a failing test can be read


for _name in ("len", "eq", "ne", "lt", "le", "gt", "ge", "hash", "bool", "iter", "index", "int", "float", "getitem"):

    def _raise(self, *args, **kwargs):
        raise RuntimeError("touched")

    setattr(RaisesOnEverything, f"__{_name}__", _raise)
for _name in ("array", "contains", "complex", "array_ufunc", "array_interface"):
    setattr(RaisesOnEverything, f"__{_name}__", _raise)


class LyingClass:
    @property
    def __class__(self):
        raise ZeroDivisionError("no class")


class HostileInt(int):
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __index__ = __int__ = _raise
    __hash__ = int.__hash__


class HostileStr(str):
    __len__ = __iter__ = __eq__ = __contains__ = _raise
    __hash__ = str.__hash__


class HostileTuple(tuple):
    __len__ = __iter__ = __getitem__ = __eq__ = _raise
    __hash__ = tuple.__hash__


class HostileList(list):
    __len__ = __iter__ = __getitem__ = __eq__ = _raise


class HostileDict(dict):
    __len__ = __iter__ = __getitem__ = __eq__ = keys = items = values = _raise


class HostileArray(np.ndarray):
    __repr__ = object.__repr__
    __ge__ = __le__ = __eq__ = __array_ufunc__ = __array_function__ = __iter__ = __len__ = _raise
    shape = dtype = property(_raise)


class HostileKey:
    def __hash__(self):
        return hash("a")

    def __eq__(self, other):
        raise RuntimeError("compared")


class ArrayThatRaises:
    def __array__(self, *args, **kwargs):
        raise OSError("no array")


class ArrayThatLies:
    def __array__(self, *args, **kwargs):
        return "not an array"


class LengthTooLarge:
    def __len__(self):
        return 2**62

    def __getitem__(self, index):
        raise IndexError(index)


class Fine(list):
    """Raises nothing; only there to be no exact list."""


DEEP = []
for _ in range(5000):
    DEEP = [DEEP]


def hostile_objects():
    cyclic = []
    cyclic.append(cyclic)
    objects = np.empty((1, 2), dtype=object)
    objects[0, 0] = objects[0, 1] = RaisesOnEverything()
    record = np.zeros(2, dtype=[("a", int), ("b", float)])
    masked = np.ma.masked_array([0.5, 0.5, 0.5, 0.5], mask=[0, 1, 0, 1], dtype=np.float32)
    return [
        *(None, True, False, ..., NotImplemented, object(), object, int, len, lambda: 0),
        *(0, 1, -1, 2**31, 2**64, -(2**70), 10**400, 0.0, 1.5, float("nan"), float("inf"), 1j, complex("nan")),
        *("", "a", "abc", "\ud800", b"", b"a", bytearray(b"ab"), memoryview(b"abc"), range(3), range(10**12)),
        *((), (0,), (1, 0), [], [0], [0, 1], [[0, 1], [1]], ["1"], [None], [1, "a"], [1e300] * 4, [1j], {}, {"a": 1}),
        *(set(), frozenset(), iter([]), (x for x in ()), iter([0, 1]), {1: 2}.keys(), {"a": 0, "b": 1}.values()),
        *(decimal.Decimal("1.5"), fractions.Fraction(1, 2), datetime.datetime(2020, 1, 1), [fractions.Fraction(1)]),
        *(
            np.int8(1),
            np.uint64(2**63),
            np.float16(0.5),
            np.longdouble(1),
            np.complex64(1),
            np.bool_(True),
            np.str_("a"),
        ),
        np.str_("a"),
        *(np.datetime64("2020"), np.timedelta64(1, "s"), np.void(b"ab"), np.array(None), np.array("a"), np.array(1)),
        *(np.array([1, None], dtype=object), np.array([object()]), np.array(["a", "b"]), np.array(["1"]), record),
        *(np.array(["2020"], dtype="M8[s]"), np.array([0], dtype="m8[s]"), np.zeros(0), np.zeros((0, 5)), masked),
        *(np.zeros((1,) * 20), np.array([1j, 2]), np.full(4, np.nan, np.float32), np.array(1j)),
        *(np.zeros(4, ">f4"), np.zeros((2, 2))[:, 0], [np.complex64(1)], [np.complex64(1), fractions.Fraction(1)]),
        *(cyclic, DEEP, {"position": cyclic}, Fine([0.5, 0.5, 0.5, 0.5]), np.zeros(3, dtype="V3"), ValueError("x")),
        *(RaisesOnEverything(), [RaisesOnEverything()], (RaisesOnEverything(),) * 2, {"a": RaisesOnEverything()}),
        *(LyingClass(), [LyingClass()], HostileInt(1), [HostileInt(1)], HostileStr("abc"), HostileTuple((0, 1))),
        *(HostileList([0, 1]), HostileDict(a=1), HostileDict(position=1, color=2), np.zeros(4).view(HostileArray)),
        *({HostileKey(): 0}, {HostileKey(): 0, "b": 1}, ArrayThatRaises(), ArrayThatLies(), LengthTooLarge()),
        *([ArrayThatRaises()], (np.int64(0), RaisesOnEverything()), (RaisesOnEverything(), 0)),
        ours.GraphInstance(RaisesOnEverything(), None, None),
        ours.GraphInstance(np.zeros((2, 3), np.float32), RaisesOnEverything(), np.zeros((1, 2), int)),
        ours.GraphInstance(np.zeros((2, 3), np.float32), np.zeros(1, int), objects),
        ours.GraphInstance(np.zeros(()), np.zeros(()), np.zeros(())),
        ours.GraphInstance([], [], np.zeros((0, 2), int)),
        ours.GraphInstance(HostileList(), HostileTuple(), np.zeros((0, 2)).view(HostileArray)),
        ours.GraphInstance((), None, np.zeros((0, 2), int)),
    ]


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=3),
)
DTYPES = st.one_of(
    npst.boolean_dtypes(),
    npst.integer_dtypes(),
    npst.floating_dtypes(sizes=(16, 32, 64)),
    npst.complex_number_dtypes(),
    npst.unicode_string_dtypes(max_len=2),
    npst.datetime64_dtypes(),
    npst.timedelta64_dtypes(),
)
ARRAYS = npst.arrays(DTYPES, npst.array_shapes(min_dims=0, max_dims=3, max_side=4))


def _nest(inner):
    return st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.sampled_from(["a", "b", "z", "color", "position"]), inner, max_size=3),
        st.tuples(inner, inner, inner).map(lambda parts: ours.GraphInstance(*parts)),
    )


# Values of every kind, mostly no members of anything.
plain_values = st.recursive(st.one_of(SCALARS, ARRAYS), _nest, max_leaves=5)

_OBJECTS = [value for value in hostile_objects() if value is not DEEP]
# By index: Hypothesis would want to print the objects.
_HOSTILE = st.integers(0, len(_OBJECTS) - 1).map(lambda i: _OBJECTS[i])
hostile_values = st.recursive(st.one_of(SCALARS, ARRAYS, _HOSTILE, _HOSTILE), _nest, max_leaves=5)
