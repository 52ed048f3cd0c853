"""Infos of lanes: values keep their types."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paddock.core.vector_env import add_info


def batch(infos):
    found = {}
    for lane, info in enumerate(infos):
        found = add_info(found, info, lane, len(infos))
    return found


def test_an_integer_first_does_not_round_the_float_after_it():
    found = batch([{"x": 1}, {"x": 2.7}])
    assert found["x"].tolist() == [1.0, 2.7]


def test_masks_say_which_lanes_have_a_key():
    found = batch([{"x": 1}, {}, {"x": 3, "y": "text"}])
    assert found["x"].dtype == np.int64
    assert found["_x"].tolist() == [True, False, True]
    assert found["y"].tolist() == [None, None, "text"]


def test_nested_infos_and_arrays():
    found = batch([{"a": {"b": 1.5}, "v": np.ones(2, np.float32)}, {"a": {"b": 2.5, "c": True}}])
    assert found["a"]["b"].tolist() == [1.5, 2.5]
    assert found["a"]["_c"].tolist() == [False, True]
    assert found["v"].shape == (2, 2)
    assert found["v"].dtype == np.float32


def test_arrays_of_different_shapes_and_mixed_kinds_stay_whole():
    found = batch([{"v": np.zeros(2)}, {"v": np.zeros(3)}, {"v": None}])
    assert [None if v is None else v.shape for v in found["v"]] == [(2,), (3,), None]
    found = batch([{"x": True}, {"x": 7}, {"x": "s"}])
    assert found["x"].tolist() == [True, 7, "s"]
    found = batch([{"x": {"y": 1}}, {"x": 3}])
    assert found["_x"].tolist() == [True, True]


SCALARS = st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=3) | st.none()


@given(st.lists(st.dictionaries(st.sampled_from("xyz"), SCALARS, max_size=3), min_size=1, max_size=5))
def test_every_value_comes_back_as_it_went_in(infos):
    found = batch(infos)
    for lane, info in enumerate(infos):
        for key in "xyz":
            if key in info:
                assert found[f"_{key}"][lane]
                assert found[key][lane] == info[key]
            elif f"_{key}" in found:
                assert not found[f"_{key}"][lane]
