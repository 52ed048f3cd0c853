"""Wrappers against the installed Gymnasium, step by step, where it is right; its defects, by name, where it is not.

A wrapper joins by a line in SINGLE or VECTOR.
"""

import inspect

import gymnasium
import numpy as np
import pytest

import paddock
from paddock import AutoresetMode, wrappers
from paddock.wrappers import vector
from tests.wrappers.lanes import Wanderer, lanes
from tests.wrappers.likeness import alike

SINGLE = [
    ("ClipReward", (-3, 20.5), {}, {}),
    ("ClipReward", (), {"min_reward": 10}, {}),
    ("TransformReward", (lambda reward: reward * 2 + 1,), {}, {}),
    ("FrameStackObservation", (3,), {}, {}),
    ("FrameStackObservation", (4,), {"padding_type": "zero"}, {"observation": "image"}),
    ("FrameStackObservation", (4,), {"padding_type": 7}, {"observation": "discrete"}),
    ("FrameStackObservation", (2,), {}, {"observation": "dict"}),
    ("RecordEpisodeStatistics", (), {}, {}),
    ("RecordEpisodeStatistics", (3, "stats"), {}, {}),
    ("StickyAction", (0.5,), {}, {}),
    ("StickyAction", (0.5, (2, 5)), {}, {"continuous": True}),
    ("RepeatAction", (3,), {}, {}),
    (
        "MaxAndSkipObservation",
        (2,),
        {},
        {"observation": "image", "chance": 0.0, "lane": 5},
    ),  # windows end with episodes
]
# Gymnasium gives the step that begins an episode a changed reward, so rewards are compared with 0 inside the bounds.
VECTOR = [
    ("ClipReward", (-3, 20.5), {}, tuple(AutoresetMode)),
    ("TransformReward", (np.abs,), {}, tuple(AutoresetMode)),
    ("RecordEpisodeStatistics", (5,), {}, (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)),
]
SECONDS = ("t",)


def without(info, names):
    return {key: without(v, names) if isinstance(v, dict) else v for key, v in info.items() if key not in names}


@pytest.mark.parametrize(("name", "args", "kwargs", "env"), SINGLE)
def test_single(name, args, kwargs, env, seed):
    mine = getattr(wrappers, name)(Wanderer(**env), *args, **kwargs)
    theirs = getattr(gymnasium.wrappers, name)(paddock.to_gymnasium(Wanderer(**env)), *args, **kwargs)
    mine.action_space.seed(seed)
    assert alike(mine.reset(seed=seed), theirs.reset(seed=seed))
    for _ in range(200):
        action = mine.action_space.sample()
        one, other = mine.step(action), theirs.step(action)
        assert alike(one[0], other[0])
        assert one[1:4] == other[1:4]
        assert alike(without(one[4], SECONDS), without(other[4], SECONDS))
        if one[2] or one[3]:
            assert alike(mine.reset(), theirs.reset())
    assert type(mine).__mro__[1] is not object
    for base in ("ObservationWrapper", "ActionWrapper", "RewardWrapper"):
        assert isinstance(mine, getattr(paddock, base)) == isinstance(theirs, getattr(gymnasium, base))


@pytest.mark.parametrize(("name", "args", "kwargs", "modes"), VECTOR)
def test_vector(name, args, kwargs, modes, seed):
    for mode in modes:
        mine = getattr(vector, name)(lanes(mode), *args, **kwargs)
        makers = [lambda lane=lane: paddock.to_gymnasium(Wanderer(lane)) for lane in range(4)]
        inner = gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=gymnasium.vector.AutoresetMode(mode.value))
        theirs = getattr(gymnasium.wrappers.vector, name)(inner, *args, **kwargs)
        mine.action_space.seed(seed)
        mine.reset(seed=seed), theirs.reset(seed=seed)
        for _ in range(60):
            actions = mine.action_space.sample()
            one, other = mine.step(actions), theirs.step(actions)
            assert alike(one[:4], other[:4])
            told = without(one[4], (*SECONDS, "final_info"))
            assert alike(told, without(other[4], (*SECONDS, "final_info")))
            if mode is AutoresetMode.DISABLED and (over := one[2] | one[3]).any():
                options = {"reset_mask": over}
                assert alike(mine.reset(options=dict(options))[0], theirs.reset(options=dict(options))[0])
        if name == "RecordEpisodeStatistics":
            assert list(mine.return_queue) == list(theirs.return_queue)
            assert list(mine.length_queue) == list(theirs.length_queue)
            assert mine.episode_count == theirs.episode_count > 5


@pytest.mark.parametrize("name", sorted({row[0] for row in SINGLE}))
def test_signatures_are_gymnasiums(name):
    for ours, theirs in ((wrappers, gymnasium.wrappers), (vector, gymnasium.wrappers.vector)):
        if hasattr(theirs, name):
            mine, peer = (inspect.signature(getattr(module, name)).parameters for module in (ours, theirs))
            assert [(p.name, p.kind, p.default) for p in mine.values()] == [
                (p.name, p.kind, p.default) for p in peer.values()
            ]


ATTRIBUTES = {
    "FrameStackObservation": (("stack_size", "padding_type"), (3,)),
    "RecordEpisodeStatistics": (
        ("episode_count", "episode_returns", "episode_lengths", "return_queue", "length_queue", "_stats_key"),
        (),
    ),
    "StickyAction": (
        ("last_action", "is_sticky_actions", "num_repeats", "repeats_taken", "repeat_action_duration_range"),
        (0.5, (2, 3)),
    ),
    "RepeatAction": (("num_repeats",), (3,)),
    "MaxAndSkipObservation": (("_skip",), (3,)),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes_are_gymnasiums(name):
    names, args = ATTRIBUTES[name]
    mine = getattr(wrappers, name)(Wanderer(), *args)
    theirs = getattr(gymnasium.wrappers, name)(paddock.to_gymnasium(Wanderer()), *args)
    for env in (mine, theirs):
        env.reset(seed=1)
    for _ in range(15):
        _, _, terminated, truncated, _ = mine.step(1)
        theirs.step(1)
        assert {n: getattr(mine, n) for n in names} == {n: getattr(theirs, n) for n in names}
        if terminated or truncated:
            mine.reset(), theirs.reset()


def test_a_partial_reset_keeps_the_statistics_of_the_other_lanes():
    env = vector.RecordEpisodeStatistics(lanes(AutoresetMode.NEXT_STEP, chance=0.0))
    env.reset(seed=1)
    rewards = env.step([1, 1, 1, 1])[1]
    options = {"reset_mask": np.array([True, False, False, False])}
    env.reset(options=options)
    assert env.episode_lengths.tolist() == [0, 1, 1, 1]
    assert env.episode_returns.tolist() == [0.0, *rewards[1:]]
    assert list(options) == ["reset_mask"]  # the caller's dict is the caller's


class Climber(Wanderer):
    """Observations 1, 2, 3, …; ends after ``goal`` steps."""

    def __init__(self, goal):
        super().__init__()
        self.goal = goal

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.count += 1
        return np.full(2, self.count, np.float32), 1.0, self.count >= self.goal, False, {}


def test_the_last_window_of_an_episode_shows_its_last_observations():
    env = wrappers.MaxAndSkipObservation(Climber(5), 4)
    env.reset()
    assert env.step(0)[0].tolist() == [4, 4]
    observation, reward, terminated, _, _ = env.step(0)
    assert (observation.tolist(), reward, terminated) == ([5, 5], 1.0, True)
    theirs = gymnasium.wrappers.MaxAndSkipObservation(paddock.to_gymnasium(Climber(5)), 4)
    theirs.reset()
    theirs.step(0)
    assert theirs.step(0)[0].tolist() == [4, 4]  # what was in the buffer: if this fails, they have mended it


def test_nothing_of_an_episode_is_seen_in_the_next():
    env = wrappers.MaxAndSkipObservation(Climber(9), 2)
    env.reset()
    for _ in range(5):
        env.step(0)
    assert env.reset()[0].tolist() == [0, 0]
    assert env.step(0)[0].tolist() == [2, 2]


def test_a_step_that_begins_an_episode_has_no_reward_to_change():
    env = vector.ClipReward(lanes(AutoresetMode.NEXT_STEP, 2, chance=1.0), 2, 3)
    env.reset(seed=1)
    assert env.step([0, 0])[1].min() >= 2
    assert env.step([0, 0])[1].tolist() == [0, 0]
