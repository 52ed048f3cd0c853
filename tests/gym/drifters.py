"""A FuncEnv that runs in JAX and in NumPy alike: a point that drifts until it has gone far enough."""

from typing import Any, NamedTuple

import numpy as np

from paddock.gym.experimental.functional import FuncEnv
from paddock.spaces import Box, Discrete


class Place(NamedTuple):
    at: Any  # [2]
    age: Any


class Drifter(FuncEnv):
    """``uniform(key, low, high)`` is the library's; goal: how far an episode goes."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float32)
    action_space = Discrete(3)
    goal = 4.0

    def __init__(self, uniform, xp, options=None):
        self.uniform, self.xp = uniform, xp
        super().__init__(options)

    def initial(self, rng, params=None):
        start = self.uniform(rng, 0.0, 1.0)
        return Place(self.xp.stack([start, -start]), self.xp.zeros_like(start))

    def transition(self, state, action, rng, params=None):
        step = action + self.uniform(rng, 0.0, 0.5)
        return Place(state.at + step * self.xp.asarray([1.0, 0.5]), state.age + 1)

    def observation(self, state, rng, params=None):
        return state.at

    def reward(self, state, action, next_state, rng, params=None):
        return next_state.at[0] - state.at[0]

    def terminal(self, state, rng, params=None):
        return state.at[0] > self.goal

    def state_info(self, state, params=None):
        return {"age": state.age}

    def transition_info(self, state, action, next_state, params=None):
        return {"age": next_state.age}

    def render_init(self, params=None, **kwargs):
        return 0

    def render_image(self, state, render_state, params=None):
        return render_state + 1, np.full((2, 2, 3), int(state.age), np.uint8)

    def render_close(self, render_state, params=None):
        self.closed_with = render_state


def stubborn_lanes(env, steps):
    """Step with action 0, 1, 2, 0, … by lane and check the law of lanes: who ended begins anew, alone.

    Returns how often a lane moved while another one began anew; with Gymnasium it does not move then.
    """
    actions = np.arange(env.num_envs) % 3
    env.reset(seed=7)
    ended, lengths, moved_beside_a_reset = np.zeros(env.num_envs, bool), np.zeros(env.num_envs, int), 0
    for _ in range(steps):
        before = np.asarray(env.state.at)
        observation, reward, terminated, truncated, info = env.step(actions)
        at, reward = np.asarray(env.state.at), np.asarray(reward)
        flags = np.asarray(terminated) | np.asarray(truncated)
        assert np.array_equal(np.asarray(observation), at)
        lengths = np.where(ended, 0, lengths + 1)
        assert np.array_equal(np.asarray(env.state.age), lengths)
        assert ((at[:, 0] >= 0) & (at[:, 0] <= 1))[ended].all()
        assert (reward[ended] == 0).all()
        assert not flags[ended].any()
        assert (at[~ended, 0] > before[~ended, 0]).all(), "a lane stood still"
        if ended.any():
            moved_beside_a_reset += int((~ended).sum())
        if env.time_limit:
            assert np.array_equal(np.asarray(truncated), (lengths >= env.time_limit) & ~ended)
        ended = flags
    return moved_beside_a_reset
