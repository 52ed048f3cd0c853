"""Rewards of lanes: the 0 of a step that begins an episode stays, whatever the function does."""

import gymnasium
import numpy as np
import pytest

from paddock import AutoresetMode, wrappers
from paddock.wrappers import vector
from tests.wrappers.lanes import Wanderer, lanes


def in_place(rewards):
    rewards *= 0
    rewards += 7
    return rewards


SEVENS = np.full(4, 7.0)


@pytest.mark.parametrize("func", [in_place, lambda rewards: SEVENS, lambda rewards: np.full(4, 7)])
def test_a_function_may_write_to_what_it_gets_and_return_what_it_keeps(func):
    env = vector.TransformReward(lanes(AutoresetMode.NEXT_STEP, chance=0.3), func)
    env.reset(seed=1)
    over = np.zeros(4, bool)
    for _ in range(30):
        _, rewards, terminations, truncations, _ = env.step(np.ones(4, np.int64))
        assert rewards.tolist() == np.where(over, 0, 7).tolist()
        over = terminations | truncations
    assert SEVENS.tolist() == [7.0] * 4


def test_lanes_that_are_held_get_no_reward():
    env = vector.TransformReward(lanes(AutoresetMode.NEXT_STEP, chance=0), lambda rewards: rewards * 0 + 7)
    env.reset(seed=1)
    env.hold(np.array([True, False, False, True]))
    assert env.step(np.ones(4, np.int64))[1].tolist() == [0, 7, 7, 0]
    assert env.step(np.ones(4, np.int64))[1].tolist() == [7, 7, 7, 7]


def test_sent_and_received_is_as_stepped():
    one, other = (vector.ClipReward(lanes(AutoresetMode.NEXT_STEP, chance=0.3), 1, 2) for _ in range(2))
    one.reset(seed=1), other.reset(seed=1)
    for _ in range(20):
        other.send(np.ones(4, np.int64))
        assert one.step(np.ones(4, np.int64))[1].tolist() == other.recv()[1].tolist()


def test_the_function_can_be_replaced():
    env, many = wrappers.TransformReward(Wanderer(), abs), vector.TransformReward(lanes("NextStep"), np.abs)
    env.func = many.func = lambda reward: reward * 0 + 3
    env.reset(seed=1), many.reset(seed=1)
    assert env.step(1)[1] == 3.0
    assert many.step(np.ones(4, np.int64))[1].tolist() == [3.0] * 4


def test_a_hook_of_a_subclass_comes_first():
    class Doubled(wrappers.TransformReward):
        def reward(self, reward):
            return super().reward(reward) * 2

    class DoubledLanes(vector.TransformReward):
        def rewards(self, rewards):
            return super().rewards(rewards) * 2

    env, many = (
        Doubled(Wanderer(), lambda reward: 3.0),
        DoubledLanes(lanes("NextStep"), lambda rewards: rewards * 0 + 3),
    )
    env.reset(seed=1), many.reset(seed=1)
    assert env.step(1)[1] == 6.0
    assert many.step(np.ones(4, np.int64))[1].tolist() == [6.0] * 4


@pytest.mark.parametrize("name", ["ClipReward", "TransformReward", "VectorizeTransformReward"])
def test_bases_are_gymnasiums(name):
    mine, theirs = getattr(vector, name), getattr(gymnasium.wrappers.vector, name)
    shared = {base.__name__ for base in theirs.__mro__} - {"Generic"}
    assert shared <= {base.__name__ for base in mine.__mro__}
