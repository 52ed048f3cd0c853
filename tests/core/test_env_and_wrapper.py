"""Env and Wrapper against Gymnasium's, side by side."""

import gymnasium
import numpy as np
import pytest

import paddock
import paddock.gym as gym
from paddock.errors import InvalidSeed, PaddockError
from tests.toys import Counter

pytestmark = pytest.mark.usefixtures("fresh_registry")


def test_seeding_gives_gymnasiums_stream():
    ours, theirs = Counter(), gymnasium.Env()
    gymnasium.Env.reset(theirs, seed=7)
    ours.reset(seed=7)
    assert ours.np_random_seed == theirs.np_random_seed == 7
    np.testing.assert_array_equal(ours.np_random.random(100), theirs.np_random.random(100))


def test_reset_without_a_seed_goes_on_with_the_stream():
    env = Counter()
    env.reset(seed=1)
    first = env.np_random.random()
    env.reset()
    assert env.np_random.random() != first


def test_numpy_integers_are_seeds():
    for make in (paddock.make, gym.make):
        env = make("CartPole-v1")
        np.testing.assert_array_equal(env.reset(seed=np.int64(3))[0], env.reset(seed=3)[0])
    lanes = paddock.make_vec("CartPole-v1", num_envs=2)
    np.testing.assert_array_equal(lanes.reset(seed=np.int64(3))[0], lanes.reset(seed=3)[0])
    np.testing.assert_array_equal(lanes.reset(seed=np.array([3, 4]))[0], lanes.reset(seed=3)[0])


@pytest.mark.parametrize("seed", [-1, 1.5, "1", [1], np.float64(2)])
def test_a_bad_seed_is_refused(seed):
    with pytest.raises(InvalidSeed, match="Seed must be") as caught:
        Counter().reset(seed=seed)
    assert isinstance(caught.value, PaddockError)


def test_an_assigned_generator_has_no_known_seed():
    env = paddock.Wrapper(Counter())
    env.np_random = np.random.default_rng(5)
    assert env.np_random_seed == -1
    assert env.unwrapped.np_random is env.np_random


def test_an_unseeded_environment_makes_its_own_stream():
    one, other = Counter(), Counter()
    assert one.np_random.random() != other.np_random.random()
    assert one.np_random_seed >= 0


def test_wrappers_wrap_environments_only():
    with pytest.raises(TypeError, match="Expected env to be a `gymnasium.Env` but got"):
        paddock.Wrapper("CartPole-v1")


def test_attributes_are_asked_for_and_not_forwarded():
    class Tagged(paddock.Wrapper):
        tag = "tagged"

    env = Tagged(paddock.Wrapper(Counter(goal=9)))
    with pytest.raises(AttributeError):
        _ = env.goal
    assert env.get_wrapper_attr("goal") == 9
    assert env.get_wrapper_attr("tag") == "tagged"
    with pytest.raises(AttributeError, match="wrapper Tagged has no attribute 'missing'"):
        env.get_wrapper_attr("missing")
    assert env.set_wrapper_attr("goal", 3) and env.unwrapped.goal == 3
    assert env.set_wrapper_attr("new", 1) and env.new == 1
    assert env.set_wrapper_attr("newer", 1, force=False) is False
    assert not hasattr(env, "newer")


def test_the_private_generator_of_a_wrapper_is_out_of_reach():
    with pytest.raises(AttributeError, match="_np_random"):
        _ = paddock.Wrapper(Counter())._np_random


def test_spaces_and_metadata_are_the_environments_until_overridden():
    env = paddock.Wrapper(Counter())
    assert env.observation_space is env.env.observation_space
    env.action_space = gym.spaces.Discrete(7)
    env.metadata = {"render_modes": ["human"]}
    assert env.action_space.n == 7
    assert env.env.action_space.n == 3
    assert env.metadata != env.env.metadata


def test_the_three_hooks_change_their_part():
    class Obs(paddock.ObservationWrapper):
        def observation(self, observation):
            return observation + 100

    class Act(paddock.ActionWrapper):
        def action(self, action):
            return action + 1

    class Rew(paddock.RewardWrapper):
        def reward(self, reward):
            return -reward

    env = Rew(Act(Obs(Counter())))
    assert env.reset()[0] == 100
    observation, reward, *_ = env.step(1)
    assert (observation[0], reward, env.unwrapped.actions) == (101, -1.0, [2])


def test_the_wrapper_spec_is_appended_and_makes_the_stack_again():
    class Plain(paddock.Wrapper):
        pass

    env = gym.wrappers.TimeLimit(gym.make("CartPole-v1"), 7)
    assert env.spec.max_episode_steps == 7
    env = Plain(env)
    assert env.spec.additional_wrappers[0].name == "Plain"
    assert env.unwrapped.spec.additional_wrappers == ()
    with pytest.raises(ValueError, match="cannot be recreated"):
        gym.make(env.spec)


def test_names_and_context_manager():
    with Counter() as env:
        assert str(env) == "<Counter instance>"
        assert repr(paddock.Wrapper(env)) == "<Wrapper<Counter instance>>"
    assert env.closed == 1
    assert str(gym.make("CartPole-v1").unwrapped) == "<CartPoleEnv<CartPole-v1>>"
