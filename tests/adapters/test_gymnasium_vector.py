"""Adapted lanes are a real gymnasium.vector.VectorEnv, compiled ones too; paddock's ids are known to Gymnasium."""

import gymnasium
import gymnasium.spaces as theirs
import numpy as np
import pytest

import paddock
from paddock.adapters.gymnasium import register_in_gymnasium, to_gymnasium_vector
from tests.spaces.twins import same
from tests.toys import Counter

KINDS = {
    "compiled": {},
    "loop": {"backend": "loop"},
    "processes": {"isolation": "process"},
}


def steps(lanes, count=40):
    results = [lanes.reset(seed=7)]
    for number in range(count):
        results.append(lanes.step(np.full(lanes.num_envs, number % 2)))
    return results


@pytest.mark.process
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_those_of_the_lanes(kind):
    lanes, adapted = (paddock.make_vec("CartPole-v1", num_envs=3, **KINDS[kind]) for _ in range(2))
    adapted = to_gymnasium_vector(adapted)
    assert isinstance(adapted, gymnasium.vector.VectorEnv)
    with lanes:
        assert same(steps(adapted), steps(lanes))
    adapted.close()
    assert adapted.closed
    assert adapted.env.closed


def test_arrays_pass_through_uncopied():
    lanes = paddock.make_vec("CartPole-v1", num_envs=4, lanes=paddock.LaneOptions(copy=False))
    adapted = to_gymnasium_vector(lanes)
    adapted.reset(seed=1)
    first = adapted.step(np.zeros(4, np.int64))[0]
    second = adapted.step(np.zeros(4, np.int64))[0]
    assert np.shares_memory(first, second)


def test_spaces_are_gymnasiums_own():
    adapted = to_gymnasium_vector(paddock.make_vec("CartPole-v1", num_envs=3))
    assert adapted.num_envs == 3
    assert adapted.single_action_space == theirs.Discrete(2)
    assert isinstance(adapted.single_observation_space, theirs.Box)
    assert adapted.observation_space.shape == (3, 4)
    assert isinstance(adapted.action_space, theirs.MultiDiscrete)
    adapted.reset(seed=1)
    assert adapted.step(adapted.action_space.sample())[0] in adapted.observation_space


def test_the_autoreset_mode_is_told_in_gymnasiums_words():
    lanes = paddock.make_vec("CartPole-v1", 2, lanes=paddock.LaneOptions(autoreset=paddock.AutoresetMode.SAME_STEP))
    adapted = to_gymnasium_vector(lanes)
    modes = getattr(gymnasium.vector, "AutoresetMode", paddock.AutoresetMode)  # before 1.1 there was none
    assert adapted.metadata["autoreset_mode"] is modes.SAME_STEP


def test_attributes_of_lanes_can_be_read_set_and_called():
    adapted = to_gymnasium_vector(paddock.make_vec("CartPole-v1", num_envs=2, backend="loop"))
    adapted.set_attr("gravity", [1.5, 2.5])
    assert adapted.get_attr("gravity") == (1.5, 2.5)
    adapted.reset(seed=3)
    assert adapted.np_random_seed == (3, 4)


def test_gymnasiums_vector_wrappers_take_it():
    adapted = gymnasium.wrappers.vector.RecordEpisodeStatistics(
        to_gymnasium_vector(paddock.make_vec("CartPole-v1", num_envs=3))
    )
    adapted.reset(seed=1)
    ended = [info["episode"]["l"] for *_, info in (adapted.step(np.zeros(3, np.int64)) for _ in range(15)) if info]
    assert max(max(lengths) for lengths in ended) >= 8


def test_one_environment_is_refused_with_the_way_out():
    with pytest.raises(paddock.errors.WrongClass, match="takes lanes, a paddock.VectorEnv, got Counter"):
        to_gymnasium_vector(Counter())


def test_adapted_lanes_are_left_as_they_are():
    adapted = to_gymnasium_vector(paddock.make_vec("CartPole-v1", num_envs=2))
    assert to_gymnasium_vector(adapted) is adapted


def test_every_id_is_registered_in_gymnasium():
    names = register_in_gymnasium()
    assert len(names) == len(set(names)) == len(paddock.registry)
    assert {"paddock/CartPole-v1", "paddock/phys2d.CartPole-v1", "paddock/Echo"} <= set(names)
    assert set(names) <= gymnasium.registry.keys()


def test_a_registered_id_is_made_by_gymnasium_with_paddocks_numbers():
    env, own = gymnasium.make("paddock/Pendulum-v1", g=4.0), paddock.make("Pendulum-v1", g=4.0)
    assert (env.spec.id, env.spec.max_episode_steps) == ("paddock/Pendulum-v1", 200)
    assert isinstance(env.unwrapped.env, paddock.Env)
    assert same(env.reset(seed=5), own.reset(seed=5))
    action = np.array([0.5], np.float32)
    for _ in range(200):
        expected = own.step(action)
        assert same(env.step(action), expected)
    assert expected[3]


def test_ids_that_are_registered_later_follow(fresh_registry):
    paddock.register("me/Counter-v0", Counter, max_episode_steps=4)
    try:
        assert "paddock/me.Counter-v0" in register_in_gymnasium()
        env = gymnasium.make("paddock/me.Counter-v0", goal=9)
        assert env.unwrapped.env.unwrapped.goal == 9
    finally:
        gymnasium.registry.pop("paddock/me.Counter-v0", None)


def test_make_vec_of_gymnasium_gives_compiled_lanes():
    lanes = gymnasium.make_vec("paddock/CartPole-v1", num_envs=5, vectorization_mode="vector_entry_point")
    own = paddock.make_vec("CartPole-v1", num_envs=5)
    assert type(lanes.unwrapped.env) is type(own)
    assert same(steps(lanes), steps(own))
    limited = gymnasium.make_vec(
        "paddock/MountainCar-v0", num_envs=2, vectorization_mode="vector_entry_point", max_episode_steps=3
    )
    limited.reset(seed=1)
    assert [limited.step(np.ones(2, np.int64))[3].tolist() for _ in range(3)][2] == [True, True]


def test_make_vec_takes_an_autoreset_mode():
    mode = getattr(gymnasium.vector, "AutoresetMode", paddock.AutoresetMode).SAME_STEP
    lanes = gymnasium.make_vec(
        "paddock/CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point", autoreset_mode=mode
    )
    assert lanes.metadata["autoreset_mode"] is mode


def test_an_entry_point_without_a_name_says_so():
    from paddock.adapters.gymnasium import remake

    with pytest.raises(paddock.errors.MissingArgument, match="Pass paddock_spec or paddock_id"):
        remake()
