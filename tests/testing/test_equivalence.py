"""data_equivalence: Gymnasium's answers where Gymnasium has one, and an answer for everything else."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence as gymnasiums
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paddock.testing import data_equivalence
from paddock.testing.watched import own_copy

numbers = st.floats(allow_nan=False, allow_infinity=False, width=32) | st.integers(-5, 5) | st.booleans()
arrays = hnp.arrays(
    st.sampled_from([np.float64, np.int64, np.bool_]),
    hnp.array_shapes(min_dims=0, max_dims=2, max_side=2),
    elements={"allow_nan": False, "allow_infinity": False},
)
leaves = numbers | st.text(max_size=2) | st.none() | arrays
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=1), inner, max_size=2) | st.tuples(inner, inner)
    ),
    max_leaves=6,
)


@given(values, values, st.booleans())
def test_answers_are_gymnasiums_for_plain_values(one, other, exact):
    for pair in ((one, other), (one, own_copy(one))):
        assert data_equivalence(*pair, exact) is bool(gymnasiums(*pair, exact))


@given(hnp.arrays(np.float64, 3, elements=st.floats(-1, 1)), st.sampled_from([0, 1e-12, 1e-6, 1e-4, 1e-2]))
def test_arrays_may_differ_by_as_much_as_in_gymnasium(array, offset):
    for exact in (False, True):
        assert data_equivalence(array, array + offset, exact) is bool(gymnasiums(array, array + offset, exact))


anything = st.from_type(type).flatmap(st.from_type).filter(lambda value: not isinstance(value, type))


@settings(max_examples=100)
@given(anything, anything)
def test_any_two_objects_have_an_answer(one, other):
    for exact in (False, True):
        assert data_equivalence(one, other, exact) in (True, False)
        assert data_equivalence(one, one, exact) is True


def looped():
    loop = [1]
    loop.append(loop)
    return loop


def deep(depth):
    nested = []
    for _ in range(depth):
        nested = [nested]
    return nested


class Raises:
    def __eq__(self, other):
        raise RuntimeError("no")

    __hash__ = None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param(float("nan"), float("nan"), True, id="nan"),
        pytest.param(np.array([np.nan, 1]), np.array([np.nan, 1]), True, id="nan in arrays"),
        pytest.param(np.array(["a"]), np.array(["a"]), True, id="arrays of text"),
        pytest.param(np.array(["a"]), np.array(["b"]), False, id="other arrays of text"),
        pytest.param(np.array({"a": 1}, object), np.array({"a": 1}, object), True, id="an object array without axes"),
        pytest.param(looped(), looped(), True, id="loops"),
        pytest.param(looped(), [1, [2]], False, id="a loop and none"),
        pytest.param(deep(10**5), deep(10**5), False, id="deeper than Python goes"),
        pytest.param(Raises(), Raises(), False, id="raises when compared"),
        pytest.param(np.float32(1), 1.0, False, id="other types"),
    ],
)
def test_awkward_values_have_an_answer(one, other, same):
    assert data_equivalence(one, other) is same
    assert data_equivalence(one, other, exact=True) is same


def test_own_copy_is_not_changed_later():
    value = {"a": [np.zeros(2)]}
    copy = own_copy(value)
    value["a"][0][:] = 1
    assert copy["a"][0].tolist() == [0, 0]


def test_own_copy_of_what_cannot_be_copied_is_itself():
    generator = (i for i in range(3))
    assert own_copy(generator) is generator
