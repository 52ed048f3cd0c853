"""The JSON form of spaces: exact for friends, bounded and clear for strangers."""

import json
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.errors import CustomSpaceError, InvalidSpace
from paddock.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    Sequence,
    Space,
    Text,
    Tuple,
    from_json,
)
from tests.spaces.twins import CATALOGUE, same


def top(**fields):
    return json.dumps({"paddock": 1, **fields})


BOX = {"type": "Box", "low": 0, "high": 1, "shape": [2], "dtype": "float32"}
DISCRETE = {"type": "Discrete", "n": 2, "start": 0, "dtype": "int64"}
MANY = {"type": "MultiDiscrete", "nvec": [2, 3], "start": [0, 0], "shape": [2], "dtype": "int64"}
TEXT = {"type": "Text", "min_length": 1, "max_length": 5, "charset": "ab"}


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_space_comes_back_equal_in_every_respect(name):
    space = CATALOGUE[name]()
    text = space.to_json()
    back = Space.from_json(text)
    assert back == space
    assert type(back) is type(space)
    assert repr(back) == repr(space)
    assert hash(back) == hash(space)
    assert back.to_json() == text
    assert from_json(text.encode()) == space
    space.seed(3), back.seed(3)
    assert same(space.sample(), back.sample())
    assert json.loads(text)["paddock"] == 1


def test_the_random_stream_is_no_part_of_the_form():
    assert Discrete(4, seed=1).to_json() == Discrete(4, seed=2).to_json()


def test_the_order_of_keys_and_the_bounds_of_integers_are_kept():
    space = from_json(Dict([("z", Discrete(2)), ("a", Discrete(2))]).to_json())
    assert list(space) == ["z", "a"]
    assert from_json(Dict({"z": Discrete(2)}, sort_keys=False).to_json()).sort_keys is False
    box = from_json(Box([-np.inf, 0], [5, np.inf], dtype=np.int16).to_json())
    assert box.bounded_below.tolist() == [False, True]
    assert box.bounded_above.tolist() == [True, False]
    assert from_json(MultiBinary(3).to_json()).n == 3
    assert from_json(MultiBinary([3]).to_json()).n == (3,)


class Colors(Space):
    pass


class SpecialBox(Box):
    pass


@pytest.mark.parametrize("space", [Colors(), SpecialBox(0, 1), Tuple([Discrete(2), Colors()])])
def test_a_space_class_of_ones_own_has_no_form(space):
    with pytest.raises(CustomSpaceError, match="space class of your own"):
        space.to_json()


def test_a_custom_space_has_no_value_form_unless_registered():
    for call in (lambda s: s.json_schema(), lambda s: s.value_from_json(1)):
        with pytest.raises(CustomSpaceError, match="register"):
            call(Colors())


@pytest.mark.parametrize(
    "space",
    [
        Box(0, 1, (2,), np.longdouble),
        Box(0, 1, (2,), np.dtype(">f4")),
        Dict({1: Discrete(2)}),
        Text(3, charset="a\ud800"),
        Dict({"\ud800": Discrete(2)}),
        Box(0, 1, (2**14, 2**14)),
        MultiBinary(2**27),
        Text(2**27),
        Tuple([Discrete(2)] * 5000),
    ],
    ids=lambda space: type(space).__name__,
)
def test_what_could_not_be_read_back_is_not_written(space):
    with pytest.raises(InvalidSpace, match=r"^\$"):
        space.to_json()


def test_spaces_nested_too_deep_are_not_written():
    space = Discrete(2)
    for _ in range(40):
        space = Tuple([space])
    with pytest.raises(InvalidSpace, match="nested deeper"):
        space.to_json()


HOSTILE = {
    "nothing": ("", r"^\$: .*not JSON"),
    "no object": ("[]", r"^\$: expected an object"),
    "null": ("null", r"^\$: expected an object"),
    "a number": ("3", r"^\$: expected an object"),
    "cut off": ('{"paddock": 1, "type": "Dis', r"^\$: .*not JSON"),
    "no version": (json.dumps(DISCRETE), r"^\$\.paddock: expected version 1"),
    "another version": (json.dumps({**DISCRETE, "paddock": 2}), r"^\$\.paddock: expected version 1, got 2"),
    "true as version": (json.dumps({**DISCRETE, "paddock": True}), r"^\$\.paddock"),
    "a float as version": (json.dumps({**DISCRETE, "paddock": 1.0}), r"^\$\.paddock"),
    "no type": (top(n=2), r"^\$\.type: .*missing"),
    "unknown type": (top(type="os.system"), r"^\$\.type: unknown space 'os.system'"),
    "type is a list": (top(type=["Box"]), r"^\$\.type: expected a string"),
    "dunder type": (top(type="__class__"), r"^\$\.type: unknown"),
    "unknown field": (top(**DISCRETE, more=1), r"^\$\.more: unknown field"),
    "missing field": (top(type="Discrete", n=2, start=0), r"^\$\.dtype: .*missing"),
    "version inside": (top(type="Tuple", spaces=[{**DISCRETE, "paddock": 1}]), r"^\$\.spaces\[0\]\.paddock: unknown"),
    "bool as integer": (top(**{**DISCRETE, "n": True}), r"^\$\.n: expected an integer, got true"),
    "float as integer": (top(**{**DISCRETE, "n": 2.0}), r"^\$\.n: expected an integer"),
    "string as integer": (top(**{**DISCRETE, "n": "2"}), r"^\$\.n: expected an integer"),
    "zero": (top(**{**DISCRETE, "n": 0}), r"^\$: .*positive"),
    "n outside dtype": (top(**{**DISCRETE, "dtype": "int8", "n": 300}), r"^\$: .*int8"),
    "huge integer": (top(**{**DISCRETE, "n": 10**4000}), r"^\$\.n: .*huge"),
    "integer of too many digits": (top(**DISCRETE).replace('"n": 2', '"n": ' + "9" * 10**5), r"^\$"),
    "huge float": (top(**BOX).replace('"low": 0', '"low": 1e999'), r"^\$: .*too large"),
    "NaN": (top(**BOX).replace('"low": 0', '"low": NaN'), r"^\$: NaN is not JSON"),
    "Infinity": (top(**BOX).replace('"low": 0', '"low": -Infinity'), r"^\$: -Infinity is not JSON"),
    "nan by name": (top(**{**BOX, "low": "nan"}), r"^\$\.low: expected a number"),
    "null bound": (top(**{**BOX, "low": None}), r"^\$\.low: expected a number"),
    "bool bound": (top(**{**BOX, "low": False}), r"^\$\.low: expected a number"),
    "bounds too few": (top(**{**BOX, "low": [0]}), r"^\$\.low: expected 2 numbers"),
    "bounds nested": (top(**{**BOX, "low": [[0, 0]]}), r"^\$\.low: expected 2 numbers"),
    "bound of wrong type": (top(**{**BOX, "low": [0, "x"]}), r"^\$\.low\[1\]: expected a number"),
    "low above high": (top(**{**BOX, "low": 2}), r"^\$: .*less than or equal"),
    "bound outside dtype": (top(**{**BOX, "low": [-1e300, 0]}), r"^\$\.low: .*out of bounds"),
    "scalar outside dtype": (top(**{**BOX, "low": -1e300}), r"^\$: .*out of bounds"),
    "float in an integer box": (top(**{**BOX, "dtype": "int8", "low": 0.5}), r"^\$\.low: expected an integer"),
    "integer outside uint8": (top(**{**BOX, "dtype": "uint8", "high": [256, 1]}), r"^\$: .*out of bounds"),
    "negative in uint64": (top(**{**BOX, "dtype": "uint64", "low": [-1, 0]}), r"^\$\.low: .*out of bounds"),
    "inf in uint8": (top(**{**BOX, "dtype": "uint8", "high": "inf"}), r"^\$: .*inf"),
    "2**60 beside inf": (top(**{**BOX, "dtype": "int64", "high": [2**60, "inf"]}), r"^\$\.high: .*2\*\*53"),
    "unknown dtype": (top(**{**BOX, "dtype": "O"}), r"^\$\.dtype: expected one of"),
    "dtype with code": (top(**{**BOX, "dtype": "V8, __import__('os')"}), r"^\$\.dtype: expected one of"),
    "complex dtype": (top(**{**BOX, "dtype": "complex64"}), r"^\$\.dtype: expected one of"),
    "float dtype for Discrete": (top(**{**DISCRETE, "dtype": "float32"}), r"^\$\.dtype: expected one of"),
    "negative size": (top(**{**BOX, "shape": [-1]}), r"^\$\.shape\[0\]: expected an integer of zero or more"),
    "bool size": (top(**{**BOX, "shape": [True]}), r"^\$\.shape\[0\]"),
    "shape is a number": (top(**{**BOX, "shape": 3}), r"^\$\.shape: expected a list"),
    "too many axes": (top(**{**BOX, "shape": [1] * 33}), r"^\$\.shape: more than 32 axes"),
    "too many elements": (top(**{**BOX, "shape": [2**14, 2**13]}), r"^\$\.shape: .*elements"),
    "astronomically many elements": (top(**{**BOX, "shape": [2**62] * 32}), r"^\$\.shape: .*elements"),
    "no elements of many": (top(**{**BOX, "shape": [0, 2**62]}), r"^\$\.shape: .*elements"),
    "too many elements in sum": (
        top(type="Tuple", spaces=[{**BOX, "shape": [2**25]}] * 3),
        r"^\$\.spaces\[2\]\.shape: .*elements",
    ),
    "too many binary elements": (top(type="MultiBinary", n=[2**20, 2**20]), r"^\$\.n: .*elements"),
    "too long text": (top(**{**TEXT, "max_length": 2**40}), r"^\$\.max_length: .*elements"),
    "min above max": (top(**{**TEXT, "min_length": 9}), r"^\$: .*min_length"),
    "charset is a list": (top(**{**TEXT, "charset": ["ab", "c"]}), r"^\$\.charset: expected a string"),
    "charset too long": (top(**{**TEXT, "charset": "a" * (2**20 + 1)}), r"^\$\.charset: longer"),
    "lone surrogate escaped": (top(**{**TEXT, "charset": "\ud800"}), r"^\$\.charset: .*surrogate"),
    "lone surrogate": (top(**TEXT).replace("ab", "\ud800"), r"^\$: .*UTF-8"),
    "not UTF-8": (b"\xff\xfe{}", r"^\$: .*UTF-8"),
    "UTF-16": (top(**DISCRETE).encode("utf-16"), r"^\$"),
    "nvec too short": (top(**{**MANY, "nvec": [2]}), r"^\$\.nvec: expected 2 integers"),
    "nvec of bools": (top(**{**MANY, "nvec": [2, True]}), r"^\$\.nvec\[1\]: expected an integer"),
    "nvec outside dtype": (top(**{**MANY, "dtype": "int8", "nvec": [2, 300]}), r"^\$\.nvec\[1\]: .*int8"),
    "nvec of zero": (top(**{**MANY, "nvec": [2, 0]}), r"^\$: .*positive"),
    "spaces is an object": (top(type="Tuple", spaces={}), r"^\$\.spaces: expected a list, got an object"),
    "a part is no space": (top(type="Tuple", spaces=[DISCRETE, 3]), r"^\$\.spaces\[1\]: expected an object"),
    "an empty union": (top(type="OneOf", spaces=[]), r"^\$: Empty"),
    "pairs missing": (top(type="Dict", spaces=[DISCRETE], sort_keys=True), r"^\$\.spaces\[0\]: expected a pair"),
    "a key that is no string": (top(type="Dict", spaces=[[1, DISCRETE]], sort_keys=True), r"^\$\.spaces\[0\]: .*pair"),
    "a key twice": (top(type="Dict", spaces=[["a", DISCRETE]] * 2, sort_keys=True), r"^\$\.spaces\[1\]\[0\]: .*twice"),
    "sort_keys is a number": (top(type="Dict", spaces=[], sort_keys=1), r"^\$\.sort_keys: expected true or false"),
    "stack is null": (top(type="Sequence", space=DISCRETE, stack=None), r"^\$\.stack: expected true or false"),
    "no node space": (top(type="Graph", node_space=None, edge_space=None), r"^\$\.node_space: expected an object"),
    "a field twice": (
        '{"paddock": 1, "type": "Tuple", "spaces": [{"type": "Discrete", "type": "Box"}]}',
        r"^\$\.spaces\[0\]: the key 'type' occurs twice",
    ),
    "top field twice": ('{"paddock": 1, "paddock": 1, "type": "Tuple", "spaces": []}', r"^\$: .*twice"),
    "nested lists": ("[" * 10**5, r"^\$"),
    "nested objects": ('{"a":' * 10**5, r"^\$"),
    "nested spaces": (
        '{"paddock":1,"type":"Tuple","spaces":[' + '{"type":"Tuple","spaces":[' * 10**5,
        r"^\$",
    ),
    "nested with siblings": ("[[],[0]," * 4000, r"^\$"),
    "nested behind strings": ('["\\"[[", ' * 4000, r"^\$"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused_with_the_place(name):
    text, message = HOSTILE[name]
    with pytest.raises(InvalidSpace, match=message) as caught:
        from_json(text)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("data", [None, 3, [], {}, object()])
def test_what_is_no_text_is_refused(data):
    with pytest.raises(InvalidSpace):
        from_json(data)


def test_a_space_of_33_levels_is_refused_and_of_32_is_not():
    def nested(levels):
        text = json.dumps(DISCRETE)
        for _ in range(levels - 1):
            text = f'{{"type": "Sequence", "space": {text}, "stack": false}}'
        return '{"paddock": 1, ' + text[1:]

    assert isinstance(from_json(nested(32)), Sequence)
    with pytest.raises(InvalidSpace, match="nested deeper than 32"):
        from_json(nested(33))


def test_4097_spaces_are_refused_and_4096_are_not():
    def many(count):
        return top(type="Tuple", spaces=[DISCRETE] * (count - 1))

    assert len(from_json(many(4096))) == 4095
    with pytest.raises(InvalidSpace, match="more than 4096 objects"):
        from_json(many(4097))


OVER_LIMIT = {
    "text": '"' + "a" * (16 * 2**20) + '"',
    "bytes": b'"' + b"a" * (16 * 2**20) + b'"',
    "nesting": "[" * 10**5,
    "objects": '{"a":' * 10**5,
    "brackets": top(type="Tuple", spaces=[[]] * 10**6),
    "siblings": top(type="Tuple", spaces=[DISCRETE] * 10**5),
    "keys": top(type="Dict", spaces=[[str(i), DISCRETE] for i in range(50_000)], sort_keys=True),
    "elements": top(**{**BOX, "shape": [2**26, 2]}),
    "charset": top(**{**TEXT, "charset": "ab" * 2**20}),
    "siblings in a valid number of brackets": top(type="Tuple", spaces=[DISCRETE] * 5000),
}


@pytest.mark.parametrize("name", OVER_LIMIT)
def test_over_the_limit_is_refused_quickly_and_in_little_memory(name):
    text = OVER_LIMIT[name]

    def refuse():
        with pytest.raises(InvalidSpace, match=r"^\$"):
            from_json(text)

    refuse()  # imports and warms up
    times = []
    for _ in range(5):
        begin = time.process_time()
        refuse()
        times.append(time.process_time() - begin)
    tracemalloc.start()
    try:
        refuse()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000
    # 10 ms is the promise and 6 ms what a quiet machine needs; the best of five, with room for noisy neighbours.
    assert min(times) < 0.02


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["inf", "-inf"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=300)
@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_text_gives_a_space_or_invalid_space(text):
    try:
        assert isinstance(from_json(text), Space)
    except InvalidSpace as error:
        assert str(error).startswith("$")  # noqa: PT017


@pytest.mark.slow
@settings(max_examples=400)
@given(st.sampled_from(sorted(CATALOGUE)), st.data())
def test_a_form_spoilt_in_one_place_gives_a_space_or_invalid_space(name, data):
    form = json.loads(CATALOGUE[name]().to_json())
    target = form
    while True:
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        if isinstance(target[key], (dict, list)) and data.draw(st.booleans()):
            target = target[key]
            continue
        target[key] = data.draw(json_data)
        break
    try:
        assert isinstance(from_json(json.dumps(form)), Space)
    except InvalidSpace as error:
        assert str(error).startswith("$")  # noqa: PT017
