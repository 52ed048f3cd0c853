"""`contains` answers for any object: it never raises, never warns, and agrees with Gymnasium wherever that answers."""

import warnings

import gymnasium.logger
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paddock.spaces as ours
from tests.spaces.hostile import hostile_objects, hostile_values, plain_values
from tests.spaces.strategies import spaces
from tests.spaces.twins import CATALOGUE, twin, twin_value

OBJECTS = hostile_objects()


def answer(space, value):
    """What ours says, with every warning an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = space.contains(value)
    assert found is True or found is False
    return found


def peer_answer(peer, value):
    """What Gymnasium says, or None where it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return bool(peer.contains(value))
        except Exception:
            return None


@pytest.mark.parametrize("name", CATALOGUE)
def test_contains_answers_for_hostile_objects(name):
    space = CATALOGUE[name]()
    for value in OBJECTS:
        answer(space, value)


@pytest.mark.parametrize("name", CATALOGUE)
def test_contains_answers_for_members_spoilt_in_one_place(name):
    space = CATALOGUE[name]()
    space.seed(1)
    for spoil in OBJECTS[::3]:
        match space.sample():
            case ours.GraphInstance() as graph:
                for field in ("nodes", "edges", "edge_links"):
                    answer(space, graph._replace(**{field: spoil}))
            case tuple() | list() as parts:
                for i in range(len(parts)):
                    answer(space, (*parts[:i], spoil, *parts[i + 1 :]))
            case dict() as parts:
                for key in parts:
                    answer(space, {**parts, key: spoil})


@pytest.mark.slow
@settings(max_examples=300)
@given(spaces, hostile_values)
def test_contains_is_total_and_silent(space, value):
    answer(space, value)


@pytest.mark.slow
@settings(max_examples=300)
@given(spaces, plain_values)
def test_contains_agrees_with_gymnasium_on_any_value(space, value):
    check_agreement(space, value)


@pytest.mark.slow
@settings(max_examples=300)
@given(spaces, st.integers(0, 2**32), st.data())
def test_contains_agrees_with_gymnasium_near_members(space, seed, data):
    space.seed(seed)
    value = near(space.sample(), data)
    check_agreement(space, value)


def check_agreement(space, value):
    mine, theirs = answer(space, value), peer_answer(twin(space), twin_value(value))
    assert theirs is None or mine == theirs, f"{space}.contains({value!r}): ours {mine}, Gymnasium's {theirs}"


def near(value, data):
    """A member with one thing changed: a dtype, a length, a number, a type."""
    change = data.draw(st.sampled_from(["none", "dtype", "list", "shape", "number", "wrap"]))
    if isinstance(value, ours.GraphInstance):
        field = data.draw(st.sampled_from(["nodes", "edges", "edge_links"]))
        part = getattr(value, field)
        return value._replace(**{field: None if data.draw(st.booleans()) else near(part, data)})
    if isinstance(value, tuple) and value:
        i = data.draw(st.integers(0, len(value) - 1))
        changed = (*value[:i], near(value[i], data), *value[i + 1 :])
        return list(changed) if change == "list" else changed[1:] if change == "shape" else changed
    if isinstance(value, dict) and value:
        key = data.draw(st.sampled_from(list(value)))
        return {**value, key: near(value[key], data)} if change != "shape" else {**value, "more": 1}
    if isinstance(value, (np.ndarray, np.generic)):
        if change == "dtype":
            with np.errstate(all="ignore"):
                return value.astype(data.draw(st.sampled_from(["i1", "i4", "i8", "u1", "u8", "f2", "f4", "f8", "?"])))
        if change == "list":
            return value.tolist()
        if change == "shape":
            return np.asarray(value)[None]
        if change == "number":
            with np.errstate(all="ignore"):
                return (
                    value + value.dtype.type(data.draw(st.sampled_from([1, 2, 100]))) if value.dtype != bool else value
                )
    return [value] if change == "wrap" else value


def test_casting_lists_is_silent():
    assert answer(ours.Box(0, 1, (2,)), [0.5, 0.5]) is True
    assert answer(ours.Box(0, 1, (2,)), (0, 1)) is True
    assert answer(ours.Box(0, 1, (2,)), [1e300, 0]) is False
    assert answer(ours.Box(0, 1, ()), 0.5) is True


def test_gymnasium_still_warns_about_casting():
    """When this fails, the difference can go."""
    with pytest.warns(UserWarning, match="Casting input x"):
        twin(ours.Box(0, 1, (2,))).contains([0.5, 0.5])
    assert gymnasium.logger.min_level == 30


def test_an_iterator_is_no_member_and_is_not_used_up():
    space = ours.Sequence(ours.Discrete(4), stack=True)
    numbers = iter([1, 2, 3])
    assert numbers not in space
    assert list(numbers) == [1, 2, 3]


def test_long_ranges_are_refused_without_being_built():
    for space in (ours.Box(0, 1, (2,)), ours.MultiDiscrete([2, 2]), ours.MultiBinary(2)):
        assert answer(space, range(10**15)) is False


def test_errors_of_a_users_own_space_are_not_swallowed():
    class Broken(ours.Space):
        def contains(self, x):
            raise KeyError("a bug")

    for space, value in [
        (ours.Tuple([Broken()]), (1,)),
        (ours.Dict(a=Broken()), {"a": 1}),
        (ours.OneOf([Broken()]), (0, 1)),
        (ours.Sequence(Broken()), (1,)),
        (ours.Graph(Broken(), None), ours.GraphInstance((1,), None, None)),
    ]:
        with pytest.raises(KeyError):
            space.contains(value)
