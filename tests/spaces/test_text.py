"""Text: lengths, character sets, masks."""

import numpy as np
import pytest

from paddock.errors import InvalidProbability, InvalidSpace
from paddock.spaces import Text
from paddock.spaces.text import alphanumeric
from tests.spaces.twins import CATALOGUE, same, twin

NAMES = [name for name in CATALOGUE if name.startswith("text")]


@pytest.mark.parametrize("name", NAMES)
def test_attributes_and_repr_equal_gymnasiums(name):
    space = CATALOGUE[name]()
    peer = twin(space)
    assert repr(space) == repr(peer)
    for attribute in ("min_length", "max_length", "character_set", "character_list", "characters", "shape", "dtype"):
        assert getattr(space, attribute) == getattr(peer, attribute)
    assert [space.character_index(c) for c in space.characters] == [peer.character_index(c) for c in space.characters]


def test_a_set_is_sorted_and_a_string_keeps_its_order():
    assert Text(3).character_list == tuple(sorted(alphanumeric))
    assert Text(3, charset=frozenset("cab")).character_list == ("a", "b", "c")
    assert Text(3, charset="cabbc").character_list == ("c", "a", "b")


@pytest.mark.parametrize("name", NAMES)
def test_masked_samples_equal_gymnasiums(name):
    space = CATALOGUE[name]()
    peer = twin(space)
    space.seed(4), peer.seed(4)
    rng = np.random.default_rng(1)
    count = len(space.character_list)
    for _ in range(200):
        length = None if rng.random() < 0.3 else int(rng.integers(space.min_length, space.max_length + 1))
        mask = None if rng.random() < 0.3 else rng.integers(0, 2, count, dtype=np.int8)
        if mask is not None:
            mask[0] = 1
        assert same(space.sample(mask=(length, mask)), peer.sample(mask=(length, mask)))
        weights = None if mask is None else rng.dirichlet(np.ones(count))
        assert same(space.sample(probability=(length, weights)), peer.sample(probability=(length, weights)))


def test_the_null_character_is_sampled_like_any_other():
    space = Text(4, min_length=4, charset="\0", seed=1)
    assert space.sample() == "\0\0\0\0"
    assert space.sample(mask=(4, np.ones(1, np.int8))) == "\0\0\0\0"


def test_no_possible_character():
    nothing = np.zeros(2, np.int8)
    assert Text(3, min_length=0, charset="ab").sample(mask=(None, nothing)) == ""
    assert Text(3, min_length=0, charset="").sample() == ""
    with pytest.raises(ValueError, match="no character could be sampled"):
        Text(3, charset="ab").sample(mask=(None, nothing))


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_length": 1.5},
        {"max_length": 3, "min_length": "1"},
        {"max_length": 3, "min_length": -1},
        {"max_length": 3, "min_length": 4},
        {"max_length": 3, "charset": ["ab", "c"]},
        {"max_length": 3, "charset": {"ab"}},
        {"max_length": 3, "charset": [1, 2]},
    ],
)
def test_impossible_texts_are_refused(arguments):
    with pytest.raises(InvalidSpace):
        Text(**arguments)


@pytest.mark.parametrize(
    "mask",
    [
        [None, None],
        (None,),
        (9, None),
        (1.5, None),
        (None, [1, 0]),
        (None, np.ones(2)),
        (None, np.ones(3, np.int8)),
        (None, np.array([0, 2], np.int8)),
    ],
)
def test_bad_masks_are_refused(mask):
    with pytest.raises(AssertionError):
        Text(3, charset="ab").sample(mask=mask)


def test_bad_probabilities_are_refused():
    for weights in (np.array([0.5, 0.2]), np.array([1.5, -0.5])):
        with pytest.raises(InvalidProbability):
            Text(3, charset="ab").sample(probability=(None, weights))
    with pytest.raises(ValueError, match="Only one of"):
        Text(3).sample(mask=(None, None), probability=(None, None))


def test_hash_and_equality_ignore_the_order_of_characters():
    assert Text(3, charset="ab") == Text(3, charset="ba")
    assert hash(Text(3, charset="ab")) == hash(Text(3, charset="ba"))
    assert Text(3, charset="ab") != Text(3, charset="abc")
    assert Text(3) != Text(4)
