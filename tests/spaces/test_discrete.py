"""Discrete, MultiDiscrete and MultiBinary: parameters, masks, probabilities."""

import itertools
import pickle

import numpy as np
import pytest

from paddock.errors import InvalidProbability, InvalidSpace
from paddock.spaces import Discrete, MultiBinary, MultiDiscrete
from tests.spaces.twins import CATALOGUE, same, twin

NAMES = [name for name in CATALOGUE if name.startswith(("discrete", "multi"))]


@pytest.mark.parametrize("name", NAMES)
def test_attributes_and_repr_equal_gymnasiums(name):
    space = CATALOGUE[name]()
    peer = twin(space)
    assert repr(space) == repr(peer)
    assert (space.shape, space.dtype) == (peer.shape, peer.dtype)
    for attribute in ("n", "start", "nvec"):
        if hasattr(peer, attribute):
            assert same(getattr(space, attribute), getattr(peer, attribute))


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("discrete") and "large" not in name])
def test_masked_samples_equal_gymnasiums(name):
    space = CATALOGUE[name]()
    peer = twin(space)
    space.seed(4), peer.seed(4)
    rng = np.random.default_rng(1)
    for _ in range(300):
        mask = rng.integers(0, 2, int(space.n), dtype=np.int8)
        assert same(space.sample(mask=mask), peer.sample(mask=mask))
        weights = rng.dirichlet(np.ones(int(space.n)))
        assert same(space.sample(probability=weights), peer.sample(probability=weights))
        assert same(space.sample(), peer.sample())
    assert same(space.sample(mask=np.zeros(int(space.n), np.int8)), space.start)


def nested(nvec, draw):
    return draw(int(nvec)) if np.ndim(nvec) == 0 else tuple(nested(part, draw) for part in nvec)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("multi-discrete")])
def test_masked_samples_of_multi_discrete_equal_gymnasiums(name):
    space = CATALOGUE[name]()
    peer = twin(space)
    space.seed(4), peer.seed(4)
    rng = np.random.default_rng(1)
    for _ in range(200):
        mask = nested(space.nvec, lambda n: rng.integers(0, 2, n, dtype=np.int8))
        weights = nested(space.nvec, lambda n: rng.dirichlet(np.ones(n)))
        assert same(space.sample(mask=mask), peer.sample(mask=mask))
        assert same(space.sample(probability=weights), peer.sample(probability=weights))
        assert same(space.sample(), peer.sample())


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("multi-binary")])
def test_masked_samples_of_multi_binary_equal_gymnasiums(name):
    space = CATALOGUE[name]()
    peer = twin(space)
    space.seed(4), peer.seed(4)
    rng = np.random.default_rng(1)
    for _ in range(200):
        mask = rng.integers(0, 3, space.shape, dtype=np.int8)
        assert same(space.sample(mask=mask), peer.sample(mask=mask))
        weights = rng.random(space.shape)
        assert same(space.sample(probability=weights), peer.sample(probability=weights))


@pytest.mark.parametrize(
    "arguments",
    [
        {"n": 0},
        {"n": -1},
        {"n": 1.0},
        {"n": "3"},
        {"n": 3, "start": 1.5},
        {"n": 3, "dtype": None},
        {"n": 3, "dtype": np.float32},
        {"n": 200, "dtype": np.int8},
        {"n": 100, "start": 100, "dtype": np.int8},
        {"n": 1, "start": -1, "dtype": np.uint8},
    ],
)
def test_impossible_discretes_are_refused(arguments):
    with pytest.raises(InvalidSpace):
        Discrete(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"nvec": [0]},
        {"nvec": [3, -1]},
        {"nvec": [[1], [2, 3]]},
        {"nvec": "ab"},
        {"nvec": [3], "start": [1, 2]},
        {"nvec": [3], "dtype": None},
        {"nvec": [3], "dtype": np.float64},
        {"nvec": [100], "start": [100], "dtype": np.int8},
    ],
)
def test_impossible_multi_discretes_are_refused(arguments):
    with pytest.raises(InvalidSpace):
        MultiDiscrete(**arguments)


@pytest.mark.parametrize("n", [0, -1, 1.5, "3", None, (2, 0)])
def test_impossible_multi_binaries_are_refused(n):
    with pytest.raises(InvalidSpace):
        MultiBinary(n)


BAD_MASKS = [[1, 0, 1], np.ones(3), np.ones(2, np.int8), np.array([0, 1, 2], np.int8), (1, 0, 1)]
BAD_WEIGHTS = [[1, 0, 0], np.ones(3, np.int8), np.ones(2) / 2, np.array([0.5, 0.2, 0.2]), np.array([1.5, -0.5, 0])]


def test_bad_masks_and_probabilities_are_refused_as_gymnasium_refuses_them():
    ours = [Discrete(3), MultiDiscrete([3, 3])]
    for mask, space in itertools.product(BAD_MASKS, ours):
        with pytest.raises(AssertionError):
            space.sample(mask=mask if isinstance(space, Discrete) else (mask, mask))
    for weights, space in itertools.product(BAD_WEIGHTS, ours):
        with pytest.raises(InvalidProbability):
            space.sample(probability=weights if isinstance(space, Discrete) else (weights, weights))
    with pytest.raises(AssertionError):
        MultiBinary(3).sample(mask=np.array([0, 1, 3], np.int8))
    with pytest.raises(InvalidProbability):
        MultiBinary(3).sample(probability=np.array([0, 1, 1.5]))
    for space in (*ours, MultiBinary(3)):
        with pytest.raises(ValueError, match="Only one of"):
            space.sample(mask=np.ones(3, np.int8), probability=np.ones(3) / 3)


def test_integers_of_every_safe_type_are_members():
    space = Discrete(5)
    for value in (0, 4, True, np.int8(3), np.uint32(4), np.array(2), np.array(2, np.int16)):
        assert value in space
    for value in (5, -1, 2.0, "2", None, np.bool_(True), np.uint64(2), np.float64(2), np.array([2]), [2]):
        assert value not in space


def test_hash_and_equality():
    assert Discrete(3) == Discrete(np.int64(3))
    assert hash(Discrete(3)) == hash(Discrete(np.int64(3)))
    assert Discrete(3) != Discrete(3, start=1)
    assert Discrete(3) != Discrete(3, dtype=np.int32)
    assert len({Discrete(3), Discrete(3), MultiBinary(3), MultiDiscrete([3]), MultiDiscrete([3])}) == 3
    assert MultiDiscrete([3]) != MultiDiscrete([[3]])
    assert MultiBinary(3) != MultiBinary([3])
    assert MultiDiscrete([3, 4], start=[0, 1]) != MultiDiscrete([3, 4])


def test_parts_of_a_multi_discrete_continue_its_stream():
    space = MultiDiscrete([[3, 4], [5, 6]], start=[[1, 2], [3, 4]], seed=1)
    peer = twin(space)
    peer.seed(1)
    for index in (0, (1, 0), -1):
        assert repr(space[index]) == repr(peer[index])
        assert same(space[index].sample(), peer[index].sample())
    with pytest.warns(UserWarning, match="multi-dimensional"):
        assert len(space) == 2


def test_counts_are_copied_and_read_only():
    nvec = np.array([3, 4])
    space = MultiDiscrete(nvec)
    nvec[0] = 9
    assert space.nvec.tolist() == [3, 4]
    with pytest.raises(ValueError, match="read-only"):
        space.nvec[0] = 9


@pytest.mark.parametrize("name", NAMES)
def test_jsonable_round_trip_equals_gymnasiums(name):
    space = CATALOGUE[name]()
    space.seed(2)
    samples = [space.sample() for _ in range(3)]
    assert space.to_jsonable(samples) == twin(space).to_jsonable(samples)
    assert same(space.from_jsonable(space.to_jsonable(samples)), samples)


def test_legacy_pickles_are_understood():
    space = Discrete(1)
    generator = np.random.default_rng(1)
    space.__setstate__({"shape": (1, 2), "dtype": np.int64, "np_random": generator, "n": 3})
    assert (space.n, space.start, space.shape, space.dtype) == (3, 0, (1, 2), np.int64)
    assert space.np_random is generator
    assert space.sample() in space
    many = MultiDiscrete([1])
    many.__setstate__({"_shape": (2,), "dtype": np.dtype(np.int64), "_np_random": None, "nvec": np.array([3, 4])})
    assert many.start.tolist() == [0, 0]
    assert pickle.loads(pickle.dumps(many)) == MultiDiscrete([3, 4])


class Named(Discrete):
    def __init__(self, n, name):
        super().__init__(n, seed=1)
        self.name = name


def test_a_subclass_keeps_its_own_fields_in_copies():
    copy = pickle.loads(pickle.dumps(Named(3, "joystick")))
    assert copy.name == "joystick"
    assert copy == Discrete(3)
    assert copy.sample() in copy
