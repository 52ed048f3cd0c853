"""Values in a trace: whatever goes in comes out, to the bit, and nothing that an agent says is taken for a tag."""

import json
import math
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paddock.agentic import CallTool, ListTools, Observation, Say
from paddock.agentic.messages import Text as Words
from paddock.core.values import Dropped, Outside, canonical_bytes
from paddock.errors import InvalidTrace
from paddock.record.trace.replay import first_difference
from paddock.record.trace.values import free_form, member, member_form, member_text, unfold
from paddock.spaces import Box, Dict, Discrete, Space, Struct, Text, Tuple
from tests.case_names import case_name
from tests.spaces.strategies import spaces


class Shelf:
    """Arrays put aside, in memory."""

    def __init__(self):
        self.arrays = []

    def keep(self, array):
        self.arrays.append(array)
        return {"$array": [len(self.arrays) - 1]}

    def fetch(self, reference):
        return self.arrays[reference[0]]

    def through(self, form):
        """As a line is read back."""
        return unfold(json.loads(json.dumps(form, allow_nan=False)), self.fetch)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(max_size=40),
    st.sampled_from([2**70, -0.0]),
)
arrays = hnp.arrays(
    st.sampled_from(["?", "i1", "u1", "<i4", ">i4", "<u8", "<f2", "<f4", ">f8", "<c8", "<c16"]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6),
)
keys = st.one_of(st.text(max_size=5), st.sampled_from(["$array", "$dict", "$float", "$outside", "$dropped", "$", ""]))
data = st.recursive(
    st.one_of(scalars, arrays),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12,
)


def little(value):
    """``value`` with its arrays little-endian, as a trace has them."""
    if isinstance(value, np.ndarray):
        return value.astype(value.dtype.newbyteorder("<"))
    if isinstance(value, dict):
        return {key: little(item) for key, item in value.items()}
    return [little(item) for item in value] if isinstance(value, list) else value


def without_payloads(value):
    """NaNs of Python's floats have one name in JSON, so their payload is not kept; in arrays it is."""
    if isinstance(value, float) and math.isnan(value):
        return math.nan
    if isinstance(value, dict):
        return {key: without_payloads(item) for key, item in value.items()}
    return [without_payloads(item) for item in value] if isinstance(value, list) else value


def few_payloads(value):
    """The same for the arrays that stand in the line itself."""
    if isinstance(value, np.ndarray) and value.size <= 16 and value.dtype.kind in "fc":
        plain = value.copy()
        parts = plain.reshape(-1).view(f"<f{value.dtype.itemsize // (2 if value.dtype.kind == 'c' else 1)}")
        parts[np.isnan(parts)] = np.nan
        return plain
    if isinstance(value, dict):
        return {key: few_payloads(item) for key, item in value.items()}
    return [few_payloads(item) for item in value] if isinstance(value, list) else value


@given(data)
def test_any_data_comes_back_to_the_bit(value):
    shelf = Shelf()
    back = shelf.through(free_form(value, shelf.keep, "info", drop=True))
    expected = few_payloads(without_payloads(little(value)))
    assert canonical_bytes(back) == canonical_bytes(expected)
    assert first_difference(expected, back) is None


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(spaces, st.integers(0, 2**31))
def test_a_member_of_any_space_comes_back_as_the_same_member(space, seed):
    space.seed(seed)
    value = space.sample()
    shelf = Shelf()
    form = member_form(space, value, shelf.keep, "observation")
    assert "$outside" not in form if isinstance(form, dict) else True
    read = Space.from_json(space.to_json())
    back = member(read, shelf.through(form))
    again = Shelf()
    assert back in read
    assert json.dumps(member_form(read, back, again.keep, "observation")) == json.dumps(form)
    assert [a.tobytes() for a in again.arrays] == [a.tobytes() for a in shelf.arrays]


class Picture(msgspec.Struct):
    pixels: Annotated[np.ndarray, Box(0, 255, (6, 7, 3), np.uint8)]
    depth: Annotated[np.ndarray, Box(-np.inf, np.inf, (5, 5), np.float32)]
    note: Any = None


def test_pictures_in_records_lie_beside_in_few_bytes():
    space = Struct(Picture)
    space.seed(3)
    value = msgspec.structs.replace(space.sample(), note={"$array": [0, "<f8", [9], "x"], "deep": [{"$dict": 1}]})
    shelf = Shelf()
    form = member_form(space, value, shelf.keep, "observation")
    assert [(a.dtype.str, a.shape) for a in shelf.arrays] == [("|u1", (6, 7, 3)), ("<f4", (5, 5))]
    back = member(space, shelf.through(form))
    assert (back.pixels == value.pixels).all() and (back.depth == value.depth).all()
    assert back.note == value.note


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (Box(-1, 1, (3,)), np.array([0.0, np.nan, 2.0], np.float32)),
        (Box(-1, 1, (3,)), np.zeros(3, np.float64) + 5),
        (Discrete(2), 7),
        (Text(3), "far too long"),
        (Dict({"a": Discrete(2)}), {"b": 1}),
        (Tuple([Discrete(2)]), [0, 1]),
    ],
    ids=case_name,
)
def test_what_is_no_member_is_kept_and_marked(space, value):
    shelf = Shelf()
    form = member_form(space, value, shelf.keep, "observation")
    back = shelf.through(form)
    assert isinstance(back, Outside)
    assert first_difference(back.value, shelf.through(free_form(value, shelf.keep, ""))) is None
    assert canonical_bytes(member(space, back)) == canonical_bytes(value)


@dataclass
class Note:
    text: str
    at: tuple[int, int]


def test_infos_lose_what_has_no_form_and_nothing_else():
    shelf = Shelf()
    form = free_form(
        {"note": Note("a", (1, 2)), "thing": object(), "f": len, "n": np.int8(3)}, shelf.keep, "info", drop=True
    )
    back = shelf.through(form)
    assert back["note"] == {"text": "a", "at": [1, 2]}
    assert (back["thing"], back["n"]) == (Dropped("builtins.object"), 3)
    assert isinstance(back["f"], Dropped)


@pytest.mark.parametrize("value", [object(), {"a": [len]}, np.array([object()])], ids=case_name)
def test_actions_and_observations_without_a_form_are_refused_by_name(value):
    with pytest.raises(InvalidTrace, match="action.* has no form in a trace"):
        free_form(value, Shelf().keep, "action")


def test_numpys_scalars_and_texts_of_any_kind_are_kept_or_dropped_by_name():
    texts = np.array(["a", "bc"], dtype=np.dtypes.StringDType()) if hasattr(np.dtypes, "StringDType") else ["a", "bc"]
    form = free_form({"texts": texts, "day": np.datetime64("2026-11-18")}, None, "info", drop=True)
    assert form == {"texts": ["a", "bc"], "day": {"$dropped": "numpy.datetime64"}}


def test_data_that_holds_itself_is_dropped_or_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(InvalidTrace, match="nested deeper"):
        free_form(loop, Shelf().keep, "action")
    free_form(loop, Shelf().keep, "info", drop=True)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"$array": {"dtype": "<f4", "shape": [2], "data": [1.0]}}, "content"),
        ({"$array": {"dtype": "|O", "shape": [1], "data": [1]}}, "an array of '|O'"),
        ({"$array": {"dtype": "<M8[s]", "shape": [1], "data": [1]}}, "an array of"),
        ({"$array": {"dtype": "<f4", "shape": [-1], "data": []}}, "shape"),
        ({"$array": {"dtype": "<f4", "shape": [0, 2**62], "data": []}}, "too large"),
        ({"$array": {"dtype": "|u1", "shape": [1], "data": [256]}}, "content"),
        ({"$array": {"dtype": "|u1", "shape": [1], "data": [True]}}, "content"),
        ({"$array": {"dtype": "|b1", "shape": [1], "data": [1]}}, "content"),
        ({"$array": {"dtype": "<f4", "shape": [1], "data": ["x"]}}, "content"),
        ({"$array": {"dtype": "<f4", "shape": [1], "data": [1], "more": 1}}, "content"),
        ({"$array": 3}, "content"),
        ({"$array": {}}, "content"),
        ({"$float": "1e999"}, "content"),
        ({"$float": ["inf"]}, "content"),
        ({"$bytes": "not base64!"}, "content"),
        ({"$bytes": 3}, "content"),
        ({"$dict": [[1]]}, "values to unpack|content"),
        ({"$dict": [["a", 1], ["a", 2]]}, "occurs twice"),
        ({"$dict": [[{}, 1]]}, "content"),
        ({"$dropped": {}}, "content"),
        ({"$class": "os.system"}, "not a tag of a trace"),
        ({"$float": "inf", "b": 1}, "not a tag of a trace"),
    ],
    ids=case_name,
)
def test_tags_that_are_none_are_refused(form, said):
    with pytest.raises(ValueError, match=said):
        unfold(form, Shelf().fetch)


def test_deep_data_is_refused_before_it_is_built():
    form = []
    for _ in range(500):
        form = [form]
    with pytest.raises(ValueError, match="nested deeper"):
        unfold(form, Shelf().fetch)


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [
        (0.0, -0.0, ""),
        (1, True, ""),
        (1, 1.0, ""),
        ([1, 2], [1, 3], "[1]"),
        ([1], [1, 2], ".length"),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, ".a.b"),
        ({"a": 1}, {}, ".a"),
        ({"no name": 1}, {"no name": 2}, "['no name']"),
        (np.zeros(20), np.zeros(20, np.float32), ""),
        (np.zeros((4, 5)), np.eye(4, 5), "[0][0]"),
        (np.array(0.0), np.array(-0.0), ""),
        (np.arange(20), [*range(19), 7], "[19]"),
        (Outside([1]), Outside([2]), "[0]"),
        (Outside(1), 1, ""),
    ],
    ids=case_name,
)
def test_the_first_difference_is_named_by_its_place(one, other, place):
    found = first_difference(one, other)
    assert found is not None
    assert found[0] == place


@pytest.mark.parametrize(
    "value", [math.nan, np.full(20, np.nan), [1, {"a": None}], np.arange(20), Dropped("x")], ids=case_name
)
def test_the_same_has_no_difference(value):
    assert first_difference(value, value) is None


class Name(str):
    """Text that is more than text."""


_ODD = [1, -(1 << 63), 1 << 70, True, None, 1.5, math.nan, "a", "caf\u00e9 \x7f", "\ud800", Name("n"), (1, 2), b"b"]
_ODD += [[1], {}, {"$array": 1}, {"a": math.inf}, {1: 2}, list(range(40)), np.int64(3), object]


@pytest.mark.parametrize("odd", _ODD, ids=case_name)
def test_records_of_agents_are_written_as_the_long_way_writes_them(odd):
    calls, said = Struct(CallTool | ListTools | Say), Struct(Observation)
    records = [
        (calls, CallTool("add", {"number": odd})),
        (calls, CallTool("add", odd)),
        (calls, CallTool(odd, {"a": 1})),
        (calls, Say(odd)),
        (calls, ListTools()),
        (said, Observation(tool_name="add", result=odd, content=[Words("a")])),
        (said, Observation(tool_name=odd, result=1, content=[Words("a")])),
        (said, Observation(result=1, content=[Words(odd), Words("b")])),
        (said, Observation(result=1, content=[odd])),
        (said, Observation(content=odd, messages=[])),
        (said, Observation(messages=odd)),
    ]
    if isinstance(odd, (str, int)) and not isinstance(odd, Name):
        records.append((calls, CallTool("add", {odd: 1})))
    for space, record in records:
        short, long = Shelf(), Shelf()
        assert _line(member_text, space, record, short) == _line(member_form, space, record, long)
        assert len(short.arrays) == len(long.arrays)


def _line(way, space, record, shelf):
    """What stands in the line, or why nothing can."""
    try:
        form = way(space, record, shelf.keep, "action")
        return json.dumps(msgspec.json.decode(form) if isinstance(form, msgspec.Raw) else form)
    except InvalidTrace as error:
        return str(error)
