"""`conform` gives the environment what it expects, or refuses with a sentence."""

import re

import numpy as np
import pytest

from paddock.spaces import Box, Dict, Discrete, MultiBinary, Nonconforming, OneOf, Text, Tuple, conform
from tests.case_names import case_name
from tests.spaces.hostile import hostile_objects
from tests.spaces.twins import CATALOGUE, same

inf, nan = np.inf, np.nan


def test_an_array_of_the_right_dtype_comes_back_itself():
    for space in (
        Box(-1, 1, (1,)),
        Box(-1, 1, (40,)),
        Box(0, 9, (2, 2), np.int32),
        Box(-inf, inf, (3,)),
        Box(0, 1, ()),
    ):
        value = space.sample()
        assert conform(space, value) is value
        assert conform(space, value, bounds=False) is value


@pytest.mark.parametrize(
    ("space", "value", "expected"),
    [
        (Box(-1, 1, (2,)), np.array([0.1, 0.2]), np.array([0.1, 0.2], np.float32)),
        (Box(-1, 1, (2,)), np.array([0.5, 1], np.float16), np.array([0.5, 1], np.float32)),
        (Box(-1, 1, (2,)), [0.5, 1], np.array([0.5, 1], np.float32)),
        (Box(-1, 1, (2,)), (True, False), np.array([1, 0], np.float32)),
        (Box(-1, 1, (2,)), np.array([1, 0]), np.array([1, 0], np.float32)),
        (Box(-1, 1, ()), 0.5, np.array(0.5, np.float32)),
        (Box(-1, 1, (), np.float64), np.float32(0.5), np.array(0.5)),
        (Box(-1, 1, (2,)), np.array([0.5, 1], ">f8"), np.array([0.5, 1], np.float32)),
        (Box(0, 9, (2,), np.int32), [3, 4], np.array([3, 4], np.int32)),
        (Box(0, 9, (2,), np.int32), np.array([3, 4], np.uint64), np.array([3, 4], np.int32)),
        (Box(0, 1, (2,), np.bool_), [True, False], np.array([True, False])),
    ],
)
def test_other_dtypes_are_cast(space, value, expected):
    assert same(conform(space, value), expected)


@pytest.mark.parametrize(
    ("space", "value", "reason"),
    [
        (Box(-1, 1, (2,)), np.zeros(3, np.float32), "shape"),
        (Box(-1, 1, (2,)), 0.5, "shape"),
        (Box(-1, 1, (2,)), np.array([nan, 0], np.float32), "NaN"),
        (Box(-1, 1, (2,)), [nan, 0], "NaN"),
        (Box(-1, 1, (40,)), np.full(40, nan, np.float32), "NaN"),
        (Box(-inf, inf, (2,)), np.array([nan, 0], np.float32), "NaN"),
        (Box(-1, 1, (2,)), ["0", "1"], "not made of numbers"),
        (Box(-1, 1, (2,)), [1j, 0], "not made of numbers"),
        (Box(-1, 1, (2,)), None, "not made of numbers"),
        (Box(-1, 1, (2,)), [None, 1], "not made of numbers"),
        (Box(-1, 1, (2,)), [[1], [1, 2]], "not a regular array"),
        (Box(-1, 1, (2,)), np.array([2, 0], np.float32), "outside the bounds"),
        (Box(-1, 1, (2,)), np.array([1e300, 0]), "outside the bounds"),
        (Box(0, 9, (2,), np.int32), [3.0, 4.0], "can't be cast"),
        (Box(0, 9, (2,), np.int8), [300, 4], "can't be cast"),
        (Box(0, 9, (2,), np.uint8), [-1, 4], "can't be cast"),
        (Box(0, 1, (2,), np.bool_), [0, 1], "can't be cast"),
        (Box(0, 9, (2,), np.int32), [10, 4], "outside the bounds"),
        (Discrete(3), 3, "is not in Discrete"),
        (Discrete(3), 1.0, "is not in Discrete"),
        (Text(3), "abcd", "is not in Text"),
        (MultiBinary(2), [0, 2], "is not in MultiBinary"),
        (Tuple([Discrete(3)]), (3,), r"action\[0\]: 3 is not in"),
        (Tuple([Discrete(3)]), (), "expected a tuple of 1 values"),
        (Dict(a=Tuple([Box(0, 1)])), {"a": ([nan],)}, r"action\['a'\]\[0\]: .*NaN"),
        (Dict(a=Discrete(3)), {"b": 1}, "with the keys"),
        (OneOf([Discrete(3)]), (0, 3), r"action\[1\]: 3"),
        (OneOf([Discrete(3)]), (1, 0), "an index below 1"),
        (OneOf([Discrete(3)]), 0, "expected a pair"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_reason(space, value, reason):
    with pytest.raises(Nonconforming, match=reason) as caught:
        conform(space, value, path="action")
    assert str(caught.value).startswith("action")


class Tensor:
    """As of Torch: no array of NumPy's, with an element to take out."""

    def __init__(self, element, shape=()):
        self.element, self.shape = element, shape

    def item(self):
        return self.element


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (Tensor(1), "it is a Tensor, a Discrete takes an integer. Pass action.item() or int(action)"),
        (Tensor(1, (1,)), "its shape is (1,), a Discrete takes an integer. Pass action.item()"),
        (Tensor(1.0), "it is a Tensor, a Discrete takes an integer. Pass int(action.item())"),
        (np.array([1]), "its shape is (1,), a Discrete takes an integer. Pass action[0] or action.item()"),
        (np.array([[1]]), "its shape is (1, 1), a Discrete takes an integer. Pass action.item()"),
        (np.float32(1), "it is a float32, a Discrete takes an integer. Pass int(action.item())"),
        (1.0, "it is a float, a Discrete takes an integer. Pass int(action)"),
        (Tensor(2), "expected an integer from 0 to 1"),
        (np.array([0, 1]), "expected an integer from 0 to 1"),
        (2, "expected an integer from 0 to 1"),
        ("1", "expected an integer from 0 to 1"),
    ],
    ids=case_name,
)
def test_a_discrete_action_of_another_kind_is_refused_with_the_way_to_an_integer(value, advice):
    for space, action, name in ((Discrete(2), value, "action"), (Dict(a=Discrete(2)), {"a": value}, "action['a']")):
        with pytest.raises(Nonconforming) as caught:
            conform(space, action)
        assert str(caught.value).endswith(advice.replace("action", name))


def test_the_advice_about_a_discrete_action_works():
    for value, take in ((np.array([1]), "action[0]"), (np.array([1]), "action.item()"), (Tensor(1), "action.item()")):
        with pytest.raises(Nonconforming, match=re.escape(take)):
            conform(Discrete(2), value)
        assert conform(Discrete(2), eval(take, {"action": value})) == 1


def test_bounds_can_be_left_to_the_environment_but_nan_never():
    space = Box(-1, 1, (2,))
    outside = np.array([5, -inf], np.float32)
    assert conform(space, outside, bounds=False) is outside
    assert same(conform(space, [9, 9], bounds=False), np.array([9, 9], np.float32))
    assert conform(Dict(a=space), {"a": outside}, bounds=False)["a"] is outside
    with pytest.raises(Nonconforming, match="NaN"):
        conform(space, np.array([nan, 0], np.float32), bounds=False)
    with pytest.raises(Nonconforming, match="Discrete"):
        conform(Discrete(2), 2, bounds=False)


class Torque(Box):
    pass


class EvenBox(Box):
    def contains(self, x):
        return super().contains(x) and not np.any(np.asarray(x) % 2)


def test_a_subclass_is_treated_as_its_parent_unless_it_has_other_members():
    assert same(conform(Torque(-1, 1, (2,)), [0.5, 1]), np.array([0.5, 1], np.float32))
    value = np.array([2], np.float32)
    assert conform(EvenBox(0, 9), value) is value
    with pytest.raises(Nonconforming, match="is not in"):
        conform(EvenBox(0, 9), np.array([3], np.float32))


def test_integers_come_back_as_they_are():
    for value in (1, np.int8(1), np.array(1), True):
        assert conform(Discrete(3), value) is value


@pytest.mark.parametrize("name", CATALOGUE)
def test_members_conform_and_hostile_objects_are_refused_in_a_sentence(name):
    space = CATALOGUE[name]()
    space.seed(1)
    sample = space.sample()
    assert same(conform(space, sample), sample)
    for value in hostile_objects():
        refusal = refusal_of(space, value)
        assert len(refusal) < 800
        assert "\n" not in refusal


def refusal_of(space, value):
    try:
        assert space.contains(conform(space, value))
    except Nonconforming as refusal:
        return str(refusal)
    return ""
