"""Run by test_other_libraries.py where gym3 is: Procgen's games, and environments of gym3 that others wrote."""

import copy

import numpy as np
import pytest
from procgen import ProcgenGym3Env
from procgen.env import ENV_NAMES

import paddock
from paddock.errors import InvalidLanes, InvalidSnapshot, ResetNeeded, SnapshotUnsupported
from paddock.sources import from_gym3
from paddock.spaces import Box, Discrete, MultiDiscrete
from tests.families.other_libraries import native_procgen
from tests.families.playing import actions, equal, going_on, played
from tests.families.toy_gym3 import Guess

TOY = "gym3:tests.families.toy_gym3:guess"


@pytest.mark.full
@pytest.mark.parametrize("game", ENV_NAMES)
def test_every_game_goes_on_from_a_snapshot(game):
    env, other = paddock.make(f"gym3:procgen/{game}"), paddock.make(f"gym3:procgen/{game}")
    chosen = actions(env.action_space, 300)
    played(env, 5, chosen)
    other.reset(seed=2)
    other.restore(env.snapshot())
    assert equal(going_on(other, chosen), going_on(env, chosen))


def test_a_reset_after_an_end_skips_no_episode_and_one_in_the_middle_ends_it():
    env = paddock.make("gym3:procgen/fruitbot")
    chosen = actions(env.action_space, 200)
    levels = [one[1]["level_seed"] for one in native_procgen(5, chosen) if len(one) == 2]
    found = [one[1]["level_seed"] for one in played(env, 5, chosen) if len(one) == 2]
    assert found == levels
    assert len(set(levels)) == len(levels) > 2
    running = levels[-1]
    _, info = env.reset()
    assert info["prev_level_seed"] == running != info["level_seed"]
    assert env.reset()[1]["level_seed"] == info["level_seed"], "it has not begun: nothing to end"


def test_the_step_that_ends_shows_what_was_seen_before():
    env = paddock.make(TOY, length=2)
    env.reset(seed=3)
    seen, *_ = env.step(0)
    last, _, terminated, truncated, _ = env.step(0)
    assert (terminated, truncated) == (True, False)
    assert equal(last, seen)
    assert env.reset()[0]["place"] == 0


def test_a_restored_level_of_another_kind_is_refused():
    env, other = paddock.make("gym3:procgen/maze"), paddock.make("gym3:procgen/maze", distribution_mode="easy")
    env.reset(seed=1), other.reset(seed=1)
    with pytest.raises(InvalidSnapshot, match="with the same options"):
        env.restore(other.snapshot())


def test_pictures_are_the_librarys_own():
    env = paddock.make("gym3:procgen/maze", render_mode="rgb_array")
    theirs = ProcgenGym3Env(1, "maze", rand_seed=4, render_mode="rgb_array")
    _, info = env.reset(seed=4)
    assert np.array_equal(env.render(), theirs.get_info()[0]["rgb"])
    assert "rgb" not in info


def test_types_become_spaces_and_values_their_members():
    env = paddock.make(TOY)
    assert env.action_space == Discrete(5)
    assert env.observation_space.spaces["marks"] == MultiDiscrete([3, 3], dtype=np.uint8)
    assert env.observation_space.spaces["place"] == Box(-np.inf, np.inf, (), np.float32)
    seen, _ = env.reset(seed=1)
    assert seen in env.observation_space
    assert env.step(seen["number"])[1] == 1.0


@pytest.mark.parametrize("isolation", [None, "sandbox"])
def test_a_function_with_a_seed_makes_it_anew_for_a_seed(isolation):
    with paddock.make(TOY, isolation=isolation) as env:
        numbers = [env.reset(seed=7)[0]["number"], *(env.step(0)[0]["number"] for _ in range(3))]
        assert numbers == list(np.random.RandomState(7).randint(5, size=4))
        assert env.reset(seed=7)[0]["number"] == numbers[0]
        env.step(0)
        assert env.reset()[0]["place"] == 0, "made anew: gym3 has no other way"


def test_an_object_says_what_it_can_not_do():
    env = from_gym3(Guess())
    with pytest.warns(UserWarning, match="seeds nothing"):
        env.reset(seed=7)
    env.step(0)
    with pytest.warns(UserWarning, match="goes on with the one that runs"):
        assert env.reset()[0]["place"] == 1
    with pytest.raises(SnapshotUnsupported, match="Guess can't save its state"):
        env.snapshot()
    with pytest.raises(SnapshotUnsupported, match="was passed in can't be copied"):
        copy.deepcopy(from_gym3(ProcgenGym3Env(1, "maze", rand_seed=1)))
    with pytest.raises(TypeError, match="Expected a gym3.Env, got dict"):
        from_gym3({})
    with pytest.raises(TypeError, match="got num=2"):
        paddock.make("gym3:tests.families.toy_gym3:two")


def test_several_lanes_are_a_vector_environment_that_steps_as_the_library_does():
    lanes, native = (ProcgenGym3Env(3, "fruitbot", rand_seed=1) for _ in range(2))
    lanes = from_gym3(lanes)
    with pytest.raises(ResetNeeded):
        lanes.step(np.zeros(3, int))
    before, infos = lanes.reset()
    assert before in lanes.observation_space
    assert infos["level_seed"].shape == (3,)
    ends = 0
    for actions_now in np.random.RandomState(0).randint(15, size=(150, 3)):
        seen, rewards, terminated, truncated, infos = lanes.step(actions_now)
        native.act(actions_now)
        assert equal((rewards, seen, terminated), native.observe())
        assert not truncated.any()
        for lane in np.flatnonzero(terminated):
            ends += 1
            assert np.array_equal(infos["final_obs"][lane]["rgb"], before["rgb"][lane])
            assert lanes.state()[lane].step_count == 0
        before = seen
    assert ends > 1
    assert lanes.reset()[0] in lanes.observation_space


def test_lanes_refuse_what_they_can_not_do():
    lanes = from_gym3(Guess(2))
    lanes.reset()
    for wrong in (np.array([0, 5]), np.array([0, -1]), np.array([0.5, 0]), np.zeros(3, int), "left"):
        with pytest.raises(paddock.InvalidAction):
            lanes.step(wrong)
    with pytest.raises(InvalidLanes):
        lanes.reset(options={"reset_mask": np.array([True, False])})
    with pytest.warns(UserWarning, match="seeds nothing"):
        lanes.reset(seed=1)
    lanes.step(np.array([1, 1], np.uint8))
    with pytest.warns(UserWarning, match="goes on with those that run"):
        lanes.reset()
    lanes.close(), lanes.close()
