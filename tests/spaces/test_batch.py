"""batch_space, batch_differing_spaces, iterate, concatenate and create_empty_array equal Gymnasium's."""

import gymnasium.vector.utils as peers
import numpy as np
import pytest

import paddock.spaces as ours
from paddock.errors import CustomSpaceError, InvalidSpace
from paddock.spaces import batch_differing_spaces, batch_space, concatenate, create_empty_array, iterate
from tests.spaces.twins import CATALOGUE, same, twin, twin_value

# Its batch goes up to the largest int64, where Gymnasium's sample wraps around; see docs/differences.md.
WRAPS = "box-int64-free"
GRAPHS = [name for name in CATALOGUE if name.startswith("graph")]


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("name", [name for name in CATALOGUE if name != WRAPS])
def test_batched_spaces_and_their_samples_equal_gymnasiums(name, n):
    space = CATALOGUE[name]()
    peer = twin(space)
    space.seed(3), peer.seed(3)
    mine, theirs = batch_space(space, n), peers.batch_space(peer, n)
    assert repr(mine) == repr(theirs)
    for _ in range(1 if name in GRAPHS else 5):
        assert same(mine.sample(), theirs.sample())
    # The batch drew from copies: the space itself stands where it stood.
    if name not in GRAPHS:
        assert same(space.sample(), peer.sample())


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name != "tuple-empty"])
def test_taking_batches_apart_and_putting_them_together(name):
    space = CATALOGUE[name]()
    peer = twin(space)
    space.seed(3)
    batched, peer_batched = batch_space(space, 4), peers.batch_space(peer, 4)
    items = [space.sample() for _ in range(4)]
    peer_items = [twin_value(item) for item in items]
    empty, peer_empty = create_empty_array(space, 4), peers.create_empty_array(peer, 4)
    assert same(empty, peer_empty)
    batch = concatenate(space, items, empty)
    assert same(batch, peers.concatenate(peer, peer_items, peer_empty))
    assert batch in batched
    parts = list(iterate(batched, batch))
    assert same(parts, list(peers.iterate(peer_batched, twin_value(batch))))
    assert len(parts) == 4


def test_concatenate_writes_into_the_given_arrays():
    space = ours.Dict(a=ours.Box(0, 1, (2,)), b=ours.Tuple([ours.Discrete(3)]))
    out = create_empty_array(space, 2, fn=np.ones)
    assert out["a"].tolist() == [[1, 1], [1, 1]]
    batch = concatenate(space, [space.sample(), space.sample()], out)
    assert batch["a"] is out["a"]
    assert batch["b"][0] is out["b"][0]


DIFFERING = [
    [ours.Box(0, 1, (2,)), ours.Box(-1, 5, (2,))],
    [ours.Discrete(3), ours.Discrete(5, start=2)],
    [ours.Discrete(3), ours.Discrete(5, dtype=np.int32)],
    [ours.MultiDiscrete([2, 3]), ours.MultiDiscrete([5, 9], start=[1, 1])],
    [ours.MultiBinary(3), ours.MultiBinary(3)],
    [ours.Tuple([ours.Discrete(3), ours.Box(0, 1)]), ours.Tuple([ours.Discrete(4), ours.Box(0, 2)])],
    [ours.Dict(b=ours.Discrete(3), a=ours.Box(0, 1)), ours.Dict(b=ours.Discrete(4), a=ours.Box(0, 2))],
    [ours.Text(3), ours.Text(5, charset="ab")],
    [ours.Sequence(ours.Discrete(3)), ours.Sequence(ours.Discrete(4))],
    [ours.OneOf([ours.Discrete(3)]), ours.OneOf([ours.Discrete(4)])],
    [ours.Graph(ours.Discrete(3), None), ours.Graph(ours.Discrete(4), None)],
]


@pytest.mark.parametrize("spaces", DIFFERING, ids=lambda spaces: type(spaces[0]).__name__)
def test_batches_of_differing_spaces_equal_gymnasiums(spaces):
    theirs = [twin(space) for space in spaces]
    for i, (a, b) in enumerate(zip(spaces, theirs, strict=True)):
        a.seed(i), b.seed(i)
    mine, peer = batch_differing_spaces(spaces), peers.batch_differing_spaces(theirs)
    assert repr(mine) == repr(peer)
    assert same(mine.sample(), peer.sample())


@pytest.mark.parametrize(
    "spaces",
    [
        [],
        [ours.Discrete(3), ours.Box(0, 1)],
        [ours.Box(0, 1, (2,)), ours.Box(0, 1, (3,))],
        [ours.Box(0, 1), ours.Box(0, 1, dtype=np.float64)],
        [ours.MultiDiscrete([2]), ours.MultiDiscrete([2, 3])],
        [ours.MultiDiscrete([2]), ours.MultiDiscrete([2], dtype=np.int8)],
        [ours.MultiBinary(2), ours.MultiBinary(3)],
        [ours.Dict(a=ours.Discrete(2)), ours.Dict(b=ours.Discrete(2))],
        [ours.Tuple([ours.Discrete(2)]), ours.Tuple([])],
        [ours.Space(), ours.Space()],
    ],
)
def test_spaces_that_do_not_go_together_are_refused(spaces):
    with pytest.raises((InvalidSpace, ValueError, TypeError)):
        batch_differing_spaces(spaces)


class Custom(ours.Space):
    def sample(self, mask=None, probability=None):
        return f"custom {self.np_random.integers(1000)}"

    def contains(self, x):
        return isinstance(x, str)

    def __eq__(self, other):
        return isinstance(other, Custom)

    __hash__ = ours.Space.__hash__


class Registered(Custom):
    pass


@batch_space.register(Registered)
def _batch(space, n=1):
    return Registered()


@iterate.register(Registered)
def _iterate(space, items):
    return iter(items.split(","))


@concatenate.register(Registered)
def _concatenate(space, items, out):
    return ",".join(items)


@create_empty_array.register(Registered)
def _empty(space, n=1, fn=np.zeros):
    return "," * n


def test_a_space_without_rules_is_batched_as_a_tuple():
    space = Custom(seed=1)
    batched = batch_space(space, 3)
    assert batched == ours.Tuple([Custom()] * 3)
    assert len(set(batched.sample())) == 3
    assert create_empty_array(space, 3) is None
    assert concatenate(space, ["a", "b"], None) == ("a", "b")
    assert list(iterate(batched, ("a", "b", "c"))) == ["a", "b", "c"]
    with pytest.raises(CustomSpaceError, match="Register"):
        iterate(space, "ab")
    with pytest.raises(CustomSpaceError, match="no custom iterate function"):
        iterate(batched, 3)


def test_a_space_with_rules_uses_them():
    space = ours.Dict(a=Registered())
    batched = batch_space(space, 2)
    assert batched == ours.Dict(a=Registered())
    batch = concatenate(space, [{"a": "x"}, {"a": "y"}], create_empty_array(space, 2))
    assert batch == {"a": "x,y"}
    assert list(iterate(batched, batch)) == [{"a": "x"}, {"a": "y"}]


def test_what_is_no_space_is_refused():
    for function, arguments in [
        (batch_space, (1,)),
        (iterate, ([1],)),
        (concatenate, ([1], None)),
        (create_empty_array, (1,)),
    ]:
        with pytest.raises(TypeError, match="is not a gymnasium Space instance"):
            function("space", *arguments)
    with pytest.raises(TypeError):
        iterate(ours.Discrete(3), 2)
    with pytest.raises(TypeError):
        iterate(ours.Box(0, 1), 2)


def test_batching_a_huge_uniform_box_costs_no_memory():
    batched = batch_space(ours.Box(0, 1, (2**15, 2**15)), 2**10)
    assert batched.low.strides == (0, 0, 0)
