"""The time of an episode, in its observations."""

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paddock
from paddock import AutoresetMode, wrappers
from paddock.errors import InvalidLanes
from paddock.spaces import Box, Tuple
from paddock.testing import check_wrapper
from paddock.vector import SyncVectorEnv
from paddock.wrappers import vector
from tests.wrappers.lanes import Wanderer, lanes
from tests.wrappers.likeness import alike

FORMS = [
    {},
    {"normalize_time": True},
    {"flatten": False},
    {"flatten": False, "normalize_time": True},
    {"flatten": False, "dict_time_key": "clock"},
]


class Pair(Wanderer):
    """Observations that are tuples."""

    def __init__(self, lane=0, **kwargs):
        super().__init__(lane, **kwargs)
        self.observation_space = Tuple([self.observation_space, Box(0, 99, (), np.int64)])

    def seen(self):
        return super().seen(), np.array(self.time, np.int64)


def env_of(kind, lane=0, limit=6):
    made = Pair(lane) if kind == "tuple" else Wanderer(lane, observation=kind)
    return made if limit is None else wrappers.TimeLimit(made, limit)


@pytest.mark.parametrize("kind", ["array", "image", "discrete", "dict", "tuple"])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_equals_gymnasiums(kind, form, seed):
    mine = wrappers.TimeAwareObservation(env_of(kind), **form)
    inner = gymnasium.wrappers.TimeLimit(paddock.to_gymnasium(env_of(kind, limit=None)), 6)
    inner.observation_space.sort_keys = True  # as their own Dict has it; one that was translated says False
    theirs = gymnasium.wrappers.TimeAwareObservation(inner, **form)
    assert repr(mine.observation_space) == repr(theirs.observation_space)
    one, other = mine.reset(seed=seed)[0], theirs.reset(seed=seed)[0]
    for _ in range(40):
        assert alike(one, other)
        assert one in mine.observation_space
        one, *rest, _ = mine.step(1)
        other, *rest_of_theirs, _ = theirs.step(1)
        assert rest == rest_of_theirs
        assert mine.timesteps == theirs.timesteps
        if rest[1] or rest[2]:
            assert alike(one, other)
            one, other = mine.reset()[0], theirs.reset()[0]
    assert mine.max_timesteps == theirs.max_timesteps == 6
    assert (mine.flatten, mine.normalize_time) == (theirs.flatten, theirs.normalize_time)
    assert isinstance(mine, paddock.ObservationWrapper)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["array", "image", "discrete", "dict", "tuple"])
@pytest.mark.parametrize("form", FORMS, ids=str)
@settings(max_examples=3)
@given(seed=st.integers(0, 2**31), count=st.integers(1, 4))
def test_n_lanes_are_n_single_environments(kind, form, seed, count):
    def made(mode):
        makers = [lambda lane=lane: env_of(kind, lane) for lane in range(count)]
        return vector.TimeAwareObservation(SyncVectorEnv(makers, autoreset_mode=mode), **form)

    check_wrapper(lambda lane: wrappers.TimeAwareObservation(env_of(kind, lane), **form), made, steps=30, seed=seed)


def test_time_counts_in_each_lane_on_its_own():
    env = vector.TimeAwareObservation(paddock.make_vec("CartPole-v1", num_envs=3), normalize_time=True)
    env.reset(seed=1)
    over = np.zeros(3, bool)
    expected = np.zeros(3, int)
    for _ in range(60):
        observations, _, terminations, truncations, _ = env.step([1, 0, 1])
        expected = np.where(over, 0, expected + 1)
        over = terminations | truncations
        assert env.timesteps.tolist() == expected.tolist()
        assert observations[:, -1].tolist() == (expected / 500).astype(np.float32).tolist()
    assert env.max_timesteps == 500 and env.single_observation_space.shape == (5,)


@pytest.mark.parametrize("wrap", [wrappers.TimeAwareObservation, vector.TimeAwareObservation])
def test_without_a_limit_there_is_no_time(wrap):
    env = Wanderer() if wrap is wrappers.TimeAwareObservation else lanes(AutoresetMode.NEXT_STEP)
    with pytest.raises(ValueError, match="wrapped by a TimeLimit wrapper or the spec specify a `max_episode_steps`"):
        wrap(env)


def test_lanes_have_one_limit():
    env = SyncVectorEnv([lambda limit=limit: env_of("array", 0, limit) for limit in (3, 4)])
    with pytest.raises(InvalidLanes, match=r"\[3, 4\]"):
        vector.TimeAwareObservation(env)


def test_the_key_must_be_free():
    with pytest.raises(ValueError, match="'count'.*already exists in the observation space"):
        wrappers.TimeAwareObservation(env_of("dict"), dict_time_key="count")


def test_a_subclass_may_change_the_observation():
    class Halved(wrappers.TimeAwareObservation):
        def observation(self, observation):
            return super().observation(observation) / 2

    env = Halved(env_of("array"))
    env.reset(seed=1)
    assert env.step(1)[0][-1] == 0.5


def test_is_data():
    env = wrappers.TimeAwareObservation(paddock.make("CartPole-v1"), False, dict_time_key="clock")
    assert env.spec.additional_wrappers[0].kwargs == {
        "flatten": False,
        "normalize_time": False,
        "dict_time_key": "clock",
    }
    again = paddock.make(paddock.EnvSpec.from_json(env.spec.to_json()))
    assert repr(again.observation_space) == repr(env.observation_space)


def test_a_snapshot_holds_the_time():
    env, other = (wrappers.TimeAwareObservation(paddock.make("CartPole-v1")) for _ in range(2))
    env.reset(seed=1), other.reset(seed=9)
    env.step(0)
    other.restore(env.snapshot())
    assert other.timesteps == 1
    assert np.array_equal(env.step(1)[0], other.step(1)[0])
    lane, another = (vector.TimeAwareObservation(paddock.make_vec("CartPole-v1", num_envs=2)) for _ in range(2))
    lane.reset(seed=1), another.reset(seed=9)
    lane.step([0, 1])
    another.restore(lane.snapshot())
    assert np.array_equal(lane.step([1, 1])[0], another.step([1, 1])[0])
