"""Run by test_old_gym.py where an old Gym is, 0.21 and 0.26: the same numbers as its own, everywhere."""

import copy
from urllib.parse import quote

import numpy as np
import pytest

import gym
import paddock
from paddock.errors import DependencyNotInstalled, PaddockError, SnapshotUnsupported, UnsupportedMode, WrongClass
from paddock.sources import from_gym
from paddock.testing import check_env
from tests.families.playing import (
    actions,
    check_guard_of_three_steps,
    equal,
    going_on,
    played,
    played_in_lanes,
    played_with_pauses,
    same_numbers,
)
from tests.families.relics import Relic, Stubborn
from tests.serving import serving

IDS = ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Blackjack-v1", "MountainCarContinuous-v0", "Acrobot-v1"]
RELIC = "tests.families.relics:Relic-v0"
OLD = gym.__version__ == "0.21.0"
APART = [RELIC] if OLD else ["CartPole-v1"]  # one of four values a step, one of five

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*Box obs", "ignore:.*obs returned")


class Native:
    """Gym's own environment with its own limit, seen as five values a step."""

    def __init__(self, id):
        self.env = gym.make(id) if not id.endswith("Relic-v0") else gym.wrappers.TimeLimit(Relic(5), 9)

    def reset(self, seed=None):
        if OLD or isinstance(self.env.unwrapped, Relic):
            if seed is not None:
                self.env.seed(seed)
            env = self.env if OLD else self.env.unwrapped
            if not OLD:
                self.env._elapsed_steps = 0
            return env.reset(), {}
        result = self.env.reset(seed=seed)
        return result if gym.__version__ >= "0.26" else (result, {})

    def step(self, action):
        if not OLD and isinstance(self.env.unwrapped, Relic):  # 0.26 itself can not step it
            seen, reward, done, info = self.env.unwrapped.step(action)
            return seen, reward, done, info["count"] == 9, info
        result = self.env.step(action)
        if len(result) == 5:
            return result
        seen, reward, done, info = result
        limited = info.get("TimeLimit.truncated", False)
        return seen, reward, done and not limited, limited, info


@pytest.mark.parametrize("id", [*IDS, RELIC])
def test_trajectories_are_the_librarys_own(id):
    env = paddock.make(f"gym:{id}")
    chosen = actions(env.action_space, 250)
    results = played(env, 5, chosen)
    assert same_numbers(results, played(Native(id), 5, chosen))
    assert env.unwrapped.inner is env.unwrapped.inner.unwrapped  # no limit, order check or checker of theirs
    assert env.observation_space.contains(results[0][0])
    env.close(), env.close()


@pytest.mark.parametrize("id", ["CartPole-v1", RELIC])
def test_the_guard_alone_limits_orders_and_validates(id):
    check_guard_of_three_steps(paddock.make(f"gym:{id}", max_episode_steps=3))


def test_a_limit_of_gyms_own_truncates():
    env = from_gym(gym.wrappers.TimeLimit(gym.make("CartPole-v1").unwrapped, 4))
    env.reset(seed=1)
    assert [env.step(0)[2:4] for _ in range(4)] == [(False, False)] * 3 + [(False, True)]
    env = from_gym(Relic())
    env.reset(seed=1)
    ends = [env.step((0, np.array([0, 1])))[2:4] for _ in range(20)]
    assert ends == [(False, False)] * 19 + [(True, False)]


def test_results_of_five_pass_through_as_they_are():
    class Newer(Relic):
        def step(self, action):
            seen, reward, done, info = super().step(action)
            self.last = (seen, reward, done, False, info)
            return self.last

    newer = Newer()
    env = from_gym(newer)
    env.reset(seed=1)
    for action in actions(env.action_space, 3):
        assert env.step(action) is newer.last
    assert env.unwrapped.step == newer.step  # nothing in between


def test_a_wrapper_that_takes_no_seed_is_seeded_all_the_same():
    bare, wrapped = from_gym(Relic()), from_gym(Stubborn(Relic()))
    assert equal(bare.reset(seed=7), wrapped.reset(seed=7))
    assert not equal(bare.reset(seed=7), bare.reset(seed=8))


def test_ids_versions_and_arguments():
    env = paddock.make("gym:tests.families.relics:Relic-v0", size=8)
    assert (env.spec.id, env.spec.max_episode_steps, env.spec.kwargs) == (RELIC, 9, {"size": 8})
    assert env.unwrapped.size == env.get_wrapper_attr("size") == 8
    again = paddock.make(env.spec)
    assert again.unwrapped.size == 8
    assert paddock.make("gym:tests.families.relics:Relic").spec.id == "tests.families.relics:Relic-v3"
    assert from_gym(gym.make("CartPole-v1")).spec.id == "CartPole-v1"
    with pytest.raises(PaddockError, match="Gym: "):
        paddock.make("gym:CartPoole-v1")
    with pytest.raises(DependencyNotInstalled, match="no_such_module"):
        paddock.make("gym:no_such_module:Relic-v0")
    with pytest.raises(WrongClass, match="from_gym"):
        from_gym(3)


@pytest.mark.parametrize(("mode", "picture"), [("rgb_array", np.zeros((2, 3, 3), np.uint8)), ("ansi", "at 0")])
def test_a_mode_that_render_takes(mode, picture):
    made = paddock.make(f"gym:{RELIC}", render_mode=mode)
    held = from_gym(Relic(), render_mode=mode)
    for env in (made, held):
        env.reset(seed=1)
        assert env.render_mode == mode
        assert equal(env.render(), picture)
        assert (env.metadata["render_modes"], env.metadata["render_fps"]) == (["human", "rgb_array", "ansi"], 7)


def test_an_old_environment_shows_itself_to_people():
    relic = Relic()
    env = from_gym(relic, render_mode="human")
    env.reset(seed=1)
    for action in actions(env.action_space, 2):
        env.step(action)
    assert relic.shown == ["human"] * 3


@pytest.mark.skipif(OLD, reason="0.21 draws by pyglet in a window; runs with gym 0.26, peer gym26")
def test_a_mode_that_the_environment_is_made_with():
    env, native = (
        paddock.make("gym:CartPole-v1", render_mode="rgb_array"),
        gym.make("CartPole-v1", render_mode="rgb_array"),
    )
    env.reset(seed=1), native.reset(seed=1)
    assert equal(env.render(), native.render())
    with pytest.raises(UnsupportedMode, match="keeps it"):
        from_gym(native, render_mode="human")


@pytest.mark.parametrize("id", ["CartPole-v1", "Blackjack-v1", RELIC])
def test_a_copy_goes_on_from_where_it_is(id):
    env = paddock.make(f"gym:{id}")
    env.reset(seed=3)
    chosen = actions(env.action_space, 12)
    going_on(env, chosen[:2])
    other = copy.deepcopy(env)
    assert same_numbers(going_on(other, chosen), going_on(env, chosen))
    assert other.unwrapped.inner is not env.unwrapped.inner
    with pytest.raises(SnapshotUnsupported, match=f"{id} can't save its state"):
        env.snapshot()


@pytest.mark.filterwarnings("ignore")  # that they have a seed()
@pytest.mark.parametrize("id", ["FrozenLake-v1", RELIC])
def test_the_checker_passes(id):
    check_env(paddock.make(f"gym:{id}"), skip_render_check=OLD)


@pytest.mark.parametrize("kind", ["loop", "process", "sandbox"])
@pytest.mark.parametrize("id", APART)
def test_lanes_are_single_environments(id, kind):
    with paddock.make(f"gym:{id}", num_envs=2, isolation=None if kind == "loop" else kind) as lanes:
        chosen = actions(lanes.single_action_space, 25)
        for lane, results in enumerate(played_in_lanes(lanes, 5, chosen)):
            assert same_numbers(results, played_with_pauses(Native(id), 5 + lane, chosen))


@pytest.mark.parametrize("id", APART)
def test_behind_a_wall_it_is_the_same(id):
    with paddock.make(f"gym:{id}", isolation="sandbox") as env:
        chosen = actions(env.action_space, 15)
        assert same_numbers(played(env, 5, chosen), played(Native(id), 5, chosen))


def test_a_server_has_them_too(tmp_path):
    with serving("gym:CartPole-v1", cwd=tmp_path) as server:
        for id in server.environments:
            with paddock.make(server.with_token(f"/{quote(id, safe='')}")) as env:
                chosen = actions(env.action_space, 30)
                assert same_numbers(played(env, 5, chosen), played(Native("CartPole-v1"), 5, chosen))
