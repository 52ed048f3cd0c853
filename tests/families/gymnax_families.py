"""Run by test_other_libraries.py where JAX is: gymnax's environments, and a functional one that needs no gymnax."""

import copy

import gymnax
import numpy as np
import pytest
from gymnax.wrappers.gym import GymnaxToGymWrapper

import paddock
from paddock.errors import ResetNeeded, UnsupportedMode
from paddock.sources import from_gymnax
from paddock.sources.gymnax import FromGymnax
from paddock.spaces import Box, Discrete
from tests.families.playing import actions, equal, going_on, played
from tests.families.toy_functional import Drift, Endless, Params, played_by_functions

TOY = "gymnax:tests.families.toy_functional:drift"
NEEDS_NETWORK = "MNISTBandit-bsuite"  # it loads pictures when it is made
IDS = [id for id in gymnax.registered_envs if id != NEEDS_NETWORK]


@pytest.mark.filterwarnings("ignore:The obs returned")  # some leave their own spaces
@pytest.mark.full
@pytest.mark.parametrize("id", IDS)
def test_every_environment_is_the_librarys_own_and_goes_on_from_a_snapshot(id):
    env, native = paddock.make(f"gymnax:{id}"), GymnaxToGymWrapper(*gymnax.make(id))
    assert equal(env.reset(seed=5)[0], native.reset(seed=5)[0])
    for action in actions(env.action_space, 50):
        seen, reward, terminated, truncated, _ = env.step(action)
        theirs = native.step(action)
        assert equal((seen, reward, terminated, truncated), (theirs[4]["final_observation"], *theirs[1:4]))
        if terminated or truncated:
            assert equal(env.reset()[0], native.reset()[0])
    other = paddock.make(f"gymnax:{id}")
    other.restore(env.snapshot())
    chosen = actions(env.action_space, 10)
    assert equal(going_on(other, chosen), going_on(env, chosen))


@pytest.mark.parametrize("isolation", [None, pytest.param("sandbox", marks=pytest.mark.full)])
def test_a_functional_environment_needs_no_gymnax(isolation):
    with paddock.make(TOY, params={"goal": 4.0}, isolation=isolation) as env:
        chosen = actions(env.action_space, 60)
        results = played(env, 5, chosen)
    assert equal(results, list(played_by_functions(5, chosen, Params(goal=4.0))))
    ends = [one[2:4] for one in results if len(one) == 5]
    assert (True, False) in ends
    assert (False, True) in ends, "the older form has one flag for both; the limit tells them apart"


def test_spaces_have_the_dtypes_of_what_is_seen():
    env = from_gymnax(Drift(), Params(goal=1.0))
    assert env.observation_space.spaces["place"] == Box(-100, 100, (1,), np.float32)
    assert env.observation_space.spaces["moved"] == env.action_space.__class__(100)
    assert env.action_space == Discrete(2)
    assert env.reset(seed=1)[0] in env.observation_space
    seen, reward, _, _, info = env.step(np.int64(1))
    assert seen in env.observation_space
    assert type(reward) is float
    assert type(info["far"]) is bool
    assert info["steps"].dtype == np.int8


def test_without_a_count_every_end_is_a_termination():
    env = from_gymnax(Endless())
    env.reset(seed=1)
    while not any((ended := env.step(1))[2:4]):
        pass
    assert ended[2:4] == (True, False)


def test_lanes_share_what_was_compiled():
    lanes = [paddock.make("gymnax:CartPole-v1").unwrapped for _ in range(2)]
    assert lanes[0]._functions is lanes[1]._functions


def test_a_state_before_the_first_reset_can_be_saved_too():
    env, other = FromGymnax(Drift()), FromGymnax(Drift())
    env.reset(seed=1)
    env.restore(other.snapshot())
    with pytest.raises(ResetNeeded):
        env.step(0)
    copied = copy.deepcopy(env)
    assert equal(copied.reset(seed=3), env.reset(seed=3))


def test_what_it_can_not_do_is_said():
    with pytest.raises(UnsupportedMode, match="are not drawn"):
        from_gymnax(Drift()).unwrapped.render()
    with pytest.warns(UserWarning, match="render_mode"), pytest.raises(UnsupportedMode, match="are not drawn"):
        paddock.make(TOY, render_mode="rgb_array")
    with pytest.raises(TypeError, match="got dict without reset_env"):
        from_gymnax({})
