"""Names of episodes: random by default, and the same again from the same key."""

import paddock
from paddock.core.state import name_episodes, names_from


def episodes(env, count):
    names = []
    for _ in range(count):
        env.reset(seed=1)
        names += [paddock.state(env).episode_id] * 2
        assert names[-1] == paddock.state(env).episode_id
    return names


def test_names_are_random_unless_a_key_is_given():
    with paddock.make("CartPole-v1") as env, paddock.make("CartPole-v1") as other:
        assert len({*episodes(env, 3), *episodes(other, 3)}) == 6


def test_same_key_gives_the_same_names_below_any_wrapper():
    with paddock.make("CartPole-v1") as env, paddock.make("CartPole-v1") as other:
        wrapped = paddock.wrappers.RecordEpisodeStatistics(other)
        name_episodes(env, 5)
        name_episodes(wrapped, 5)
        names = episodes(env, 3)
        assert names == episodes(wrapped, 3)
        assert len(set(names)) == 3


def test_lanes_are_named_by_the_key_too():
    with paddock.make("CartPole-v1", num_envs=2) as lanes, paddock.make("CartPole-v1", num_envs=2) as others:
        for one in (lanes, others):
            name_episodes(one, 7)
            one.reset(seed=1)
        assert [now.episode_id for now in lanes.state()] == [now.episode_id for now in others.state()]


def test_keys_do_not_share_names():
    assert names_from(1)() != names_from(2)()
