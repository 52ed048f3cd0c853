"""Observations that arrive late."""

from collections import deque

import gymnasium
import numpy as np
import pytest

import paddock
from paddock import AutoresetMode, wrappers
from paddock.errors import CustomSpaceError, InvalidBound
from paddock.spaces import Box, Dict, Discrete, OneOf, Space, Text
from paddock.spaces.batch import create_zero_array
from paddock.wrappers import vector
from tests.wrappers.lanes import Wanderer, lanes


def alike(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    return type(one) is type(other) and np.array_equal(one, other)


@pytest.mark.parametrize("kind", ["array", "image", "discrete", "dict"])
@pytest.mark.parametrize("delay", [0, 1, 3, np.int64(2)])
def test_equals_gymnasiums(kind, delay, seed):
    mine = wrappers.DelayObservation(Wanderer(2, observation=kind), delay)
    theirs = gymnasium.wrappers.DelayObservation(paddock.to_gymnasium(Wanderer(2, observation=kind)), delay)
    assert alike(mine.reset(seed=seed)[0], theirs.reset(seed=seed)[0])
    for _ in range(50):
        one, other = mine.step(1), theirs.step(1)
        assert alike(one[0], other[0]) and one[1:4] == other[1:4]
        assert all(map(alike, mine.observation_queue, theirs.observation_queue))
        assert len(mine.observation_queue) == len(theirs.observation_queue)
        if one[2] or one[3]:
            assert alike(mine.reset()[0], theirs.reset()[0])
    assert mine.delay == theirs.delay == delay
    assert isinstance(mine, paddock.ObservationWrapper) and isinstance(mine.observation_queue, deque)


def test_nothing_of_an_episode_arrives_in_the_next():
    env = wrappers.DelayObservation(Wanderer(5, chance=0), 2)
    first, _ = env.reset(seed=1)
    env.step(1)
    env.step(1)
    for _ in range(2):
        assert env.reset()[0].tolist() == [0, 0] == first.tolist()
        assert env.step(1)[0].tolist() == [0, 0]


def test_a_subclass_may_change_what_arrives():
    class Doubled(wrappers.DelayObservation):
        def observation(self, observation):
            return 2 * super().observation(observation)

    env, plain = Doubled(Wanderer(5, chance=0), 1), wrappers.DelayObservation(Wanderer(5, chance=0), 1)
    assert np.array_equal(env.reset(seed=1)[0], 2 * plain.reset(seed=1)[0])
    for _ in range(4):
        assert np.array_equal(env.step(1)[0], 2 * plain.step(1)[0])


@pytest.mark.parametrize(("delay", "peer"), [(1.0, TypeError), ("1", TypeError), (True, None), (-1, ValueError)])
def test_a_delay_is_a_number_of_steps(delay, peer):
    for wrap, env in (
        (wrappers.DelayObservation, Wanderer()),
        (vector.DelayObservation, lanes(AutoresetMode.NEXT_STEP)),
    ):
        with pytest.raises(InvalidBound, match="delay") as caught:
            wrap(env, delay)
        assert peer is None or isinstance(caught.value, peer)


def test_is_data():
    env = wrappers.DelayObservation(paddock.make("CartPole-v1"), np.int64(2))
    assert env.spec.additional_wrappers[0].kwargs == {"delay": 2}
    again = paddock.make(paddock.EnvSpec.from_json(env.spec.to_json()))
    assert again.delay == 2


@pytest.mark.parametrize("id", ["CartPole-v1", "FrozenLake-v1", "Blackjack-v1"])
def test_a_snapshot_holds_what_is_on_its_way(id):
    env, other = (wrappers.DelayObservation(paddock.make(id), 2) for _ in range(2))
    env.reset(seed=1), other.reset(seed=9)
    env.step(0)
    other.restore(env.snapshot())
    if id != "Blackjack-v1":
        assert alike(env.step(1)[0], other.step(1)[0])
    assert alike(list(env.observation_queue), list(other.observation_queue))


@pytest.mark.parametrize("id", ["CartPole-v1", "Blackjack-v1"])  # arrays and tuples
def test_a_snapshot_of_lanes_holds_what_is_on_its_way(id):
    env, other = (vector.DelayObservation(paddock.make_vec(id, num_envs=3), 2) for _ in range(2))
    env.reset(seed=1), other.reset(seed=9)
    env.step([1, 0, 1])
    other.restore(env.snapshot())
    for _ in range(6):
        one, two = env.step([0, 1, 0]), other.step([0, 1, 0])
        assert all(map(np.array_equal, one[0], two[0]))


# create_zero_array


@pytest.mark.parametrize("space", [Box(2, 3, (2,)), Discrete(3, start=-5), Text(4, min_length=2), Dict(a=Discrete(2))])
def test_zero_is_gymnasiums(space):
    theirs = gymnasium.wrappers.utils.create_zero_array(paddock.to_gymnasium(Wanderer()).observation_space)
    assert np.array_equal(create_zero_array(Wanderer().observation_space), theirs)
    assert create_zero_array(space) in space


def test_users_register_the_zero_of_their_own_space():
    class Odd(Space):
        pass

    with pytest.raises(CustomSpaceError, match="Register"):
        create_zero_array(Odd())
    create_zero_array.register(Odd, lambda space: "nil")
    assert create_zero_array(Dict(a=Odd(), b=Discrete(2))) == {"a": "nil", "b": 0}
    assert create_zero_array(OneOf([Odd()])) == (0, "nil")
    with pytest.raises(TypeError, match="not a gymnasium Space"):
        create_zero_array("nothing")
