"""Episodes at every distance are those of the bare environment, to the last bit."""

from functools import partial

import numpy as np
import pytest

from paddock.spaces import Box, Discrete
from tests.conformance.envs import Dice, Noisy, Novel, OnceOnly, Panorama, counting
from tests.conformance.tiers import call, every_tier, every_tier_and_perl, far_tiers, state_of
from tests.spaces.twins import same

pytestmark = pytest.mark.process

five = partial(counting, goal=5)


def plain(result):
    """What a call returned, with NumPy's numbers in infos as Python's: lanes put infos into arrays."""
    *rest, info = result
    return [*rest, {key: value.item() if isinstance(value, np.generic) else value for key, value in info.items()}]


@every_tier_and_perl
def test_an_episode_is_that_of_the_bare_environment(tier):
    bare = five()
    with tier.open(five) as env:
        assert same(plain(env.reset(seed=11)), list(bare.reset(seed=11)))
        for action in (1, 0, 2, 1, 1):
            got = plain(env.step(np.int64(action)))
            assert same(got, list(bare.step(action)))
        assert got[2] is True
        assert env.observation_space == Box(0, 2**31, (2,), np.int64)
        assert env.action_space == Discrete(4)


@every_tier_and_perl
def test_a_stream_goes_on_over_episodes_and_begins_anew_with_a_seed(tier):
    bare = five()
    with tier.open(five) as env:
        first = env.reset(seed=3)[0]
        assert same(first, bare.reset(seed=3)[0])
        second = env.reset()[0]
        assert same(second, bare.reset()[0])
        assert not same(first, second)
        assert same(env.reset(seed=np.int64(3))[0], first)
        assert not same(env.reset(seed=4)[0], first)


@every_tier_and_perl
def test_state_counts_steps_and_names_the_episode(tier):
    with tier.open(five) as env:
        env.reset(seed=1)
        env.step(1)
        env.step(0)
        now = state_of(env)
        assert (now.step_count, now.public) == (2, {"count": 1})
        assert now.count == 1
        assert now.episode_id == state_of(env).episode_id
        env.reset()
        anew = state_of(env)
        assert (anew.step_count, anew.public) == (0, {"count": 0})
        assert isinstance(anew.episode_id, str) and anew.episode_id != now.episode_id


@every_tier_and_perl
def test_close_twice_is_fine(tier):
    env = tier.open(five)
    env.reset(seed=1)
    env.close()
    env.close()


@every_tier
def test_random_numbers_are_numpys_and_their_state_is_seen(tier):
    bare = Dice()
    action = np.array([0.25, -1], dtype=np.float32)
    with tier.open(Dice) as env:
        for seed in (5, None, 6, None, None):
            assert same(env.reset(seed=seed)[0], bare.reset(seed=seed)[0])
            assert env.np_random_seed == bare.np_random_seed
            for _ in range(4):
                got = env.step(action)
                assert same(list(got[:4]), list(bare.step(action)[:4]))
            assert got[2] and not got[3]
            assert env.np_random.bit_generator.state == bare.np_random.bit_generator.state


@far_tiers
def test_a_generator_that_was_fetched_is_a_copy(tier):
    bare = Dice()
    with tier.open(Dice) as env:
        assert same(env.reset(seed=5)[0], bare.reset(seed=5)[0])
        env.np_random.random(100)
        assert same(env.reset()[0], bare.reset()[0])


@every_tier
def test_options_reach_the_environment_and_stay_as_they_are(tier):
    with tier.open(Dice) as env:
        options = {"thrown": 3}
        env.reset(seed=1, options=options)
        assert options == {"thrown": 3}
        assert env.step(np.zeros(2, np.float32))[2] is True


@every_tier
def test_observations_are_the_callers_own(tier):
    with tier.open(five) as env:
        first = env.reset(seed=1)[0]
        kept = first.copy()
        second = env.step(1)[0]
        first += 1
        assert same(first, kept + 1)
        assert second.flags.writeable
        assert same(env.step(1)[0][:1], np.array([2]))


@every_tier
def test_an_environment_that_is_not_deterministic_differs_each_time(tier):
    with tier.open(Noisy) as env:
        seen = [env.reset(seed=1)[0], env.reset(seed=1)[0], env.step(0)[0], env.step(0)[0]]
        assert len({one.tobytes() for one in seen}) == 4
        assert all(env.observation_space.contains(one) for one in seen)


@every_tier
def test_an_environment_that_begins_only_once_says_so_the_second_time(tier):
    with tier.open(OnceOnly) as env:
        env.reset(seed=1)
        assert env.step(1)[0][0] == 1
        assert env.step(1)[2] is True
        with pytest.raises(RuntimeError, match="this world can't begin again"):
            env.reset(seed=1)


@every_tier
def test_observations_of_eight_megabytes_arrive_whole(tier):
    bare = Panorama()
    with tier.open(Panorama) as env:
        assert same(env.reset(seed=1)[0], bare.reset(seed=1)[0])
        for _ in range(2):
            assert same(env.step(1)[0], bare.step(1)[0])


@every_tier
def test_a_megabyte_of_text_arrives_whole(tier):
    bare = Novel()
    with tier.open(Novel) as env:
        assert env.reset(seed=1)[0] == bare.reset(seed=1)[0]
        got = env.step(1)[0]
        assert len(got.encode()) > 1 << 20 and got == bare.step(1)[0]


@every_tier
def test_large_arguments_and_results_cross_in_both_directions(tier):
    """More than a socket holds, so an end that writes before it reads would wait for ever."""
    with tier.open(five) as env:
        assert call(env, "twice", "é" * 600_000) == "é" * 1_200_000
