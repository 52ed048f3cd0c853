"""Single wrappers, and users' own, at work on n lanes."""

import gymnasium
import numpy as np
import pytest

import paddock
from paddock import AutoresetMode, wrappers
from paddock.errors import WrongClass
from paddock.spaces import Box, Discrete
from paddock.testing import check_wrapper
from paddock.wrappers import vector
from tests.wrappers.lanes import Wanderer, lanes, one

MODES = tuple(AutoresetMode)


class Shown(wrappers.TransformObservation):
    """A user's own: one lane's observation to text and number."""

    def __init__(self, env, factor=3):
        super().__init__(env, lambda values: {"sum": np.float64(values.sum() * factor)}, SUM)


SUM = paddock.spaces.Dict({"sum": Box(-np.inf, np.inf, (), np.float64)})


class Overridden(wrappers.RescaleObservation):
    def observation(self, observation):
        return super().observation(observation)[::-1] * 0.5


class Steered(wrappers.TransformAction):
    """Discrete actions around a Box."""

    def __init__(self, env):
        super().__init__(env, lambda number: np.array([number, -number], np.float32) / 4, Discrete(5))


class Squared(wrappers.TransformReward):
    def __init__(self, env):
        super().__init__(env, lambda reward: float(reward) ** 2 + 1)


@pytest.mark.parametrize(
    ("base", "cls", "kwargs", "env"),
    [
        ("VectorizeTransformObservation", Shown, {"factor": 2}, {}),
        ("VectorizeTransformObservation", Overridden, {"min_obs": 0, "max_obs": 1}, {"observation": "bounded"}),
        ("VectorizeTransformObservation", wrappers.FlattenObservation, {}, {"observation": "nested"}),
        ("VectorizeTransformObservation", wrappers.DiscretizeObservation, {"bins": 4}, {"observation": "bounded"}),
        ("VectorizeTransformAction", Steered, {}, {"continuous": True}),
        ("VectorizeTransformAction", wrappers.ClipAction, {}, {"continuous": True}),
        ("VectorizeTransformReward", Squared, {}, {}),
        ("VectorizeTransformReward", wrappers.ClipReward, {"min_reward": 3}, {}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_n_lanes_are_n_single_environments(base, cls, kwargs, env, seed):
    check_wrapper(
        lambda lane: cls(one(lane, **env), **kwargs),
        lambda mode: getattr(vector, base)(lanes(mode, **env), cls, **kwargs),
        steps=60,
        seed=seed,
    )


@pytest.mark.parametrize(
    ("base", "name", "kwargs"),
    [
        ("VectorizeTransformObservation", "TransformObservation", {"func": np.square, "observation_space": None}),
        ("VectorizeTransformReward", "TransformReward", {"func": abs}),
        ("VectorizeTransformReward", "ClipReward", {"max_reward": 3}),
    ],
)
def test_they_equal_gymnasiums(base, name, kwargs, seed):
    mine = getattr(vector, base)(lanes(AutoresetMode.NEXT_STEP), getattr(wrappers, name), **kwargs)
    makers = [lambda lane=lane: paddock.to_gymnasium(Wanderer(lane)) for lane in range(4)]
    inner = gymnasium.vector.SyncVectorEnv(makers)
    theirs = getattr(gymnasium.wrappers.vector, base)(inner, getattr(gymnasium.wrappers, name), **kwargs)
    mine.action_space.seed(seed)
    assert np.array_equal(mine.reset(seed=seed)[0], theirs.reset(seed=seed)[0])
    for _ in range(40):
        actions = mine.action_space.sample()
        for ours, peers in zip(mine.step(actions)[:4], theirs.step(actions)[:4], strict=True):
            assert np.array_equal(ours, peers)


def test_attributes_are_gymnasiums():
    env = vector.VectorizeTransformObservation(
        lanes(AutoresetMode.SAME_STEP, observation="bounded"), wrappers.RescaleObservation, min_obs=0, max_obs=1
    )
    assert (type(env.wrapper), env.same_out, env.autoreset_mode) == (
        wrappers.RescaleObservation,
        False,
        AutoresetMode.SAME_STEP,
    )
    assert vector.VectorizeTransformAction(
        lanes(AutoresetMode.SAME_STEP, continuous=True), wrappers.RescaleAction, min_action=-1, max_action=1
    ).same_out


@pytest.mark.parametrize("mode", MODES)
def test_own_wrappers_are_called_with_values_of_their_own(mode):
    """What a lane's function keeps or writes to is not the batch."""
    kept = []

    class Keeping(wrappers.TransformObservation):
        def __init__(self, env):
            super().__init__(env, lambda values: kept.append(values) or values, None)

    env = vector.VectorizeTransformObservation(lanes(mode, 2), Keeping)
    seen, _ = env.reset(seed=1)
    before = [value.copy() for value in kept]
    seen[:] = -1
    env.step([0, 0])
    assert all(map(np.array_equal, kept[:2], before))


def test_rewards_of_lanes_are_not_written_to():
    env = vector.VectorizeTransformReward(lanes(AutoresetMode.NEXT_STEP), Squared)
    rewards = np.array([1.0, 2.0, 3.0, 4.0])
    assert env.rewards(rewards).tolist() == [2.0, 5.0, 10.0, 17.0]
    assert rewards.tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("base", "cls", "kwargs"),
    [
        ("VectorizeTransformObservation", wrappers.ClipReward, {"min_reward": 0}),
        ("VectorizeTransformObservation", wrappers.FrameStackObservation, {"stack_size": 2}),
        ("VectorizeTransformAction", wrappers.StickyAction, {"repeat_action_probability": 0.5}),
        ("VectorizeTransformReward", wrappers.FlattenObservation, {}),
    ],
)
def test_what_has_no_place_there_is_refused(base, cls, kwargs):
    with pytest.raises(WrongClass, match=cls.__name__):
        getattr(vector, base)(lanes(AutoresetMode.NEXT_STEP), cls, **kwargs)


@pytest.mark.parametrize(
    "base", ["VectorizeTransformObservation", "VectorizeTransformAction", "VectorizeTransformReward"]
)
def test_a_single_environment_is_refused(base):
    with pytest.raises(TypeError, match="VectorEnv"):
        getattr(vector, base)(Wanderer(), wrappers.FlattenObservation)
