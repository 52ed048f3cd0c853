"""Tuple, Dict, OneOf and Sequence: parts, order, seeds, masks."""

from collections import OrderedDict
from collections.abc import Mapping
from collections.abc import Sequence as AbstractSequence

import numpy as np
import pytest

from paddock.errors import InvalidSpace
from paddock.spaces import Box, Dict, Discrete, MultiBinary, OneOf, Sequence, Space, Text, Tuple
from tests.spaces.twins import CATALOGUE, same, twin

NAMES = [name for name in CATALOGUE if name.startswith(("tuple", "dict", "one-of", "sequence"))]


@pytest.mark.parametrize("name", NAMES)
def test_attributes_and_repr_equal_gymnasiums(name):
    space = CATALOGUE[name]()
    peer = twin(space)
    assert repr(space) == repr(peer)
    assert (space.shape, space.dtype, space.is_np_flattenable) == (peer.shape, peer.dtype, peer.is_np_flattenable)


@pytest.mark.parametrize("name", NAMES)
def test_jsonable_round_trip_equals_gymnasiums(name):
    space = CATALOGUE[name]()
    space.seed(2)
    samples = [space.sample() for _ in range(3)]
    if name != "sequence-stack-dict":  # Gymnasium batches this into one dict and loses the lengths
        data = space.to_jsonable(samples)
        assert data == twin(space).to_jsonable(samples)
        if name != "tuple-empty":
            assert same(space.from_jsonable(data), samples)


SEEDS = {
    "tuple": [1, (1, 2, 3), [4, 5, 6]],
    "dict": [1, {"color": 3, "position": 4}],
    "one-of": [1, (1, 2, 3, 4)],
    "sequence": [1, (1, 2), [3, 4]],
    "dict-in-order": [{"z": 1, "a": {"b": 2}}],
}


@pytest.mark.parametrize("name", SEEDS)
def test_seeds_of_every_form_equal_gymnasiums(name):
    space = CATALOGUE[name]()
    peer = twin(space)
    for seed in SEEDS[name]:
        assert same(space.seed(seed), peer.seed(seed))
        assert same([space.sample() for _ in range(5)], [peer.sample() for _ in range(5)])
    assert len(str(space.seed())) > 0


@pytest.mark.parametrize(
    ("name", "seed"),
    [("tuple", (1, 2)), ("tuple", 1.5), ("dict", {"color": 1}), ("dict", (1, 2)), ("one-of", (1,)), ("sequence", (1,))],
)
def test_seeds_that_do_not_fit_are_refused(name, seed):
    with pytest.raises((ValueError, TypeError)):
        CATALOGUE[name]().seed(seed)


def test_masked_samples_equal_gymnasiums():
    rng = np.random.default_rng(1)

    def int8(n, most=1):
        return rng.integers(0, most + 1, n, dtype=np.int8)

    def cases():
        yield Tuple([Discrete(3), MultiBinary(4)]), "mask", lambda: (int8(3), int8(4, 2))
        yield Tuple([Discrete(3), Box(0, 1)]), "mask", lambda: (int8(3), None)
        yield Tuple([Discrete(3), Discrete(2)]), "probability", lambda: (rng.dirichlet(np.ones(3)), None)
        yield Dict(a=Discrete(3), b=MultiBinary(4)), "mask", lambda: {"b": int8(4, 2), "a": int8(3)}
        yield Dict(a=Discrete(3), b=Box(0, 1)), "probability", lambda: {"a": rng.dirichlet(np.ones(3)), "b": None}
        yield OneOf([Discrete(3), Box(0, 1)]), "mask", lambda: (int8(3), None)
        yield OneOf([Discrete(3), MultiBinary(2)]), "probability", lambda: (rng.dirichlet(np.ones(3)), rng.random(2))
        yield Sequence(Discrete(3)), "mask", lambda: (None, int8(3))
        yield Sequence(Discrete(3)), "mask", lambda: (int(rng.integers(0, 4)), int8(3))
        yield Sequence(Discrete(3)), "probability", lambda: (np.array([1, 2, 5]), rng.dirichlet(np.ones(3)))
        yield Sequence(Discrete(3), stack=True), "mask", lambda: (np.array([1, 3]), int8(3))

    for space, name, draw in cases():
        peer = twin(space)
        space.seed(3), peer.seed(3)
        for _ in range(100):
            mask = draw()
            assert same(space.sample(**{name: mask}), peer.sample(**{name: mask})), (space, name, mask)


@pytest.mark.parametrize(
    ("space", "mask"),
    [
        (Tuple([Discrete(2)]), [np.ones(2, np.int8)]),
        (Tuple([Discrete(2)]), ()),
        (Dict(a=Discrete(2)), (np.ones(2, np.int8),)),
        (Dict(a=Discrete(2)), {"b": None}),
        (OneOf([Discrete(2)]), []),
        (OneOf([Discrete(2)]), (None, None)),
        (Sequence(Discrete(2)), (-1, None)),
        (Sequence(Discrete(2)), ("1", None)),
        (Sequence(Discrete(2)), (np.array([[1]]), None)),
        (Sequence(Discrete(2)), (np.array([1.5]), None)),
        (Sequence(Discrete(2)), (np.array([-1]), None)),
        (Sequence(Discrete(2)), (np.array([], int), None)),
    ],
)
def test_bad_masks_are_refused(space, mask):
    with pytest.raises((AssertionError, TypeError)):
        space.sample(mask=mask)
    with pytest.raises(ValueError, match="Only one of"):
        space.sample(mask=(None, None), probability=(None, None))


def test_a_mapping_is_sorted_unless_it_has_an_order():
    assert list(Dict({"b": Discrete(1), "a": Discrete(2)})) == ["a", "b"]
    assert list(Dict({"b": Discrete(1), "a": Discrete(2)}, sort_keys=False)) == ["b", "a"]
    assert list(Dict(OrderedDict(b=Discrete(1), a=Discrete(2)))) == ["b", "a"]
    assert list(Dict([("b", Discrete(1)), ("a", Discrete(2))])) == ["b", "a"]
    assert list(Dict(b=Discrete(1), a=Discrete(2))) == ["b", "a"]
    assert list(Dict({"b": Discrete(1), 1: Discrete(2)})) == ["b", 1]
    assert list(Dict({"b": Discrete(1)}, None, a=Discrete(2))) == ["b", "a"]


def test_dict_is_a_mapping_and_tuple_a_sequence():
    space = Dict(a=Discrete(1), b=Discrete(2))
    assert isinstance(space, Mapping)
    assert isinstance(space, Space)
    assert (len(space), space["b"], space.get("c"), list(space.keys())) == (2, Discrete(2), None, ["a", "b"])
    space["c"] = Discrete(3)
    assert list(space.items())[-1] == ("c", Discrete(3))
    with pytest.raises(TypeError):
        space["d"] = 3
    pair = Tuple([Discrete(1), Discrete(2)])
    assert isinstance(pair, AbstractSequence)
    assert (len(pair), pair[1], pair[-2:], pair.index(Discrete(2))) == (2, Discrete(2), (Discrete(1), Discrete(2)), 1)
    assert list(reversed(pair)) == [Discrete(2), Discrete(1)]
    either = OneOf([Discrete(1), Discrete(2)])
    assert (len(either), either[1]) == (2, Discrete(2))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Tuple([1]),
        lambda: Tuple(3),
        lambda: OneOf([]),
        lambda: OneOf([1]),
        lambda: OneOf(None),
        lambda: Dict({"a": 1}),
        lambda: Dict(3),
        lambda: Dict([1, 2]),
        lambda: Dict({"a": Discrete(2)}, a=Discrete(2)),
        lambda: Sequence(3),
    ],
)
def test_parts_that_are_no_spaces_are_refused(make):
    with pytest.raises(InvalidSpace):
        make()


def test_equality_and_hash():
    a, b = Dict([("x", Discrete(2)), ("y", Text(3))]), Dict([("y", Text(3)), ("x", Discrete(2))])
    assert a == b
    assert hash(a) == hash(b)
    assert a != Dict(x=Discrete(2))
    assert Tuple([Discrete(2)]) != OneOf([Discrete(2)])
    assert Tuple([a]) == Tuple([b])
    assert hash(Tuple([a])) == hash(Tuple([b]))
    assert Sequence(a) == Sequence(b)
    assert Sequence(a) != Sequence(b, stack=True)
    assert len({Sequence(a), Sequence(b), OneOf([a]), OneOf([b])}) == 2


def test_deeply_nested_stacked_sequences_are_cheap_to_make_and_compare():
    space = other = Discrete(2)
    for _ in range(30):
        space, other = Sequence(space, stack=True), Sequence(other, stack=True)
    assert space == other
    assert hash(space) == hash(other)
    with pytest.raises(AttributeError):
        Sequence(Discrete(2)).stacked_feature_space


def test_a_custom_space_takes_part():
    class Colors(Space):
        def __init__(self):
            super().__init__(None, None)

        def sample(self, mask=None, probability=None):
            return "red" if self.np_random.random() < 0.5 else "blue"

        def contains(self, x):
            return x in ("red", "blue")

    space = Dict(color=Colors(), more=Tuple([Colors(), Sequence(Colors(), stack=True)]), seed=3)
    for _ in range(20):
        assert space.sample() in space
    assert Colors().to_jsonable(["red"]) == ["red"]
    assert Colors().from_jsonable(["red"]) == ["red"]
    for name in ("sample", "contains"):
        with pytest.raises(NotImplementedError):
            getattr(Space(), name)(*([] if name == "sample" else [1]))
    with pytest.raises(NotImplementedError):
        Space().is_np_flattenable
