"""Canonical bytes: equal for equal values whatever their type, different for different ones, never ambiguous."""

import dataclasses
import math
import struct

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paddock.errors import NoCanonicalForm
from paddock.record import canonical_bytes

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers()
ARRAYS = hnp.arrays(
    st.sampled_from(["bool", "u1", "i2", "<i4", ">i4", "i8", "f2", "<f4", ">f8", "c8", "S3", "U2"]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
VALUES = st.recursive(
    SCALARS | ARRAYS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


def bits(value):
    """A value's meaning written another way: equal exactly when the documented form says that the bytes are equal."""
    if isinstance(value, np.ndarray):
        little = value.astype(value.dtype.newbyteorder("<"))
        return "array", little.dtype.str, value.shape, little.tobytes()
    if isinstance(value, float):
        return "float", struct.pack("<d", value)
    if isinstance(value, complex):
        return "complex", struct.pack("<dd", value.real, value.imag)
    if isinstance(value, (list, tuple)):
        return "sequence", tuple(map(bits, value))
    if isinstance(value, dict):
        return "mapping", frozenset((bits(key), bits(item)) for key, item in value.items())
    return type(value).__name__, value


@given(VALUES, VALUES)
def test_bytes_are_equal_exactly_when_the_values_are(one, other):
    assert (canonical_bytes(one) == canonical_bytes(other)) == (bits(one) == bits(other))


@given(VALUES, VALUES)
def test_no_value_begins_with_the_bytes_of_another(one, other):
    # So where one value ends and the next begins is never in doubt, and ("ab", "c") is not ("a", "bc").
    begins = canonical_bytes(one).startswith(canonical_bytes(other))
    assert begins == (canonical_bytes(one) == canonical_bytes(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, np.int64(1)),
        (1, np.uint8(1)),
        (-1, np.int8(-1)),
        (True, np.True_),
        (0.5, np.float32(0.5)),
        ("a", np.str_("a")),
        (b"a", bytearray(b"a")),
        ((1, 2), [1, 2]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3))),
        (np.arange(3, dtype="<i4"), np.arange(3, dtype=">i4")),
        (np.arange(6)[::2], np.array([0, 2, 4])),
    ],
)
def test_another_type_of_the_same_value_has_the_same_bytes(one, other):
    assert canonical_bytes(one) == canonical_bytes(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ("1", b"1"),
        ([1, [2]], [[1], 2]),
        (np.zeros(2, "f4"), np.zeros(2, "f8")),
        (np.zeros((2, 1)), np.zeros((1, 2))),
        (np.float64(1), np.array(1.0)),
        ({"a": None}, {}),
        (127, 128),
        (-128, 128),
        (2**64, 0),
    ],
)
def test_values_that_differ_have_different_bytes(one, other):
    assert canonical_bytes(one) != canonical_bytes(other)


def test_the_form_is_the_documented_one():
    assert canonical_bytes([None, True, -2, "é"]) == b"".join(
        [
            b"l" + struct.pack("<Q", 4),
            b"N",
            b"T",
            b"i" + struct.pack("<Q", 1) + b"\xfe",
            b"s" + struct.pack("<Q", 2),
            "é".encode(),
        ]
    )
    array = np.array([[1.5, -2.0]], ">f4")
    header = b"a" + struct.pack("<Q", 3) + b"<f4" + struct.pack("<QQQ", 2, 1, 2)
    assert canonical_bytes(array) == header + struct.pack("<ff", 1.5, -2.0)


def test_padding_between_fields_is_left_out():
    aligned = np.zeros(2, np.dtype([("a", "u1"), ("b", "f8")], align=True))
    other = aligned.copy()
    other.view(np.uint8)[1:8] = 255  # between a and b
    packed = np.zeros(2, np.dtype([("a", "u1"), ("b", "f8")]))
    assert canonical_bytes(aligned) == canonical_bytes(other) == canonical_bytes(packed)


def test_object_arrays_are_read_element_by_element():
    assert canonical_bytes(np.array([1, "a", None], object)) == canonical_bytes(
        np.array([np.int8(1), "a", None], object)
    )
    with pytest.raises(NoCanonicalForm, match=r"value\.flat\[1\]"):
        canonical_bytes(np.array([1, object()], object))


def test_datetimes_keep_their_unit():
    assert canonical_bytes(np.datetime64(3, "s")) != canonical_bytes(np.datetime64(3, "ns"))
    assert canonical_bytes(np.datetime64(3, "s")) == canonical_bytes(np.array(3, "M8[s]"))


@pytest.mark.parametrize("value", [object(), {1, 2}, np.longdouble(1), range(3), float], ids=lambda v: type(v).__name__)
def test_other_values_are_refused_by_name(value):
    with pytest.raises(NoCanonicalForm, match=r"value\['a'\]\[1\] is an? "):
        canonical_bytes({"a": [1, value]})


def test_records_are_the_mapping_of_their_fields_whatever_made_them():
    @dataclasses.dataclass
    class Move:
        to: int
        how: list

    class Tagged(msgspec.Struct, tag_field="type", tag="move"):
        to: int
        how: list = []

    assert canonical_bytes(Move(1, [Move(2, [])])) == canonical_bytes({"to": 1, "how": [{"how": [], "to": 2}]})
    assert canonical_bytes([Tagged(1)]) == canonical_bytes([{"type": "move", "to": 1, "how": []}])
    with pytest.raises(NoCanonicalForm, match=r"value\['how'\]\[0\] is an object"):
        canonical_bytes(Move(1, [object()]))


def test_endless_nesting_is_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(NoCanonicalForm, match="nested deeper"):
        canonical_bytes(loop)


def test_not_a_number_has_bytes():
    assert canonical_bytes(math.nan) == canonical_bytes(np.float64("nan"))
