"""FuncEnv and its two JAX environments: the rules by a NumPy stand-in for JAX, and JAX itself in the `full` tests."""

import inspect
import sys

import gymnasium.experimental.functional as theirs
import numpy as np
import pytest

import paddock
import paddock.gym as gym
from paddock.gym.envs.functional_jax_env import FunctionalJaxEnv, FunctionalJaxVectorEnv
from paddock.gym.experimental.functional import FuncEnv
from paddock.spaces import iterate
from tests.gym import numpy_jax
from tests.gym.drifters import Drifter, stubborn_lanes
from tests.peers import run_with_peer
from tests.spaces.twins import same


@pytest.fixture
def stand_in(monkeypatch):
    return numpy_jax.install(monkeypatch)


def drifter(**options):
    return Drifter(numpy_jax.uniform, np, options)


def test_methods_and_attributes_are_gymnasiums():
    wanted = {name for name in dir(theirs.FuncEnv) if not name.startswith("_")}
    assert wanted <= {name for name in dir(FuncEnv) if not name.startswith("_")}
    assert set(theirs.FuncEnv.__annotations__) <= set(FuncEnv.__annotations__)
    assert gym.experimental.functional.FuncEnv is FuncEnv


def test_constructor_signatures_are_gymnasiums():
    single = ["func_env", "metadata", "render_mode", "spec"]
    assert list(inspect.signature(FunctionalJaxEnv).parameters) == single
    lanes = ["func_env", "num_envs", "max_episode_steps", "metadata", "render_mode", "spec"]
    assert list(inspect.signature(FunctionalJaxVectorEnv).parameters) == lanes
    assert inspect.signature(FunctionalJaxVectorEnv).parameters["max_episode_steps"].default == 0


def test_options_become_attributes_and_params_are_asked_for():
    class WithParams(Drifter):
        def get_default_params(self, **kwargs):
            return {"goal": self.goal}

    env = WithParams(numpy_jax.uniform, np, {"goal": 9.0})
    assert env.default_params == {"goal": 9.0}
    assert drifter().default_params is None


@pytest.mark.parametrize("name", ["initial", "transition", "observation", "reward", "terminal", "render_image"])
def test_a_missing_function_is_named(name):
    class Empty(FuncEnv):
        pass

    arguments = {"initial": 1, "transition": 3, "observation": 2, "reward": 4, "terminal": 2, "render_image": 2}
    with pytest.raises(NotImplementedError, match=rf"Empty does not define {name}\(\)"):
        getattr(Empty(), name)(*[None] * arguments[name])
    assert Empty().state_info(None) == Empty().transition_info(None, None, None) == {}


def test_transform_replaces_every_function_of_this_object_alone():
    env, untouched = drifter(), drifter()
    env.transform(numpy_jax.vmap)
    keys = numpy_jax.split(numpy_jax._key(5), 3)
    lanes = env.initial(keys)
    moved = env.transition(lanes, np.array([0, 1, 2]), keys)
    for lane in range(3):
        one = untouched.initial(keys[lane])
        assert same(lanes.at[lane], one.at)
        next_one = untouched.transition(one, lane, keys[lane])
        assert same(moved.at[lane], next_one.at)
        assert env.reward(lanes, np.arange(3), moved, keys)[lane] == untouched.reward(one, lane, next_one, keys[lane])
        assert env.transition_info(lanes, np.arange(3), moved)["age"][lane] == 1
    assert env.step_info(lanes, np.arange(3), moved)["age"].tolist() == [1, 1, 1]


def test_without_jax_the_error_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    for make in (lambda: FunctionalJaxEnv(drifter()), lambda: FunctionalJaxVectorEnv(drifter(), 2)):
        with pytest.raises(paddock.errors.DependencyNotInstalled, match="pip install jax$"):
            make()


def test_one_lane_follows_the_functions(stand_in):
    env = FunctionalJaxEnv(drifter())
    with pytest.raises(paddock.ResetNeeded):
        env.step(1)
    first, info = env.reset(seed=3)
    again, _ = FunctionalJaxEnv(drifter()).reset(seed=3)
    assert same(first, again)
    assert info == {"age": 0.0}
    total, ended, steps = first[0], False, 0
    while not ended:
        observation, reward, ended, truncated, info = env.step(1)
        steps, total = steps + 1, total + reward
        assert type(reward) is float
        assert type(ended) is bool
        assert truncated is False
        assert info["age"] == steps
    assert observation[0] == pytest.approx(total)
    assert total > 4


def test_a_lane_that_begins_anew_does_not_freeze_the_others(stand_in):
    assert stubborn_lanes(FunctionalJaxVectorEnv(drifter(), 6), 60) > 40


def test_time_limit_truncates_each_lane_by_its_own_count(stand_in):
    assert stubborn_lanes(FunctionalJaxVectorEnv(drifter(goal=7.0), 5, max_episode_steps=6), 40) > 20


def test_reset_forgets_which_lanes_had_ended(stand_in):
    env = FunctionalJaxVectorEnv(drifter(), 3, max_episode_steps=1)
    env.reset(seed=1)
    assert env.step(np.zeros(3, int))[3].all()
    start, _ = env.reset(seed=1)
    assert (env.step(np.ones(3, int))[0][:, 0] >= start[:, 0] + 1).all()


def test_lanes_of_one_functional_environment_leave_it_usable(stand_in):
    shared = drifter()
    lanes, one = FunctionalJaxVectorEnv(shared, 2), FunctionalJaxEnv(shared)
    assert lanes.reset(seed=0)[0].shape == (2, 2)
    assert one.reset(seed=0)[0].shape == (2,)


def test_wrong_number_of_actions_moves_no_lane(stand_in):
    env = FunctionalJaxVectorEnv(drifter(), 3)
    with pytest.raises(paddock.ResetNeeded):
        env.step(np.zeros(3, int))
    env.reset(seed=0)
    before = env.state
    with pytest.raises(paddock.InvalidAction, match="2 actions for 3 lanes"):
        env.step(np.zeros(2, int))
    assert env.state is before


def test_pictures_of_one_lane_and_of_each_lane(stand_in):
    functions = drifter()
    env = FunctionalJaxEnv(functions, render_mode="rgb_array")
    env.reset(seed=0)
    env.step(0)
    assert env.render().max() == 1
    env.close(), env.close()
    assert functions.closed_with == 1
    lanes = FunctionalJaxVectorEnv(functions, 3, render_mode="rgb_array")
    lanes.reset(seed=0)
    assert [frame.shape for frame in lanes.render()] == [(2, 2, 3)] * 3
    lanes.close()
    assert lanes.closed
    with pytest.raises(paddock.UnsupportedMode):
        silent = FunctionalJaxEnv(functions)
        silent.reset(seed=0)
        silent.render()


@pytest.mark.parametrize(
    "id",
    [
        "phys2d/CartPole-v0",
        "phys2d/CartPole-v1",
        "phys2d/Pendulum-v0",
        "tabular/Blackjack-v0",
        "tabular/CliffWalking-v0",
    ],
)
def test_ids_of_gymnasiums_jax_environments_are_our_kernels(id):
    import gymnasium

    expected, found = gymnasium.spec(id), paddock.spec(id)
    for field in ("max_episode_steps", "reward_threshold", "nondeterministic", "order_enforce"):
        assert getattr(found, field) == getattr(expected, field)
    env, lanes = paddock.make(id), paddock.make_vec(id, num_envs=3)
    first, _ = env.reset(seed=2)
    assert hasattr(env.unwrapped, "kernel")
    assert type(lanes).__module__.startswith("paddock.envs.")
    assert np.array_equal(next(iter(iterate(lanes.observation_space, lanes.reset(seed=2)[0]))), first)
    env.step(env.action_space.sample())
    lanes.step(lanes.action_space.sample())


@pytest.mark.peers
@pytest.mark.full
def test_with_jax_itself_lanes_move_on_and_numbers_are_gymnasiums_until_a_lane_ends():
    answer = run_with_peer(
        "jax",
        """
        import json
        import jax, jax.numpy as jnp, numpy as np
        from gymnasium.envs import functional_jax_env as theirs
        from paddock.gym.envs import functional_jax_env as ours
        from tests.gym.drifters import Drifter, stubborn_lanes

        def uniform(key, low, high):
            return jax.random.uniform(key, minval=low, maxval=high)

        moved = stubborn_lanes(ours.FunctionalJaxVectorEnv(Drifter(uniform, jnp), 6), 60)
        stubborn_lanes(ours.FunctionalJaxVectorEnv(Drifter(uniform, jnp, {"goal": 7.0}), 5, max_episode_steps=6), 40)

        class Theirs(Drifter):  # their lanes want a state with `.at[lane].set`, and their spaces
            import gymnasium.spaces as spaces
            observation_space, action_space = spaces.Box(-np.inf, np.inf, (2,)), spaces.Discrete(3)

        pairs = [(ours.FunctionalJaxEnv(Drifter(uniform, jnp)), theirs.FunctionalJaxEnv(Theirs(uniform, jnp)), 1),
                 (ours.FunctionalJaxVectorEnv(Drifter(uniform, jnp, {"goal": 99.0}), 4),
                  theirs.FunctionalJaxVectorEnv(Theirs(uniform, jnp, {"goal": 99.0}), 4), jnp.arange(4) % 3)]
        equal = []
        for mine, other, action in pairs:
            equal.append(np.array_equal(mine.reset(seed=5)[0], other.reset(seed=5)[0]))
            for _ in range(3):
                a, b = mine.step(action), other.step(action)
                equal.append(all(np.array_equal(x, y) for x, y in zip(a[:4], b[:4])))
        jitted = Drifter(uniform, jnp)
        jitted.transform(jax.jit)
        stubborn_lanes(ours.FunctionalJaxVectorEnv(jitted, 3), 20)
        print(json.dumps([moved, all(equal), len(equal)]))
        """,
    )
    assert answer[0] > 40
    assert answer[1:] == [True, 8]
