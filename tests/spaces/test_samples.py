"""Seeded samples equal Gymnasium's, bit for bit, for every space of the catalogue."""

import copy
import pickle

import numpy as np
import pytest

import paddock.spaces as ours
from tests.spaces.twins import CATALOGUE, same, twin

# Graphs differ on purpose from the second sample on; test_graph.py holds them to the first.
SLOW = [name for name in CATALOGUE if name.startswith("sequence")]
EQUAL = [name for name in CATALOGUE if not name.startswith("graph")]


def check_samples(name, count, seed=7):
    space = CATALOGUE[name]()
    peer = twin(space)
    assert same(space.seed(seed), peer.seed(seed))
    for i in range(count):
        a, b = space.sample(), peer.sample()
        assert same(a, b), f"sample {i} with seed {seed}: {a} != {b}"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EQUAL if name not in SLOW])
def test_ten_thousand_seeded_samples_equal_gymnasiums(name):
    check_samples(name, 10_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_two_thousand_seeded_sequences_equal_gymnasiums(name):
    check_samples(name, 2_000)


@pytest.mark.full
@pytest.mark.parametrize("name", SLOW)
def test_ten_thousand_seeded_sequences_equal_gymnasiums(name):
    check_samples(name, 10_000)


@pytest.mark.parametrize("name", EQUAL)
def test_seed_zero_and_large_seeds_equal_gymnasiums(name):
    for seed in (0, 1, 2**31, 2**70):
        check_samples(name, 3, seed)


@pytest.mark.parametrize("name", CATALOGUE)
def test_samples_are_members(name):
    space = CATALOGUE[name]()
    space.seed(3)
    for _ in range(200 if not name.startswith("graph") else 20):
        sample = space.sample()
        assert space.contains(sample) is True
        assert sample in space


@pytest.mark.parametrize("name", CATALOGUE)
def test_copies_go_on_with_the_same_samples(name):
    space = CATALOGUE[name]()
    space.seed(5)
    for _ in range(3):
        space.sample()
    twins = [copy.deepcopy(space), pickle.loads(pickle.dumps(space))]
    expected = [space.sample() for _ in range(4)]
    for other in twins:
        assert other == space
        assert repr(other) == repr(space)
        assert same([other.sample() for _ in range(4)], expected)


@pytest.mark.parametrize("name", EQUAL)
def test_the_stream_goes_on_where_gymnasiums_does(name):
    """Reading ``np_random`` in the middle of sampling shows the generator where single draws would have left it."""
    space = CATALOGUE[name]()
    peer = twin(space)
    space.seed(9), peer.seed(9)
    for pause in (1, 2, 5, 70, 1, 130):
        for _ in range(pause):
            assert same(space.sample(), peer.sample())
        assert space.np_random.bit_generator.state == peer.np_random.bit_generator.state
        assert space.np_random.random() == peer.np_random.random()
        if pause == 70:
            assert same(space.seed(10), peer.seed(10))


@pytest.mark.slow
@pytest.mark.parametrize("name", CATALOGUE)
def test_an_unseeded_space_samples_members_and_differs_from_its_twin(name):
    space, other = CATALOGUE[name](), CATALOGUE[name]()
    assert space.sample() in space
    if name not in ("box-one-point", "box-empty", "discrete-one", "tuple-empty"):
        firsts, seconds = [space.sample() for _ in range(60)], [other.sample() for _ in range(60)]
        assert not same(firsts, seconds)


@pytest.mark.parametrize("name", CATALOGUE)
def test_numpy_integer_seeds_are_accepted(name):
    space, other = CATALOGUE[name](), CATALOGUE[name]()
    assert same(space.seed(np.int64(11)), other.seed(11))
    assert same(space.sample(), other.sample())
    assert same(space.seed(np.uint8(12)), other.seed(12))


def test_numpy_integer_seeds_are_accepted_by_constructors():
    assert same(ours.Discrete(100, seed=np.int64(4)).sample(), ours.Discrete(100, seed=4).sample())
    parts = [ours.Discrete(100), ours.Discrete(100)]
    assert same(ours.Tuple(parts, seed=np.int32(4)).sample(), ours.Tuple(parts, seed=4).sample())


@pytest.mark.parametrize("seed", [-1, 1.5, "3"])
def test_seeds_that_are_no_natural_numbers_are_refused(seed):
    with pytest.raises(ValueError, match=r"[Ss]eed"):
        ours.Discrete(2).seed(seed)


def test_a_generator_passed_in_is_shared():
    generator, other = np.random.default_rng(3), np.random.default_rng(3)
    space = ours.Discrete(1000, seed=generator)
    assert space.np_random is generator
    for _ in range(5):
        assert space.sample() == other.integers(1000)
    assert generator.random() == other.random()


def test_a_generator_that_was_read_once_is_never_drawn_ahead():
    space, other = ours.Discrete(1000, seed=3), np.random.default_rng(3)
    generator = space.np_random
    for _ in range(5):
        assert space.sample() == other.integers(1000)
        assert generator.random() == other.random()


def test_shallow_copies_share_one_stream_as_in_gymnasium():
    space = ours.Discrete(1000, seed=3)
    peer = twin(space)
    peer.seed(3)
    pairs = [(space, peer), (copy.copy(space), copy.copy(peer))]
    for _ in range(5):
        for a, b in pairs:
            assert same(a.sample(), b.sample())


def test_a_copied_space_still_reads_ahead():
    space = ours.Discrete(1000, seed=3)
    for _ in range(3):
        space.sample()
    other = copy.deepcopy(space)
    assert other._ahead is not None
    assert [space.sample() for _ in range(99)] == [other.sample() for _ in range(99)]


def test_batching_a_space_does_not_stop_it_from_reading_ahead():
    space = ours.Discrete(10, seed=1)
    peer = twin(space)
    peer.seed(1)
    for _ in range(5):
        assert same(space.sample(), peer.sample())
    ours.batch_space(space, 3)
    assert space._ahead is not None
    for _ in range(70):
        assert same(space.sample(), peer.sample())
