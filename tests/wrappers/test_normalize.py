"""Running statistics, and observations and rewards normalized by them."""

import inspect
import math

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import paddock
from paddock import AutoresetMode, wrappers
from paddock.errors import InvalidBound, InvalidSnapshot, InvalidSpace
from paddock.spaces import Box
from paddock.vector import SyncVectorEnv
from paddock.wrappers import vector
from paddock.wrappers.many_lanes import ManyLanes
from paddock.wrappers.normalize import FewNumbers, RunningMeanStd, add_value, update_mean_var_count_from_moments
from tests.wrappers.lanes import Wanderer, lanes

MODES = tuple(AutoresetMode)


class Tape(paddock.Env):
    """Rewards and observations as written on a tape; ``ends`` says of each step how it ends ('', 'over', 'cut')."""

    def __init__(self, rewards, ends, shape=(2,), dtype=np.float64):
        self.rewards, self.ends, self.at = rewards, ends, 0
        self.observation_space, self.action_space = Box(-np.inf, np.inf, shape, dtype), paddock.spaces.Discrete(2)

    def seen(self):
        return np.full(self.observation_space.shape, self.at, self.observation_space.dtype)

    def reset(self, *, seed=None, options=None):
        return self.seen(), {}

    def step(self, action):
        self.at += 1
        reward, end = self.rewards[self.at - 1], self.ends[self.at - 1]
        return self.seen(), reward, end == "over", end == "cut", {}


def play(env, count):
    """(observation, reward) of each step; episodes follow each other."""
    found = []
    env.reset(seed=3)
    for time in range(count):
        observation, reward, terminated, truncated, _ = env.step(time % 2)
        found.append((observation, reward))
        if terminated or truncated:
            env.reset()
    return found


# Statistics.


@given(
    batches=st.lists(
        arrays.arrays(np.float64, st.tuples(st.integers(1, 9), st.just(3)), elements=st.floats(-1e3, 1e3)), min_size=1
    )
)
def test_running_statistics_are_those_of_all_values_at_once(batches):
    rms, theirs = RunningMeanStd(shape=(3,)), gymnasium.wrappers.utils.RunningMeanStd(shape=(3,))
    for batch in batches:
        rms.update(batch)
        theirs.update(batch)
    assert np.allclose(rms.mean, theirs.mean, rtol=1e-9, atol=1e-9)
    assert np.allclose(rms.var, theirs.var, rtol=1e-9, atol=1e-9)
    assert rms.count == theirs.count
    values = np.concatenate(batches)
    assert np.allclose(rms.mean, values.mean(0), rtol=1e-3, atol=0.2)


@pytest.mark.parametrize("shape", [(), (3,), (40, 40)])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int64])
def test_batches_of_every_shape_and_dtype_are_summed_in_float64(shape, dtype, seed):
    batch = (np.random.default_rng(seed).random((64, *shape)) * 200).astype(dtype)
    rms = RunningMeanStd(epsilon=0, shape=shape)
    rms.update(batch)
    assert np.allclose(rms.mean, batch.astype(np.float64).mean(0), rtol=1e-12)
    assert np.allclose(rms.var, batch.astype(np.float64).var(0), rtol=1e-12)
    assert np.shape(rms.mean) == shape and rms.mean.dtype == np.float64


def test_large_offsets_do_not_eat_the_variance():
    rms = RunningMeanStd(epsilon=0, shape=(1,))
    for _ in range(50):
        rms.update(np.array([[1e6 - 1], [1e6 + 1]], np.float32))
    assert rms.var == pytest.approx(1.0, rel=1e-9)


def test_two_groups_have_the_moments_of_their_union():
    one, other = np.array([1.0, 2.0, 7.0]), np.array([4.0, 4.5])
    found = update_mean_var_count_from_moments(one.mean(), one.var(), 3, other.mean(), other.var(), 2)
    both = np.concatenate([one, other])
    assert found == (pytest.approx(both.mean()), pytest.approx(both.var()), 5)


@given(values=arrays.arrays(np.float32, (20, 4), elements=st.floats(-1e6, 1e6, width=32)))
def test_few_numbers_have_the_bits_of_arrays(values):
    few, mean, var, count = FewNumbers((4,)), np.zeros(4), np.ones(4), 1e-4
    for value in values:
        seen = few.standardize(value, 1e-8)
        mean, var, count, away = add_value(mean, var, count, value)
        assert np.array_equal(seen, (away / np.sqrt(var + 1e-8)).astype(np.float32))
    assert np.array_equal(few.mean, mean) and np.array_equal(few.var, var) and few.count == count


def test_who_keeps_a_mean_keeps_that_of_the_moment():
    env = wrappers.NormalizeObservation(Wanderer(observation="image"))
    env.reset(seed=1)
    kept = env.obs_rms.mean
    before = kept.copy()
    env.step(1)
    assert np.array_equal(kept, before) and not np.array_equal(env.obs_rms.mean, before)


# Observations.


@pytest.mark.parametrize("shape", [(), (2,), (8,), (9,), (3, 4)])
def test_single_observations_equal_gymnasiums(shape, seed):
    def tape():
        random = np.random.default_rng(seed)
        env = Tape(random.normal(size=80), random.choice(["", "", "over", "cut"], 80), shape)
        env.seen = lambda: random.normal(3, 5, shape)
        return env

    mine, theirs = (
        wrappers.NormalizeObservation(tape()),
        gymnasium.wrappers.NormalizeObservation(paddock.to_gymnasium(tape())),
    )
    for (one, _), (other, _) in zip(play(mine, 80), play(theirs, 80), strict=True):
        assert type(one) is type(other) and one.dtype == other.dtype == np.float32
        assert np.allclose(one, other, rtol=1e-5, atol=1e-5)
        assert one in mine.observation_space
    assert np.allclose(mine.obs_rms.mean, theirs.obs_rms.mean, rtol=1e-5)
    assert np.allclose(mine.obs_rms.var, theirs.obs_rms.var, rtol=1e-5)
    assert mine.obs_rms.count == theirs.obs_rms.count
    assert mine.obs_rms.mean.dtype == np.float64
    assert repr(mine.observation_space) == repr(theirs.observation_space)
    assert isinstance(mine, paddock.ObservationWrapper)


@pytest.mark.parametrize("kind", ["discrete", "image"])
def test_integer_observations_are_normalized_too(kind):
    env = wrappers.NormalizeObservation(Wanderer(observation=kind, chance=0))
    theirs = gymnasium.wrappers.NormalizeObservation(paddock.to_gymnasium(Wanderer(observation=kind, chance=0)))
    for (one, _), (other, _) in zip(play(env, 30), play(theirs, 30), strict=True):
        assert type(one) is type(other) and np.allclose(one, other, rtol=1e-4, atol=1e-4)


def vector_of_theirs(mode, count=4, **kwargs):
    makers = [lambda lane=lane: paddock.to_gymnasium(Wanderer(lane, **kwargs)) for lane in range(count)]
    return gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=gymnasium.vector.AutoresetMode(mode.value))


def test_observations_of_lanes_share_their_statistics_as_gymnasiums(seed):
    mine = vector.NormalizeObservation(lanes(AutoresetMode.NEXT_STEP))
    theirs = gymnasium.wrappers.vector.NormalizeObservation(vector_of_theirs(AutoresetMode.NEXT_STEP))
    assert np.allclose(mine.reset(seed=seed)[0], theirs.reset(seed=seed)[0], rtol=1e-5, atol=1e-4)
    for _ in range(60):
        one, other = mine.step([1, 0, 1, 2]), theirs.step([1, 0, 1, 2])
        assert one[0].dtype == other[0].dtype and np.allclose(one[0], other[0], rtol=1e-4, atol=1e-4)
    # Theirs are float32 and have drifted a little.
    assert np.allclose(mine.obs_rms.mean, theirs.obs_rms.mean, rtol=1e-5)
    assert np.allclose(mine.obs_rms.var, theirs.obs_rms.var, rtol=1e-4)
    assert mine.single_observation_space == Box(-np.inf, np.inf, (2,), np.float32)
    assert repr(mine.observation_space) == repr(theirs.observation_space)


@pytest.mark.parametrize("size", [3, 300])  # narrow batches are turned, wide ones are not
def test_shared_statistics_are_those_of_everything_seen(size, seed):
    random = np.random.default_rng(seed)
    shown = []

    class Noise(Tape):
        def seen(self):
            shown.append(random.normal(7, 3, size).astype(np.float32))
            return shown[-1]

    envs = [lambda: Noise([0.0] * 99, [""] * 99, (size,), np.float32)] * 40
    env = vector.NormalizeObservation(SyncVectorEnv(envs))
    observations, _ = env.reset()
    for _ in range(30):
        observations = env.step([0] * 40)[0]
    values = np.array(shown, np.float64)
    assert np.allclose(env.obs_rms.mean, values.mean(0), rtol=1e-5)
    assert np.allclose(env.obs_rms.var, values.var(0), rtol=1e-4)
    expected = (values[-40:] - env.obs_rms.mean) / np.sqrt(env.obs_rms.var + 1e-8)
    assert np.allclose(observations, expected, rtol=1e-5, atol=1e-5)
    assert observations.flags.c_contiguous and observations.shape == (40, size)


def test_same_step_is_no_obstacle_and_each_observation_counts_once(seed):
    mine = vector.NormalizeObservation(lanes(AutoresetMode.SAME_STEP, 3))
    plain = lanes(AutoresetMode.SAME_STEP, 3)
    mine.reset(seed=seed)
    shown = [*plain.reset(seed=seed)[0]]
    ends = 0
    for _ in range(40):
        _, _, terminations, truncations, infos = mine.step([1, 2, 0])
        raw, *_, told = plain.step([1, 2, 0])
        if over := (terminations | truncations).nonzero()[0].tolist():
            ends += len(over)
            shown += [told["final_obs"][lane] for lane in over]
            for lane in over:
                assert infos["final_obs"][lane] in mine.single_observation_space
                assert not np.array_equal(infos["final_obs"][lane], told["final_obs"][lane])
        shown += [*raw]
    assert ends > 5
    assert mine.obs_rms.count == pytest.approx(len(shown), abs=1e-3)
    assert np.allclose(mine.obs_rms.mean, np.mean(shown, 0, dtype=np.float64), rtol=1e-4)
    with pytest.raises(ValueError, match="NEXT_STEP"):  # if this fails, they have mended it
        gymnasium.wrappers.vector.NormalizeObservation(vector_of_theirs(AutoresetMode.SAME_STEP))


def test_a_partial_reset_teaches_the_statistics_only_the_lanes_that_begin():
    env = vector.NormalizeObservation(lanes(AutoresetMode.DISABLED, chance=0))
    seen, _ = env.reset(seed=1)
    again, _ = env.reset(options={"reset_mask": np.array([False, True, False, True])})
    assert env.obs_rms.count == pytest.approx(6, abs=1e-3)
    assert np.array_equal(seen[[0, 2]], again[[0, 2]])


@pytest.mark.parametrize("kind", ["array", "image"])
def test_frozen_statistics_are_used_and_not_changed(kind):
    env = wrappers.NormalizeObservation(Wanderer(observation=kind))
    play(env, 20)
    assert env.update_running_mean is True
    env.update_running_mean = False
    mean, var, count = env.obs_rms.mean, env.obs_rms.var, env.obs_rms.count
    observation, _ = env.reset(seed=5)
    raw, _ = Wanderer(observation=kind).reset(seed=5)
    assert np.allclose(observation, (raw - mean) / np.sqrt(var + 1e-8), rtol=1e-6)
    assert (env.obs_rms.mean == mean).all() and (env.obs_rms.var == var).all() and env.obs_rms.count == count


@pytest.mark.parametrize("shared", [True, False])
def test_frozen_statistics_of_lanes(shared):
    env = vector.NormalizeObservation(lanes(AutoresetMode.NEXT_STEP), shared=shared)
    env.reset(seed=1)
    for _ in range(9):
        env.step([1, 1, 1, 1])
    env.update_running_mean = False
    mean, var = env.obs_rms.mean.copy(), env.obs_rms.var.copy()
    observations, _ = env.reset(seed=5)
    raw, _ = lanes(AutoresetMode.NEXT_STEP).reset(seed=5)
    assert np.allclose(observations, (raw - mean) / np.sqrt(var + 1e-8), rtol=1e-5)
    assert np.array_equal(env.obs_rms.mean, mean) and np.array_equal(env.obs_rms.var, var)


def test_statistics_can_be_shared_with_another_wrapper():
    train, test = (wrappers.NormalizeObservation(Wanderer(chance=0)) for _ in range(2))
    test.obs_rms, test.update_running_mean = train.obs_rms, False
    train.reset(seed=1)
    for count in range(1, 4):
        train.step(2)
        test.reset(seed=2)
        assert test.obs_rms.count == pytest.approx(count + 1, abs=1e-3)
        assert np.array_equal(test.obs_rms.mean, train.obs_rms.mean)
    test.obs_rms = gymnasium.wrappers.utils.RunningMeanStd(shape=(2,))
    test.update_running_mean = True
    test.reset(seed=2)
    assert test.obs_rms.count == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("epsilon", [0, -1e-8, math.nan])
def test_epsilon_is_positive(epsilon):
    for wrap in (wrappers.NormalizeObservation, wrappers.NormalizeReward):
        with pytest.raises(InvalidBound, match="strictly positive"):
            wrap(Wanderer(), epsilon=epsilon)
    for wrap in (vector.NormalizeObservation, vector.NormalizeReward):
        with pytest.raises(InvalidBound, match="strictly positive"):
            wrap(lanes(AutoresetMode.NEXT_STEP), epsilon=epsilon)


@pytest.mark.parametrize("gamma", [-0.1, 1.1, math.nan])
def test_gamma_is_a_share(gamma):
    with pytest.raises(InvalidBound, match=r"interval \[0, 1\]"):
        wrappers.NormalizeReward(Wanderer(), gamma)


def test_what_has_no_shape_can_not_be_normalized():
    with pytest.raises(ValueError, match="requires the observation space to have a shape"):
        wrappers.NormalizeObservation(Wanderer(observation="dict"))
    with pytest.raises(InvalidSpace, match="FlattenObservation"):
        vector.NormalizeObservation(lanes(AutoresetMode.NEXT_STEP, observation="dict"))


# Rewards.


def test_rewards_equal_gymnasiums_within_an_episode():
    rewards = np.random.default_rng(4).normal(2, 3, 100).tolist()
    mine = wrappers.NormalizeReward(Tape(rewards, [""] * 100), 0.9)
    theirs = gymnasium.wrappers.NormalizeReward(paddock.to_gymnasium(Tape(rewards, [""] * 100)), 0.9)
    for (_, one), (_, other) in zip(play(mine, 100), play(theirs, 100), strict=True):
        assert one == other
    assert mine.return_rms.var == theirs.return_rms.var
    assert mine.discounted_reward == theirs.discounted_reward
    assert mine.discounted_reward.shape == (1,)


def test_rewards_of_lanes_equal_gymnasiums_within_an_episode(seed):
    rewards = np.random.default_rng(seed).normal(2, 3, (4, 50)).tolist()

    def tape(lane):
        return Tape(rewards[lane], [""] * 50)

    mine = vector.NormalizeReward(SyncVectorEnv([lambda lane=lane: tape(lane) for lane in range(4)]), 0.9)
    makers = [lambda lane=lane: paddock.to_gymnasium(tape(lane)) for lane in range(4)]
    theirs = gymnasium.wrappers.vector.NormalizeReward(gymnasium.vector.SyncVectorEnv(makers), 0.9)
    mine.reset(), theirs.reset()
    for _ in range(50):
        assert np.allclose(mine.step([0] * 4)[1], theirs.step([0] * 4)[1], rtol=2e-6)
    assert np.allclose(mine.accumulated_reward, theirs.accumulated_reward, rtol=1e-5)
    assert mine.return_rms.var == pytest.approx(theirs.return_rms.var, rel=1e-5)
    assert mine.normalize(3.0) == pytest.approx(theirs.normalize(3.0), rel=1e-5)
    assert mine.return_rms.count == theirs.return_rms.count


def returns_of(wrap, rewards, ends):
    """What the statistics were taught: the return in each step."""
    env, found = wrap(Tape(rewards, ends)), []
    env.reset()
    for end in ends:
        env.step(0)
        found.append(float(env.discounted_reward[0]))
        if end:
            env.reset()
    return found


@pytest.mark.parametrize("end", ["over", "cut"])
def test_a_return_holds_the_last_step_and_ends_with_its_episode(end):
    ends = ["", "", end, "", ""]

    def ours(env):
        return wrappers.NormalizeReward(env, 0.5)

    assert returns_of(ours, [1.0] * 5, ends) == [1, 1.5, 1.75, 1, 1.5]

    def theirs(env):
        return gymnasium.wrappers.NormalizeReward(paddock.to_gymnasium(env), 0.5)

    wrong = {"over": [1, 1.5, 1, 1.5, 1.75], "cut": [1, 1.5, 1.75, 1.875, 1.9375]}
    assert returns_of(theirs, [1.0] * 5, ends) == wrong[end]  # if this fails, they have mended it


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("end", ["over", "cut"])
def test_in_lanes_a_return_holds_the_last_step_and_ends_with_its_episode(mode, shared, end):
    tapes = [lambda: Tape([1.0] * 9, ["", "", end, *[""] * 6]), lambda: Tape([1.0] * 9, [""] * 9)]
    env = vector.NormalizeReward(SyncVectorEnv(tapes, autoreset_mode=mode), 0.5, shared=shared)
    env.reset()
    found = []
    for _ in range(5):
        _, _, terminations, truncations, _ = env.step([0, 0])
        found.append(env.accumulated_reward.tolist())
        if mode is AutoresetMode.DISABLED and (over := terminations | truncations).any():
            env.reset(options={"reset_mask": over})
    first = {
        AutoresetMode.NEXT_STEP: [1, 1.5, 1.75, 0, 1],
        AutoresetMode.SAME_STEP: [1, 1.5, 0, 1, 1.5],
        AutoresetMode.DISABLED: [1, 1.5, 1.75, 1, 1.5],
    }
    assert [one for one, _ in found] == first[mode]
    assert [other for _, other in found] == [1, 1.5, 1.75, 1.875, 1.9375]
    learned = 9 if mode is AutoresetMode.NEXT_STEP else 10  # the step that begins an episode has no return
    counts = np.sum(env.return_rms.count)
    assert counts == pytest.approx(learned, rel=1e-3)


class PlainTwin(vector.NormalizeReward):
    """Through rows of the lanes that moved, as any other wrapper."""

    _advance_step = ManyLanes._advance_step


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("repeats", [1, 3])  # windows hold lanes
@pytest.mark.parametrize("frozen", [True, False])
def test_the_fast_form_is_its_plain_twin(mode, repeats, frozen, seed):
    envs = [
        vector.RepeatAction(wrap(lanes(mode, 6, chance=0.3), 0.9), repeats)
        for wrap in (vector.NormalizeReward, PlainTwin)
    ]
    for env in envs:
        env.reset(seed=seed)
        env.env.update_running_mean = not frozen
    for _ in range(60):
        results = [env.step([1, 2, 0, 1, 1, 3]) for env in envs]
        assert np.allclose(results[0][1], results[1][1], rtol=1e-12)
        assert np.allclose(*(env.env.accumulated_reward for env in envs), rtol=1e-12)
        if mode is AutoresetMode.DISABLED and (over := results[0][2] | results[0][3]).any():
            for env in envs:
                env.reset(options={"reset_mask": over})
    assert envs[0].env.return_rms.count == pytest.approx(envs[1].env.return_rms.count)
    assert envs[0].env.return_rms.var == pytest.approx(envs[1].env.return_rms.var)


def test_a_frozen_scale_is_used_and_not_changed():
    env = wrappers.NormalizeReward(Wanderer())
    play(env, 30)
    env.update_running_mean = False
    var, count = env.return_rms.var, env.return_rms.count
    _, reward = play(env, 1)[0]
    raw = Wanderer()
    raw.reset(seed=3)
    assert reward == pytest.approx(raw.step(0)[1] / math.sqrt(var + 1e-8))
    assert (env.return_rms.var, env.return_rms.count) == (var, count)


def test_a_return_can_be_set():
    env = wrappers.NormalizeReward(Tape([1.0] * 3, [""] * 3), 0.5)
    env.reset()
    env.discounted_reward = np.array([4.0])
    env.step(0)
    assert env.discounted_reward.tolist() == [3.0]


# Data: specs and snapshots.


def test_wrappers_are_data():
    env = wrappers.NormalizeReward(wrappers.NormalizeObservation(paddock.make("CartPole-v1"), 1e-6), epsilon=1e-4)
    entries = [(entry.name, entry.kwargs) for entry in env.spec.additional_wrappers]
    assert entries == [
        ("NormalizeObservation", {"epsilon": 1e-6}),
        ("NormalizeReward", {"gamma": 0.99, "epsilon": 1e-4}),
    ]
    again = paddock.make(paddock.EnvSpec.from_json(env.spec.to_json()))
    for (one, gained), (other, earned) in zip(play(env, 40), play(again, 40), strict=True):
        assert np.array_equal(one, other) and gained == earned


@pytest.mark.parametrize("id", ["CartPole-v1", "FrozenLake-v1"])
def test_a_snapshot_holds_the_statistics(id):
    def made():
        return wrappers.NormalizeReward(wrappers.NormalizeObservation(paddock.make(id)))

    env, other = made(), made()
    play(env, 30)
    env.reset(seed=8)
    env.step(1)
    snapshot = env.snapshot()
    other.reset(seed=1)
    other.restore(snapshot)
    for action in (0, 1, 1):
        one, two = env.step(action), other.step(action)
        assert np.array_equal(one[0], two[0]) and one[1:4] == two[1:4]
    with pytest.raises(InvalidSnapshot):
        other.restore(env.env.snapshot())


@pytest.mark.parametrize("shared", [True, False])
def test_a_snapshot_of_lanes_holds_the_statistics(shared):
    def made():
        inner = paddock.make_vec("CartPole-v1", num_envs=3)
        return vector.NormalizeReward(vector.NormalizeObservation(inner, shared=shared), shared=shared)

    env, other = made(), made()
    env.reset(seed=8), other.reset(seed=1)
    for _ in range(40):
        env.step([1, 0, 1])
    other.restore(env.snapshot())
    for _ in range(15):
        one, two = env.step([0, 1, 1]), other.step([0, 1, 1])
        assert np.array_equal(one[0], two[0]) and np.array_equal(one[1], two[1])
    assert np.array_equal(env.env.obs_rms.mean, other.env.obs_rms.mean)


@pytest.mark.parametrize("name", ["NormalizeObservation", "NormalizeReward"])
def test_signatures_are_gymnasiums_and_one_argument_for_lanes(name):
    for ours, theirs, more in ((wrappers, gymnasium.wrappers, []), (vector, gymnasium.wrappers.vector, ["shared"])):
        mine, peer = (inspect.signature(getattr(module, name)).parameters for module in (ours, theirs))
        known = [(p.name, p.kind, p.default) for p in mine.values() if p.name not in more]
        assert known == [(p.name, p.kind, p.default) for p in peer.values()]
        assert set(mine) - set(peer) == set(more)
        if more:
            assert mine["shared"].kind is inspect.Parameter.KEYWORD_ONLY and mine["shared"].default is True
