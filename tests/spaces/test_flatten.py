"""flatdim, flatten, unflatten, flatten_space and is_space_dtype_shape_equiv equal Gymnasium's."""

import itertools
import warnings

import gymnasium.spaces.utils as peers
import numpy as np
import pytest

import paddock.spaces as ours
from paddock.errors import CustomSpaceError, InvalidSpace
from paddock.spaces import flatdim, flatten, flatten_space, is_space_dtype_shape_equiv, unflatten
from tests.spaces.twins import CATALOGUE, same, twin, twin_value

# Gymnasium concatenates or reduces nothing here, and raises.
NOT_IN_GYMNASIUM = {"tuple-empty"}
# One-hot vectors of 2**40 elements, of which Gymnasium makes the bounds.
NAMES = [name for name in CATALOGUE if name not in {*NOT_IN_GYMNASIUM, "discrete-large"}]


def answer(function, *arguments):
    """What a function returns, or that it refuses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*arguments)
        except (ValueError, NotImplementedError):
            return "refused"


@pytest.mark.parametrize("name", NAMES)
def test_flatdim_equals_gymnasiums(name):
    space = CATALOGUE[name]()
    assert answer(flatdim, space) == answer(peers.flatdim, twin(space))


@pytest.mark.parametrize("name", NAMES)
def test_flat_spaces_equal_gymnasiums(name):
    space = CATALOGUE[name]()
    mine, theirs = flatten_space(space), answer(peers.flatten_space, twin(space))
    assert repr(mine) == repr(theirs)
    mine.seed(1), theirs.seed(1)
    if name != "box-int64-free":  # up to the largest int64, where Gymnasium's sample wraps around
        assert same(mine.sample(), theirs.sample())


@pytest.mark.parametrize("name", NAMES)
def test_flat_values_equal_gymnasiums_and_unflatten(name):
    space = CATALOGUE[name]()
    peer, flat_space = twin(space), flatten_space(space)
    space.seed(5)
    for _ in range(20):
        sample = space.sample()
        flat = flatten(space, sample)
        assert flat in flat_space
        assert same(flat, answer(peers.flatten, peer, twin_value(sample)))
        back = unflatten(space, flat)
        assert same(back, sample)
        assert same(back, answer(peers.unflatten, peer, twin_value(flat)))


def test_an_empty_stacked_sequence_flattens():
    space = ours.Sequence(ours.Discrete(3), stack=True)
    flat = flatten(space, np.zeros(0, np.int64))
    assert flat.shape == (0, 3)
    assert unflatten(space, flat).shape == (0,)


def test_small_dtypes_do_not_overflow():
    space = ours.MultiDiscrete([100, 100, 100], dtype=np.int8, seed=1)
    for _ in range(50):
        sample = space.sample()
        assert same(unflatten(space, flatten(space, sample)), sample)


def test_what_is_no_one_hot_vector_is_refused():
    for space, flat in [
        (ours.Discrete(3), np.zeros(3)),
        (ours.MultiDiscrete([3, 3]), np.zeros(6)),
        (ours.MultiDiscrete([3, 3]), np.ones(6)),
        (ours.Tuple([ours.Discrete(3)]), (np.ones(3),)),
        (ours.Tuple([ours.Discrete(3)]), np.ones(4)),
        (ours.Dict(a=ours.Discrete(3)), {"a": np.ones(3)}),
        (ours.Dict(a=ours.Sequence(ours.Discrete(3))), np.ones(3)),
    ]:
        with pytest.raises((ValueError, AssertionError)):
            unflatten(space, flat)


class Custom(ours.Space):
    def __init__(self, flattenable=True):
        super().__init__((2,), np.float32)
        self._flattenable = flattenable

    @property
    def is_np_flattenable(self):
        return self._flattenable


class Registered(Custom):
    pass


flatdim.register(Registered, lambda space: 2)
flatten.register(Registered, lambda space, x: np.asarray(x).reshape(-1))
unflatten.register(Registered, lambda space, x: x)
flatten_space.register(Registered, lambda space: ours.Box(0, 1, (2,)))
is_space_dtype_shape_equiv.register(Registered, lambda space_1, space_2: type(space_1) is type(space_2))


def test_a_custom_space_without_rules_is_an_error_that_says_how_to_add_them():
    for function, arguments in [(flatdim, ()), (flatten, (1,)), (unflatten, (1,)), (flatten_space, ())]:
        with pytest.raises(NotImplementedError, match=r"\.register\(Custom"):
            function(Custom(), *arguments)
    with pytest.raises(CustomSpaceError, match=r"\.register\(Custom"):
        is_space_dtype_shape_equiv(Custom(), Custom())
    with pytest.raises(NotImplementedError):
        is_space_dtype_shape_equiv(Custom(), Custom())
    with pytest.raises(ValueError, match="cannot be flattened"):
        flatdim(Custom(flattenable=False))


def test_a_custom_space_with_rules_takes_part():
    space = ours.Tuple([ours.Discrete(2), Registered()])
    assert flatdim(space) == 4
    assert flatten(space, (1, [0.5, 0.25])).tolist() == [0, 1, 0.5, 0.25]
    assert flatten_space(space).shape == (4,)
    assert is_space_dtype_shape_equiv(space, space)


def test_what_is_no_space_is_refused():
    with pytest.raises(TypeError):
        is_space_dtype_shape_equiv(1, ours.Discrete(2))
    with pytest.raises(TypeError):
        is_space_dtype_shape_equiv(1, 2)


def test_equivalence_equals_gymnasiums():
    made = [make() for make in CATALOGUE.values()]
    made += [ours.Box(5, 6, (4,)), ours.Discrete(9), ours.Text(8, charset="ab"), ours.MultiDiscrete([9, 9, 9])]
    for a, b in itertools.product(made, repeat=2):
        assert is_space_dtype_shape_equiv(a, b) == peers.is_space_dtype_shape_equiv(twin(a), twin(b)), (a, b)


def test_an_unflattenable_graph_instance_is_refused():
    space = ours.Graph(ours.Discrete(3), None)
    graph = ours.GraphInstance(np.array([1]), np.array([1]), np.array([[0, 0]]))
    for function in (flatten, unflatten):
        with pytest.raises(InvalidSpace, match="edge space"):
            function(space, graph if function is flatten else graph._replace(nodes=np.array([[1, 0, 0]])))
