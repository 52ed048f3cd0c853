"""What an attack on the wrappers found, one small test each."""

import numpy as np
import pytest

import paddock
from paddock import wrappers
from paddock.errors import InvalidAction
from paddock.spaces import Box, Discrete
from paddock.wrappers import vector
from tests.toys import Counter, Mover


def test_lanes_that_are_all_held_show_what_the_agent_saw_last():
    lanes = vector.FrameStackObservation(paddock.make_vec("CartPole-v1", 2), 3)
    first, _ = lanes.reset(seed=1)
    lanes.hold(np.ones(2, np.bool_))
    held, *_ = lanes.step(np.zeros(2, np.int64))
    np.testing.assert_array_equal(held, first)


def test_a_box_without_an_axis_can_be_rescaled():
    class Point(Counter):
        def __init__(self):
            super().__init__()
            self.observation_space = Box(0, 10, (), np.float64)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.array(5.0), {}

    env = wrappers.RescaleObservation(Point(), np.array(0.0), np.array(1.0))
    assert env.reset()[0] == 0.5


def test_returns_of_float32_rewards_are_summed_in_double_precision():
    class Tenths(Counter):
        def step(self, action):
            observation, _, terminated, truncated, info = super().step(action)
            return observation, np.float32(0.1), terminated, truncated, info

    env = wrappers.RecordEpisodeStatistics(Tenths(goal=1000))
    env.reset()
    info = {}
    for _ in range(1000):
        *_, info = env.step(0)
    assert info["episode"]["r"] == pytest.approx(1000 * float(np.float32(0.1)), abs=1e-9)


def test_a_sticky_action_is_the_one_that_was_given_not_the_callers_buffer():
    class Noting(Mover):
        def step(self, action):
            return super().step(float(action[0]))

    env = wrappers.StickyAction(Noting(goal=100), 1 - 1e-12)
    env.reset(seed=0)
    action = np.zeros(2, np.float32)
    for turn in range(5):
        action[:] = turn / 10
        env.step(action)
    assert env.unwrapped.actions == [0.0] * 5


def test_a_refused_action_takes_no_time():
    env = wrappers.TimeAwareObservation(paddock.make("CartPole-v1"), flatten=False)
    env.reset(seed=0)
    with pytest.raises(InvalidAction):
        env.step(9)
    assert env.step(0)[0]["time"] == 1


def test_a_restored_episode_goes_on_under_order_enforcing():
    def made():
        return wrappers.OrderEnforcing(paddock.make("CartPole-v1").unwrapped)

    env = made()
    env.reset(seed=3)
    kept, (expected, *_) = env.snapshot(), env.step(1)
    other = made()
    other.restore(kept)
    np.testing.assert_array_equal(other.step(1)[0], expected)


def test_a_frame_that_is_no_picture_ends_the_video_and_not_the_episode(tmp_path):
    class Odd(Counter):
        metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

        def __init__(self):
            super().__init__(render_mode="rgb_array")
            self.action_space = Discrete(3)

        def render(self):
            return np.array([["a", "b"], ["c", "d"]])

    env = wrappers.RecordVideo(Odd(), str(tmp_path), episode_trigger=lambda episode: True)
    with pytest.warns(UserWarning, match="Recording stopped"):
        env.reset()
    assert env.step(0)[1] == 1.0
    env.close()


def test_a_users_hook_sees_last_observations_too():
    class Shifted(vector.RescaleObservation):
        def observations(self, observations):
            return super().observations(observations) + 100

    lanes = paddock.make_vec("MountainCar-v0", 2, max_episode_steps=3, lanes=paddock.LaneOptions(autoreset="SameStep"))
    env = Shifted(lanes, -1, 1)
    env.reset(seed=0)
    for _ in range(3):
        *_, infos = env.step(np.zeros(2, np.int64))
    assert all(final.min() > 90 for final in infos["final_obs"])
