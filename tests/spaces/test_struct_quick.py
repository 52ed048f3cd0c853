"""The quick yes of a Struct agrees with the long way, or says nothing."""

from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.agentic import Action, CallTool, Observation, Say, Text, ToolError
from paddock.errors import InvalidValue
from paddock.spaces import Discrete, Struct
from paddock.spaces import Text as TextSpace


class Inner(msgspec.Struct):
    x: int


class Twin(msgspec.Struct):
    x: int


class Outer(msgspec.Struct):
    inner: Inner | None = None
    ratio: float = 0.5
    small: Annotated[int, msgspec.Meta(ge=0, le=9)] = 0
    note: Any = None


class Annotated_(msgspec.Struct):
    gear: Annotated[int, Discrete(5)] = 0
    word: Annotated[str, TextSpace(4)] = "a"


def by_the_long_way(space, value):
    slow = Struct.__new__(Struct)
    slow.__dict__.update(space.__dict__, _decode=None)
    return slow.contains(value)


@pytest.mark.parametrize(
    "value",
    [Annotated_(gear=99), Annotated_(word="too long"), Outer(Twin(1)), Outer(ratio="x"), Outer(small=10)],
    ids=repr,
)
def test_what_is_no_member_has_no_quick_way_in(value):
    space = Struct(type(value))
    assert value not in space and not by_the_long_way(space, value)


def test_spaces_in_fields_leave_the_long_way_alone():
    assert Struct(Annotated_)._read_quickly(Annotated_()) is None


PARTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=4) | st.just("\ud800"),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=2)
        | st.tuples(inner)
        | st.builds(Inner, inner)
        | st.builds(Twin, inner)
        | st.builds(Text, inner)
    ),
    max_leaves=5,
)
VALUES = (
    st.builds(Outer, inner=PARTS, ratio=PARTS, small=PARTS, note=PARTS)
    | st.builds(Outer, ratio=st.floats() | st.integers(), small=st.integers(0, 9), note=PARTS)
    | st.builds(CallTool, PARTS, PARTS)
    | st.builds(Say, PARTS)
    | st.builds(Observation, content=st.lists(st.builds(Text, PARTS), max_size=2), result=PARTS, tool_name=PARTS)
    | st.builds(
        Observation, error=st.builds(ToolError, st.just("timeout") | PARTS, st.text()) | st.none(), result=PARTS
    )
)
SPACES = {Outer: Struct(Outer), Observation: Struct(Observation), CallTool: Struct(Action), Say: Struct(Action)}


@settings(max_examples=400, deadline=None)
@given(VALUES)
def test_both_ways_agree(value):
    space = SPACES[type(value)]
    assert space.contains(value) is by_the_long_way(space, value)


def made_by(space, data, *, quick):
    long = Struct.__new__(Struct)
    long.__dict__.update(space.__dict__, **({} if quick else {"_decode": None}))
    try:
        return long.validate(data)
    except InvalidValue as error:
        return str(error)


DATA = st.dictionaries(
    st.sampled_from(["inner", "ratio", "small", "note", "type", "tool_name", "arguments", "text", "x"]), PARTS
)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(list(SPACES)), DATA | VALUES.map(msgspec.structs.asdict) | PARTS)
def test_both_ways_make_the_same_of_data(record, data):
    space = SPACES[record]
    assert repr(made_by(space, data, quick=True)) == repr(made_by(space, data, quick=False))


class Tagged(msgspec.Struct, tag=True):
    x: int = 0


@pytest.mark.parametrize("data", [{}, {"x": 1}, {"type": "Tagged"}, {"type": "Other"}, {"x": 1, "more": 1}], ids=str)
@pytest.mark.parametrize("union", [Tagged, Tagged | msgspec.defstruct("Third", [], tag=True)], ids=str)
def test_both_ways_ask_for_the_tag(union, data):
    assert made_by(Struct(union), data, quick=True) == made_by(Struct(union), data, quick=False)


def test_both_ways_refuse_what_nests_too_deep():
    space, deep = SPACES[Outer], []
    for _ in range(70):
        deep = [deep]
    assert Outer(note=deep) not in space and Outer(note=deep[0][0][0][0][0][0][0]) in space
    many = Outer(note=[[] for _ in range(100)])
    assert many in space and space._read_quickly(many) is not None
