"""An adapted environment is a real gymnasium.Env: Gymnasium's checker passes it, trainers run on it, numbers stay."""

import copy
import json
import pickle
import subprocess
import sys
import warnings

import gymnasium
import gymnasium.spaces as theirs
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import paddock
import paddock.spaces as ours
from paddock.adapters.gymnasium import from_gymnasium_space, to_gymnasium_space
from tests.peers import run_with_peer
from tests.spaces.twins import CATALOGUE, same, twin_value
from tests.toys import Counter, Mover

# Those for language models have actions and observations that Gymnasium has no spaces for.
VERSION = tuple(int(part) for part in gymnasium.__version__.split(".")[:2])
BUILT_IN = [id for id in paddock.registry if paddock.registry.is_protected(id) and not id.startswith("paddock/")]


@pytest.mark.slow
@pytest.mark.parametrize("id", BUILT_IN)
def test_gymnasiums_own_check_passes_every_built_in_environment(id):
    env = paddock.to_gymnasium(paddock.make(id))
    assert isinstance(env, gymnasium.Env)
    assert isinstance(env.observation_space, theirs.Space)
    assert isinstance(env.action_space, theirs.Space)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # CartPole's infinite bounds and the like: Gymnasium's own environments warn too
        check_env(env)


@pytest.mark.parametrize("id", BUILT_IN)
def test_trajectories_are_the_environments_own(id):
    ours_, adapted = paddock.make(id), paddock.to_gymnasium(paddock.make(id))
    for seed in (3, None):
        assert same(adapted.reset(seed=seed), ours_.reset(seed=seed))
        ours_.action_space.seed(7)
        ended = False
        for _ in range(50):
            if not ended:
                action = ours_.action_space.sample()
                expected = ours_.step(action)
                assert same(adapted.step(action), expected)
                ended = expected[2] or expected[3]


def test_results_pass_through_uncopied():
    inner = Counter()
    env = paddock.to_gymnasium(inner)
    result = (np.zeros(1), 1.0, False, False, {})
    inner.step = lambda action: result
    assert env.step(0) is result


def test_attributes_stand_for_the_environments_own():
    inner = paddock.make("CartPole-v1", render_mode="rgb_array")
    env = paddock.to_gymnasium(inner)
    env.reset(seed=5)
    assert env.np_random is inner.np_random
    assert env.np_random_seed == 5
    assert env.metadata is inner.metadata
    assert env.render_mode == "rgb_array"
    assert env.render().shape == (400, 600, 3)
    assert env.unwrapped is env
    assert env.env is inner
    assert env.get_wrapper_attr("gravity") == 9.8
    assert env.has_wrapper_attr("gravity")
    assert not env.has_wrapper_attr("antigravity")
    env.set_wrapper_attr("gravity", 1.5)
    assert inner.unwrapped.gravity == 1.5
    env.np_random = np.random.default_rng(9)
    assert inner.np_random.bit_generator.state == np.random.default_rng(9).bit_generator.state
    env.close()


def test_spec_can_be_made_again_by_gymnasium():
    env = paddock.to_gymnasium(paddock.make("Pendulum-v1", g=4.0))
    assert (env.spec.id, env.spec.max_episode_steps) == ("Pendulum-v1", 200)
    again = gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json()), max_episode_steps=3)
    assert again.unwrapped.env.unwrapped.g == 4.0
    assert gymnasium.make(env.spec, g=5.0).unwrapped.env.unwrapped.g == 5.0
    again.reset(seed=1)
    assert [again.step(np.zeros(1, np.float32))[3] for _ in range(3)] == [False, False, True]


def test_time_limit_can_be_lengthened_when_made_again():
    env = gymnasium.make(paddock.to_gymnasium(paddock.make("MountainCar-v0")).spec, max_episode_steps=300)
    env.reset(seed=1)
    assert [env.step(1)[3] for _ in range(300)].index(True) == 299


def test_spec_of_a_class_can_be_made_again_in_this_process(fresh_registry):
    paddock.register("me/Counter-v0", Counter, max_episode_steps=9)
    again = gymnasium.make(paddock.to_gymnasium(paddock.make("me/Counter-v0", goal=3)).spec)
    assert again.unwrapped.env.unwrapped.goal == 3


def test_environment_without_a_spec_has_none():
    assert paddock.to_gymnasium(Mover()).spec is None


def test_validation_stays_paddocks():
    env = paddock.to_gymnasium(paddock.make("CartPole-v1"))
    env.reset(seed=0)
    with pytest.raises(paddock.InvalidAction):
        env.step(2)


def test_copies_go_their_own_way():
    env = paddock.to_gymnasium(paddock.make("CartPole-v1"))
    env.reset(seed=0)
    copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    expected = [env.step(1) for _ in range(5)]
    for other in copies:
        assert same([other.step(1) for _ in range(5)], expected)


def test_gymnasiums_wrappers_and_lanes_take_it():
    env = gymnasium.wrappers.RecordEpisodeStatistics(paddock.to_gymnasium(paddock.make("CartPole-v1")))
    env.reset(seed=0)
    while not (result := env.step(0))[2]:
        pass
    assert result[4]["episode"]["l"] >= 8
    lanes = gymnasium.vector.SyncVectorEnv([lambda: paddock.to_gymnasium(paddock.make("CartPole-v1"))] * 3)
    assert lanes.reset(seed=4)[0].shape == (3, 4)


def test_what_is_no_environment_is_refused():
    with pytest.raises(paddock.errors.WrongClass, match="takes one paddock.Env, got CartPoleVectorEnv"):
        paddock.to_gymnasium(paddock.make_vec("CartPole-v1", num_envs=2))


def test_an_adapted_environment_is_left_as_it_is():
    env = paddock.to_gymnasium(Counter())
    assert paddock.to_gymnasium(env) is env


@pytest.mark.parametrize("name", CATALOGUE)
def test_spaces_are_converted_both_ways(name):
    skip_what_this_version_has_not(name)
    space = CATALOGUE[name]()
    converted = to_gymnasium_space(space)
    assert type(converted).__module__.startswith("gymnasium.spaces")
    back = from_gymnasium_space(converted)
    assert type(back) is type(space)
    space.seed(11), converted.seed(11), back.seed(11)
    for _ in range(3):
        value, their_value, own_value = space.sample(), converted.sample(), back.sample()
        assert same(own_value, value)
        assert twin_value(value) in converted
        assert their_value in converted
        # Gymnasium's second graph repeats draws of the first, and before 1.1 other spaces drew otherwise.
        if "graph" not in name and VERSION > (1, 0):
            assert same(their_value, value)


def skip_what_this_version_has_not(name):
    """This file runs with older versions too: tests/families/test_gymnasium_versions.py."""
    if name in ("graph-dict", "graph-text") and VERSION < (1, 4):
        with pytest.raises(paddock.errors.CustomSpaceError, match="This version of Gymnasium has no such graphs"):
            to_gymnasium_space(CATALOGUE[name]())
        pytest.skip("nodes were Box or Discrete before 1.4: runs with the 1.4 of the test extra")
    if VERSION < (1, 2) and (name.startswith("discrete-") or name == "one-of-small") and _dtypes(CATALOGUE[name]()):
        pytest.skip("all Discrete were int64 before 1.2: runs with the 1.4 of the test extra")


def _dtypes(space):
    return any(getattr(part, "dtype", np.int64) != np.int64 for part in getattr(space, "spaces", [space]))


@pytest.mark.parametrize("name", CATALOGUE)
def test_conversion_neither_seeds_nor_shares_a_stream(name):
    skip_what_this_version_has_not(name)
    space, untouched = CATALOGUE[name](), CATALOGUE[name]()
    space.seed(3), untouched.seed(3)
    converted = to_gymnasium_space(space)
    converted.seed(99), converted.sample()
    from_gymnasium_space(converted).sample()
    assert same(space.sample(), untouched.sample())


def test_unbounded_integers_stay_unbounded():
    space = ours.Box([-np.inf, -(2**60), 5], [np.inf, np.inf, 2**60], dtype=np.int64)
    converted = to_gymnasium_space(space)
    assert converted.bounded_below.tolist() == [False, True, True]
    assert converted.low.tolist() == space.low.tolist()
    assert from_gymnasium_space(converted) == space


def test_space_of_ones_own_is_refused_by_name():
    class Odd(ours.Space):
        pass

    with pytest.raises(paddock.errors.CustomSpaceError, match="Odd has no counterpart"):
        to_gymnasium_space(Odd())

    class Strange(theirs.Space):
        pass

    with pytest.raises(paddock.errors.CustomSpaceError, match="Strange has no counterpart"):
        from_gymnasium_space(Strange())


class GraphEnv(paddock.Env):
    observation_space = ours.Dict(graph=ours.Graph(ours.Box(0, 1, (2,)), None), pair=ours.Tuple([ours.Discrete(2)] * 2))
    action_space = ours.Graph(ours.Discrete(3), ours.Discrete(2))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert isinstance(action, ours.GraphInstance)
        return self.observation_space.sample(), 0.0, False, False, {}


def test_graphs_arrive_as_the_others_class():
    env = paddock.to_gymnasium(GraphEnv())
    observation, _ = env.reset(seed=1)
    assert observation in env.observation_space
    assert isinstance(observation["graph"], theirs.GraphInstance)
    env.action_space.seed(1)
    assert env.step(env.action_space.sample())[0] in env.observation_space


@pytest.mark.process
def test_without_gymnasium_the_error_names_the_command():
    program = """
import sys, json
sys.modules["gymnasium"] = None
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "gymnasium" else found(name, package)
import paddock
try:
    paddock.to_gymnasium(paddock.make("CartPole-v1"))
except paddock.errors.DependencyNotInstalled as error:
    print(json.dumps(str(error)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout).endswith("pip install gymnasium")


@pytest.mark.peers
@pytest.mark.full
def test_stable_baselines3_checks_and_trains_on_it():
    answer = run_with_peer(
        "sb3",
        """
        import json
        import gymnasium, torch
        torch.set_num_threads(1)
        from stable_baselines3 import PPO
        from stable_baselines3.common.env_checker import check_env
        import paddock

        for id in ("CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Acrobot-v1"):
            check_env(paddock.to_gymnasium(paddock.make(id)))
        env = paddock.to_gymnasium(paddock.make("CartPole-v1"))
        model = PPO("MlpPolicy", env, n_steps=256, seed=1, device="cpu").learn(2_000)
        print(json.dumps([model.num_timesteps, len(model.ep_info_buffer), isinstance(env, gymnasium.Env)]))
        """,
    )
    assert answer[0] >= 2_000
    assert answer[1] > 10
    assert answer[2] is True
