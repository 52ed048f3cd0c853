"""Run by test_other_libraries.py where the packages are: one environment of each library, everywhere, as its own."""

import copy
import os
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import quote

import gymnax
import numpy as np
import pytest
from dm_control import suite
from gymnax.wrappers.gym import GymnaxToGymWrapper
from procgen import ProcgenGym3Env

import paddock
from paddock.errors import InvalidSnapshot
from paddock.testing import check_env
from paddock.wrappers import TimeAwareObservation, TransformReward
from tests.families.playing import actions, check_guard_of_three_steps, equal, going_on, lane_of, played
from tests.families.toy_functional import played_by_functions
from tests.serving import ROOT, serving

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def native_dm_control(seed, chosen):
    env = suite.load("cartpole", "swingup", task_kwargs={"random": seed, "time_limit": 0.3})
    yield env.reset().observation, {}
    for action in chosen:
        step = env.step(action)
        yield step.observation, step.reward, False, step.last(), {"discount": 1.0}
        if step.last():
            yield env.reset().observation, {}


def native_procgen(seed, chosen):
    env = ProcgenGym3Env(1, "fruitbot", rand_seed=seed)
    seen = env.observe()[1]["rgb"][0]
    yield {"rgb": seen}, env.get_info()[0]
    for action in chosen:
        env.act(np.array([action]))
        (reward,), batch, (first,) = env.observe()
        after = batch["rgb"][0]
        yield {"rgb": seen if first else after}, reward, first, False, env.get_info()[0]
        if first:
            yield {"rgb": after}, env.get_info()[0]
        seen = after


def native_gymnax(seed, chosen):
    """What gymnax's own adapter computes, without its autoreset."""
    native = adapter_of_gymnax()
    yield native.reset(seed=seed)
    for action in chosen:
        _, reward, terminated, truncated, info = native.step(action)
        told = {"discount": float(info["discount"])}
        yield np.asarray(info["final_observation"]), float(reward), bool(terminated), bool(truncated), told
        if terminated or truncated:
            yield native.reset()


@cache
def adapter_of_gymnax():
    """One for all: another would be compiled anew. A seed sets it back."""
    env, params = gymnax.make("CartPole-v1")
    return GymnaxToGymWrapper(env, params.replace(max_steps_in_episode=25))


@dataclass(frozen=True)
class Library:
    target: str
    native: object
    steps: int = 100
    arguments: dict = field(default_factory=dict)

    def make(self, **options):
        return paddock.make(self.target, **self.arguments, **options)


DM_CONTROL = Library("dm_control:cartpole/swingup", native_dm_control, arguments={"task_kwargs": {"time_limit": 0.3}})
PROCGEN = Library("gym3:procgen/fruitbot", native_procgen, 200)
GYMNAX = Library("gymnax:CartPole-v1", native_gymnax, arguments={"params": {"max_steps_in_episode": 25}})


NAMES = ["dm_control", "gym3", "gymnax"]
every_library = pytest.mark.parametrize("library", [DM_CONTROL, PROCGEN, GYMNAX], ids=NAMES)
FUNCTIONAL = Library("gymnax:tests.families.toy_functional:drift", played_by_functions)  # without gymnax: sooner there
# Each worker loads Procgen's pictures, or imports gymnax and compiles: seconds.
every_library_in_time = pytest.mark.parametrize(
    "library", [DM_CONTROL, *(pytest.param(one, marks=pytest.mark.full) for one in (PROCGEN, GYMNAX))], ids=NAMES
)


@every_library
def test_trajectories_are_the_librarys_own(library):
    with library.make() as env:
        chosen = actions(env.action_space, library.steps)
        found, expected = played(env, 5, chosen), list(library.native(5, chosen))
        assert sum(len(one) == 2 for one in expected) > 2, "some episodes end"
        assert equal(found, expected)
        assert equal(played(env, 5, chosen[:20]), list(library.native(5, chosen[:20])))
        assert all(one[0] in env.observation_space for one in found)


@every_library
def test_the_guard_orders_limits_and_validates(library):
    env = library.make(max_episode_steps=3)
    check_guard_of_three_steps(env)
    first = env.reset()[0]
    assert first in env.observation_space
    env.close(), env.close()


@pytest.mark.filterwarnings("ignore:A Box observation space")  # without bounds, as the libraries' own
@every_library
def test_the_checker_passes(library):
    check_env(library.make(), skip_render_check=True)


@every_library
def test_wrappers_go_around_and_a_spec_makes_it_again(library):
    wrappers = [TimeAwareObservation, lambda env: TransformReward(env, lambda reward: reward + 10)]
    env = library.make(wrappers=wrappers, max_episode_steps=9)
    env.reset(seed=1)
    seen, reward, *_ = env.step(actions(env.action_space, 1)[0])
    assert reward >= 9
    assert seen in env.observation_space
    again = paddock.make(paddock.EnvSpec.from_json(library.make().spec.to_json()))
    chosen = actions(again.action_space, 10)
    assert equal(played(again, 5, chosen), list(library.native(5, chosen)))


@every_library
def test_a_large_seed_is_a_seed(library):
    env = library.make()
    chosen = actions(env.action_space, 5)
    large = played(env, (1 << 60) + 1, chosen)
    assert equal(large, played(env, (1 << 60) + 1, chosen))
    assert not equal(large, played(env, (1 << 60) + 2, chosen))


def check_lanes(library, isolation):
    with library.make(num_envs=2, isolation=isolation) as lanes:
        chosen = actions(lanes.single_action_space, 8)
        results = [lanes.reset(seed=5)[0]]
        results += [lanes.step(np.stack([action] * 2)) for action in chosen]
    for lane in range(2):
        expected = list(library.native(5 + lane, chosen))
        assert equal(lane_of(results[0], lane), expected[0][0])
        for batch, one in zip(results[1:], expected[1:], strict=True):
            assert equal(lane_of(batch[0], lane), one[0])
            assert [part[lane] for part in batch[1:4]] == list(one[1:4])


@every_library
def test_lanes_are_single_environments(library):
    check_lanes(library, None)


@pytest.mark.parametrize("isolation", ["process", "sandbox"])
@every_library_in_time
def test_lanes_in_workers_are_single_environments(library, isolation):
    check_lanes(library, isolation)


@pytest.mark.parametrize(
    "library",
    [DM_CONTROL, PROCGEN, FUNCTIONAL, pytest.param(GYMNAX, marks=pytest.mark.full)],
    ids=["dm_control", "gym3", "functional", "gymnax"],
)
def test_behind_a_wall_it_is_the_same(library):
    with library.make(isolation="sandbox") as env:
        chosen = actions(env.action_space, 12)
        assert equal(played(env, 5, chosen), list(library.native(5, chosen)))
        saved = env.snapshot()
        expected = going_on(env, chosen)
        env.restore(saved)
        assert equal(going_on(env, chosen), expected)


@pytest.mark.parametrize(
    "libraries",
    [[DM_CONTROL, PROCGEN, FUNCTIONAL], pytest.param([GYMNAX], marks=pytest.mark.full)],
    ids=["three", "gymnax"],
)
def test_a_server_has_them_too(libraries, tmp_path):
    places = {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    with serving(*(one.target for one in libraries), cwd=tmp_path, env=places) as server:
        for id, library in zip(server.environments, libraries, strict=True):
            assert library.target.endswith(f":{id}")
            # Without arguments, which end episodes sooner: a server takes from clients only those of the spec.
            with paddock.make(server.with_token(f"/{quote(id, safe='')}")) as env:
                chosen = actions(env.action_space, 5)
                assert equal(played(env, 5, chosen), list(library.native(5, chosen)))
                assert env.state().step_count == 5


@every_library
def test_snapshots_and_copies_go_on_exactly(library):
    env, other = library.make(), library.make()
    env.reset(seed=3)
    other.reset(seed=99)
    for one in (env, other):
        going_on(one, actions(one.action_space, 20))
    for _ in range(3):
        saved, copied = env.snapshot(), copy.deepcopy(env)
        chosen = [env.action_space.sample() for _ in range(library.steps // 2)]
        expected = going_on(env, chosen)
        other.restore(saved)
        env.restore(saved)
        for one in (env, other, copied):
            assert equal(going_on(one, chosen), expected)
    assert equal(copied.reset(), env.reset())


@every_library
def test_a_snapshot_at_the_end_of_an_episode_goes_on_with_the_next(library):
    env, other = library.make(), library.make()
    env.reset(seed=3)
    other.reset(seed=4)
    while not any(env.step(env.action_space.sample())[2:4]):
        pass
    other.restore(env.snapshot())
    with pytest.raises(paddock.errors.ResetNeeded):
        other.step(other.action_space.sample())
    assert equal(other.reset(), env.reset())


@every_library
def test_no_broken_snapshot_is_taken(library):
    env = library.make()
    env.reset(seed=1)
    env.step(env.action_space.sample())
    good = env.snapshot()
    random = np.random.default_rng(4)
    for _ in range(40):
        with pytest.raises(InvalidSnapshot):
            env.restore(good[: random.integers(len(good) - 1)])
    for other in (DM_CONTROL, PROCGEN, GYMNAX):
        if other is not library:
            wrong = other.make()
            wrong.reset(seed=1)
            with pytest.raises(InvalidSnapshot):
                env.restore(wrong.snapshot())
    assert env.snapshot() == good
