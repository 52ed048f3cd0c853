"""Random actions: among those that an info allows, where its mask fits the action space."""

import numpy as np
import pytest

from paddock.spaces import Box, Dict, Discrete
from paddock.testing.probes import fitting_mask, sample_allowed
from tests.case_names import case_name

THREE = Discrete(3, start=5)


@pytest.mark.parametrize("mask", [[0, 1, 1], np.array([0, 1, 1], np.int64), np.array([False, True, True])])
def test_a_mask_is_kept_to(mask):
    assert {int(sample_allowed(THREE, {"action_mask": mask})) for _ in range(50)} == {6, 7}


def test_a_dict_is_masked_by_key_and_one_without_a_mask_is_free():
    space = Dict({"a": Discrete(3), "b": Discrete(2)})
    drawn = [sample_allowed(space, {"action_mask": {"a": [0, 0, 1]}}) for _ in range(50)]
    assert {int(one["a"]) for one in drawn} == {2}
    assert {int(one["b"]) for one in drawn} == {0, 1}


@pytest.mark.parametrize(
    "mask", [None, [1, 1], [0, 0, 0], [0, 1, 2], "abc", [[1], [1, 2]], [[0, 1, 1]], {"a": 1}, object()], ids=case_name
)
def test_what_does_not_fit_is_no_mask(mask):
    assert fitting_mask(THREE, mask) is None
    THREE.seed(4)
    free = [THREE.sample() for _ in range(20)]
    THREE.seed(4)
    assert [sample_allowed(THREE, {"action_mask": mask}) for _ in range(20)] == free


def test_other_spaces_take_no_mask():
    assert fitting_mask(Box(0, 1, (2,)), [1, 1]) is None
    assert fitting_mask(Dict({"a": Box(0, 1, (2,))}), {"a": [1, 1]}) is None
