"""Toy text: maps in several forms, and arguments that are refused."""

import numpy as np
import pytest

from paddock.envs import FrozenLakeEnv, TaxiEnv
from paddock.envs.toy_text.frozen_lake import generate_random_map
from paddock.errors import InvalidKernel

WRONG = [
    (FrozenLakeEnv, {"map_name": "5x5"}, "4x4"),
    (FrozenLakeEnv, {"desc": ["SF", "FFG"]}, "one length"),
    (FrozenLakeEnv, {"desc": []}, "one length"),
    (FrozenLakeEnv, {"desc": "SFFG"}, "rows"),
    (FrozenLakeEnv, {"desc": ["FF", "FG"]}, "at least one S"),
    (FrozenLakeEnv, {"desc": [1, 2]}, "one length|single letters|at least one S"),
    (FrozenLakeEnv, {"desc": [["SX", "F"]]}, "single letters"),
    (FrozenLakeEnv, {"reward_schedule": (1, 0)}, "reward_schedule"),
    (FrozenLakeEnv, {"success_rate": 1.5}, "success_rate=1.5"),
    (TaxiEnv, {"rainy_probability": -0.1}, "rainy_probability=-0.1"),
    (TaxiEnv, {"fickle_probability": 2}, "fickle_probability=2"),
]


@pytest.mark.parametrize(("kind", "kwargs", "words"), WRONG)
def test_wrong_arguments_are_refused_in_words(kind, kwargs, words):
    with pytest.raises(InvalidKernel, match=words):
        kind(**kwargs)


@pytest.mark.parametrize("kwargs", [{"size": 1}, {"p": 0.0}, {"p": float("nan")}])
def test_random_map_that_can_not_exist_is_refused(kwargs):
    with pytest.raises(InvalidKernel, match="expected"):
        generate_random_map(**kwargs)


@pytest.mark.parametrize("desc", [[["S", "F"], ["F", "G"]], [b"SF", b"FG"], np.array([list("SF"), list("FG")])])
def test_map_may_be_text_letters_or_an_array(desc):
    assert FrozenLakeEnv(desc=desc).desc.tolist() == [[b"S", b"F"], [b"F", b"G"]]


def test_map_without_name_or_rows_is_random():
    assert FrozenLakeEnv(map_name=None).desc.shape == (8, 8)
