"""Answers come from a stranger: plain data of the right types, or wrong. Nothing in them can break the grader."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.agentic.envs.coding.inside import encoded
from paddock.agentic.envs.python_code import compare, same

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(PLAIN)
def test_what_the_workspace_encodes_is_json(value):
    assert json.loads(encoded(value)) == value


@given(PLAIN)
def test_an_answer_is_right_if_it_is_what_was_expected(value):
    line = b"=" + encoded(value).encode()
    if len(line) < 10_000:
        assert compare([line], [value]) == [True]


@given(st.binary(max_size=200))
def test_no_bytes_break_the_grader(line):
    assert compare([line], [[1, 2]]) in ([True], [False])


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (b"=1", True),
        (b"=true", 1),
        (b"=1.0", 1),
        (b'="1"', 1),
        (b"=[1]", [1, 2]),
        (b"=[1,2]", [2, 1]),
        (b"=null", 0),
        (b"=NaN", 0.0),
        (b"=Infinity", 0.0),
        (b"=1" + b"0" * 5_000, 1),
        (b"=[" * 5_000, []),
        (b"=1e999", 1.0),
        (b"1", 1),
        (b"!", None),
        (b"=", None),
        (b"", None),
        (b'="' + b"x" * 20_000 + b'"', "x" * 20_000),
        (b'={"a":1}', {"a": 1, "b": 2}),
    ],
)
def test_anything_else_is_wrong(answer, wanted):
    assert compare([answer], [wanted]) == [False]


def test_answers_that_did_not_come_are_wrong_and_further_ones_do_not_count():
    assert compare([b"=1"], [1, 2]) == [True, False]
    assert compare([b"=1", b"=2", b"=3"], [1, 2]) == [True, True]


def test_a_float_may_be_nearly_right():
    assert same(0.30000000000000004, 0.3)
    assert same(2, 2.0)
    assert not same(0.31, 0.3)
    assert compare([b"=1" + b"0" * 400], [0.3]) == [False]


@pytest.mark.parametrize("value", [{1, 2}, b"x", object(), {1: 2}, 1j, type("T", (int,), {})(3)])
def test_what_is_no_plain_data_has_no_form(value):
    with pytest.raises(TypeError):
        encoded(value)
