"""Lanes in a loop against Gymnasium's SyncVectorEnv, and where that is wrong, against n single environments."""

import gymnasium
import numpy as np
import pytest

import paddock
import paddock.gym as gym
from paddock.errors import InvalidAction, InvalidLanes, InvalidSeed, NoAsyncCallError, ResetNeeded
from paddock.vector import AutoresetMode, SyncVectorEnv
from tests.toys import Counter
from tests.vector.lockstep import assert_alike


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_lanes_equal_gymnasiums(mode):
    ours = gym.make_vec("CartPole-v1", num_envs=4, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode})
    theirs = gymnasium.make_vec(
        "CartPole-v1", num_envs=4, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}
    )
    rng = np.random.default_rng(0)
    for got, expected in zip(ours.reset(seed=5), theirs.reset(seed=5), strict=True):
        assert_alike(got, expected)
    for _ in range(300):
        actions = rng.integers(2, size=4)
        for got, expected in zip(ours.step(actions), theirs.step(actions), strict=True):
            assert_alike(got, expected)


def lanes(n=3, goals=(2, 3, 4), **options):
    return SyncVectorEnv([lambda goal=goal: Counter(goal) for goal in goals[:n]], **options)


def test_a_lane_that_ended_ignores_its_action_and_begins_anew():
    env = lanes()
    env.reset()
    env.step([0, 0, 0])
    assert env.step([0, 0, 0])[2].tolist() == [True, False, False]
    observation, reward, terminated, *_ = env.step([1, 0, 0])
    assert observation[:, 0].tolist() == [0, 3, 3]
    assert reward.tolist() == [0, 3, 3]
    assert terminated.tolist() == [False, True, False]
    assert env.envs[0].actions == [0, 0]


def test_same_step_gives_the_last_observation_in_info():
    env = lanes(autoreset_mode=AutoresetMode.SAME_STEP)
    env.reset()
    env.step([0, 0, 0])
    observation, _, terminated, _, info = env.step([0, 0, 0])
    assert observation[:, 0].tolist() == [0, 2, 2]
    assert terminated.tolist() == [True, False, False]
    assert info["final_obs"][0] == 2
    assert info["_final_obs"].tolist() == [True, False, False]


def test_without_autoreset_the_caller_resets_the_lanes_it_names():
    env = lanes(autoreset_mode="Disabled")
    env.reset()
    env.step([0, 0, 0])
    env.step([0, 0, 0])
    with pytest.raises(ResetNeeded, match="lane 0"):
        env.step([0, 0, 0])
    options = {"reset_mask": np.array([True, False, False])}
    observation, _ = env.reset(options=options)
    assert "reset_mask" in options
    assert observation[:, 0].tolist() == [0, 2, 2]


def test_copy_false_reuses_the_buffer():
    env = lanes(copy=False)
    first, _ = env.reset()
    assert env.step([0, 0, 0])[0] is first
    env = lanes()
    first, _ = env.reset()
    env.step([0, 0, 0])
    assert first[:, 0].tolist() == [0, 0, 0]


def test_send_and_recv_are_the_two_halves_of_step():
    env = lanes()
    env.reset()
    with pytest.raises(NoAsyncCallError, match="send"):
        env.recv()
    env.send([0, 0, 0])
    assert env.recv()[0][:, 0].tolist() == [1, 1, 1]


def test_wrong_counts_are_refused_before_any_lane_steps():
    env = lanes()
    env.reset()
    with pytest.raises(InvalidAction, match="2 actions for 3 lanes"):
        env.step(np.array([0, 0]))
    assert [one.count for one in env.envs] == [0, 0, 0]
    with pytest.raises(InvalidSeed, match="length must match num_envs=3"):
        env.reset(seed=[1, 2])
    with pytest.raises(InvalidLanes, match="reset_mask"):
        env.reset(options={"reset_mask": [True, False, True]})


def test_attributes_of_lanes():
    env = lanes()
    assert env.get_attr("goal") == (2, 3, 4)
    env.set_attr("goal", 7)
    env.set_attr("count", [1, 2, 3])
    assert env.get_attr("goal") == (7, 7, 7)
    assert env.call("has_wrapper_attr", "goal") == (True, True, True)
    with pytest.raises(InvalidLanes, match="2 values for 3 lanes"):
        env.set_attr("goal", [1, 2])


def test_lanes_with_different_spaces_are_refused_and_closed():
    made = []

    def odd():
        made.append(Counter())
        made[-1].action_space = gym.spaces.Discrete(len(made) + 1)
        return made[-1]

    with pytest.raises(InvalidLanes, match="lane 1"):
        SyncVectorEnv([odd, odd])
    assert [env.closed for env in made] == [1, 1]


def test_close_is_safe_to_call_twice():
    env = lanes()
    env.close()
    env.close()
    assert [one.closed for one in env.envs] == [1, 1, 1]


def test_make_vec_records_how_it_was_made():
    env = paddock.make_vec("CartPole-v1", num_envs=2, backend="loop")
    assert env.spec.kwargs == {"num_envs": 2, "vectorization_mode": "sync"}
    again = gym.make_vec(env.spec)
    assert again.num_envs == 2
