"""Box: bounds, their memory, equality, and where sampling needs care."""

import copy
import pickle
import tracemalloc
import warnings

import gymnasium.spaces as theirs
import numpy as np
import pytest

from paddock.errors import InvalidBound, InvalidSpace, PaddockError
from paddock.spaces import Box, Discrete
from paddock.spaces.box import array_short_repr, is_float_integer
from tests.spaces.twins import CATALOGUE, same, twin

BOXES = [name for name in CATALOGUE if name.startswith("box")]


@pytest.mark.parametrize("name", BOXES)
def test_attributes_and_repr_equal_gymnasiums(name):
    space = CATALOGUE[name]()
    peer = twin(space)
    for attribute in ("low", "high", "bounded_below", "bounded_above", "shape", "dtype"):
        assert same(np.array(getattr(space, attribute)), np.array(getattr(peer, attribute)))
    assert repr(space) == repr(peer)
    assert (space.low_repr, space.high_repr) == (peer.low_repr, peer.high_repr)
    for manner in ("both", "below", "above"):
        assert space.is_bounded(manner) == peer.is_bounded(manner)
    assert space.is_np_flattenable is True


def test_bounds_given_as_lists_are_accepted():
    assert Box([0], [1]) == Box(0, 1)
    assert Box([0, 1], 5, dtype=int) == Box(np.array([0, 1]), np.array([5, 5]), dtype=int)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Box([0.1, 0.2], [1, 1]).dtype == np.float32


def test_the_callers_array_is_not_changed():
    low, high = np.array([-np.inf, 0.0]), np.array([np.inf, 5.0])
    space = Box(low, high, dtype=np.int32)
    assert low.tolist() == [-np.inf, 0.0]
    assert high.tolist() == [np.inf, 5.0]
    assert space.low.tolist() == [np.iinfo(np.int32).min, 0]
    floats = np.array([0.0, 1.0], dtype=np.float32)
    kept = Box(floats, 2.0)
    floats[0] = -9
    assert kept.low.tolist() == [0, 1]


def test_bounds_are_compared_exactly():
    assert Box(0, 1, (2,), np.float64) != Box(1e-12, 1, (2,), np.float64)
    assert Box(0, 1, (2,)) != Box(0, 1, (3,))
    assert Box(0, 1, (2,)) != Box(0, 1, (2,), np.float64)
    assert Box(0, 1, (2,)) != Discrete(2)
    assert Box(0.0, 1, (2,)) == Box(-0.0, 1, (2,))
    assert Box([0.0, -0.0], 1) == Box(0, 1, (2,))
    assert Box(np.zeros(3), 1.0, (3,), np.float64) == Box(0, 1, (3,), np.float64)


def test_equal_boxes_hash_alike():
    pairs = [
        (Box(0.0, 1, (2,)), Box(-0.0, 1, (2,))),
        (Box([0.0, -0.0], 1), Box(0, 1, (2,))),
        (Box([1, 2, 3], 9), Box(np.array([1, 2, 3], np.float32), 9)),
        (Box(0, 1, (0,)), Box(5, 6, (0,))),
        (Box(-np.inf, np.inf, (2,), np.int8), Box(-128, 127, (2,), np.int8)),
    ]
    for a, b in pairs:
        assert a == b
        assert hash(a) == hash(b)
    assert len({Box(0, 1), Box(0, 1), Box(0, 2)}) == 2


@pytest.mark.parametrize("name", BOXES)
def test_bounds_are_read_only(name):
    space = CATALOGUE[name]()
    for array in (space.low, space.high, space.bounded_below, space.bounded_above):
        with pytest.raises(ValueError, match=r"read-only|assignment destination"):
            array[...] = 0
    with pytest.raises(AttributeError):
        space.low = 3


def test_a_huge_uniform_box_costs_no_memory():
    tracemalloc.start()
    try:
        space = Box(-np.inf, 255, (2**13, 2**13, 2**10), np.float64)
        other = pickle.loads(pickle.dumps(space))
        assert copy.deepcopy(space) == other == Box(-np.inf, 255, (2**13, 2**13, 2**10), np.float64)
        assert hash(space) == hash(other)
        assert space.is_bounded("above")
        assert not space.is_bounded("below")
        assert "255.0" in repr(space)
        assert len(pickle.dumps(space)) < 2000
        assert [0.5] not in space
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.nan, 1), "No low value can be equal to `np.nan`"),
        ((0, np.array([np.nan])), "No high value can be equal to `np.nan`"),
        ((2, 1), "less than or equal to high"),
        (([0, 2], [1, 1]), "less than or equal to high"),
        ((0, 1, (2,), None), "cannot be None"),
        ((0, 1, (2,), np.complex64), "Invalid Box dtype"),
        ((0, 1, 3), "Expected Box shape to be an iterable"),
        ((0, 1, (1.5,)), "Expected all Box shape elements to be integer"),
        ((0, 1, (-1,)), "zero or more"),
        ((None, 1), "Box shape is not specified"),
        (("0", 1, (2,)), "Box low must be a np.ndarray, integer, or float"),
        ((np.zeros(2), np.zeros(3)), "don't match"),
        ((np.zeros(2), 1, (3,)), "doesn't match provided shape"),
        ((-1, 1, (2,), np.uint8), "out of bounds of the dtype range"),
        ((0, 256, (2,), np.uint8), "out of bounds of the dtype range"),
        ((0, 1e39, (2,)), "out of bounds of the dtype range"),
        ((np.array([0, -1e39]), 1), "out of bounds of the dtype range"),
        ((0, 2.0**63, (1,), np.int64), "out of bounds of the dtype range"),
        ((0, np.array([2.0**63]), (1,), np.int64), "out of bounds of the dtype range"),
        ((-np.inf, 1, (2,), np.uint8), "don't support `-np.inf`"),
        ((0, np.inf, (2,), np.bool_), "don't support `np.inf`"),
        ((np.array(["a"]), 1), "must be a floating, integer, or bool dtype"),
        (([[0], [1, 2]], 1), "regular list"),
    ],
)
def test_impossible_boxes_are_refused(arguments, message):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InvalidSpace, match=message) as caught:
            Box(*arguments)
    assert isinstance(caught.value, (PaddockError, ValueError))


def test_refused_bounds_are_invalid_bounds():
    with pytest.raises(InvalidBound):
        Box(1, 0)


def test_lowered_precision_warns_the_caller():
    with pytest.warns(UserWarning, match="Box low's precision lowered by casting to float32") as caught:
        Box(np.array([0.0]), np.array([1.0], np.float32))
    assert caught[0].filename == __file__


def test_masks_are_refused():
    with pytest.raises(PaddockError, match="mask"):
        Box(0, 1).sample(mask=np.ones(1, np.int8))
    with pytest.raises(PaddockError, match="probability"):
        Box(0, 1).sample(probability=np.ones(1))
    with pytest.raises(ValueError, match="manner"):
        Box(0, 1).is_bounded("sideways")


def test_samples_stay_inside_where_rounding_would_leave():
    # 10**9 + 10 * random() rounds up to 10**9 + 10 about once in 2**26 draws; the largest draw does.
    class Largest:
        def random(self, shape):
            return np.full(shape, 1 - 2.0**-53)

    for space in (
        Box(10**9, 10**9 + 9, (3,), np.int32),
        Box(2**62, 2**62 + 9, (3,), np.int64),
        Box(2**63, 2**64 - 1, (3,), np.uint64),
        Box(0, 2**63 - 1, (3,), np.int64),
        Box(0.1, 0.3, (3,), np.float64),
        Box(-1e-3, 1e16, (3,), np.float64),
        Box(0, 255, (3,), np.uint8),
    ):
        space.sample()
        assert space._sampler.draw(Largest()) in space


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_the_whole_range_of_64_bit_integers_can_be_sampled(dtype):
    limits = np.iinfo(dtype)
    space = Box(limits.min, limits.max, (1000,), dtype, seed=1)
    sample = space.sample()
    assert sample in space
    assert len(np.unique(sample)) == 1000
    assert abs(float(np.mean(sample / (limits.max - limits.min + 1.0))) - (0.5 if dtype == np.uint64 else 0)) < 0.05


def test_an_interval_wider_than_the_largest_float_can_be_sampled():
    largest = np.finfo(np.float64).max
    with pytest.raises(OverflowError), np.errstate(over="ignore"):
        theirs.Box(-largest, largest, (2,), np.float64).sample()
    space = Box(-largest, largest, (1000,), np.float64, seed=1)
    sample = space.sample()
    assert sample in space
    assert 0.4 < np.mean(sample > 0) < 0.6


def test_the_plain_twin_of_uniform_equals_it():
    """`BoxSampler` does not call ``Generator.uniform``; this is the law it relies on, for many bounds."""
    rng = np.random.default_rng(0)
    low = rng.normal(size=10_000) * 10.0 ** rng.integers(-5, 6, 10_000)
    high = low + rng.exponential(size=10_000) * 10.0 ** rng.integers(-5, 6, 10_000)
    space = Box(low, high, dtype=np.float64, seed=5)
    assert space.sample().tobytes() == np.random.default_rng(5).uniform(low, high).tobytes()


def test_jsonable_round_trip_equals_gymnasiums():
    space = Box(0, 1, (2, 2), seed=1)
    samples = [space.sample() for _ in range(3)]
    assert space.to_jsonable(samples) == twin(space).to_jsonable(samples)
    assert same(space.from_jsonable(space.to_jsonable(samples)), samples)


@pytest.mark.parametrize("said", [{}, {"bounded_below": np.array([True] * 2), "bounded_above": np.array([True] * 2)}])
def test_legacy_pickles_are_understood(said):
    space = Box.__new__(Box)
    space.__setstate__(
        {
            "dtype": np.dtype("float32"),
            "_shape": (2,),
            "low": np.array([0.0, 0.0], np.float32),
            "high": np.array([1.0, 1.0], np.float32),
            "_np_random": None,
            **said,
        }
    )
    assert repr(space) == "Box(0.0, 1.0, (2,), float32)"
    assert space == Box(0, 1, (2,))
    assert space.sample() in space


def test_helpers_answer_as_gymnasiums():
    from gymnasium.spaces import box

    for value in (1, 1.5, np.int8(1), np.float16(1), True, np.bool_(True), "1", None, 1j):
        assert is_float_integer(value) == box.is_float_integer(value)
    for array in (np.zeros(3), np.arange(3), np.zeros(0), np.ones((2, 2), np.int8)):
        assert array_short_repr(array) == box.array_short_repr(array)
