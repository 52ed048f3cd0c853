"""`gym.make`, `gym.make_vec` and `spec.make` take what Gymnasium's take, and give what its programs look for."""

import json

import gymnasium
import numpy as np
import pytest

import paddock
import paddock.gym as gym
from tests.toys import Counter

pytestmark = pytest.mark.usefixtures("fresh_registry")
BUILT_IN = [id for id, spec in paddock.registry.items() if spec.vector_entry_point is not None]


@pytest.mark.parametrize("id", [id for id in BUILT_IN if id in gymnasium.registry and "/" not in id])
def test_lanes_are_of_the_kind_that_gymnasium_makes(id):
    ours, theirs = gym.make_vec(id, 2), gymnasium.make_vec(id, 2)
    assert isinstance(ours, gym.vector.SyncVectorEnv) == isinstance(theirs, gymnasium.vector.SyncVectorEnv)
    assert hasattr(ours, "envs") == hasattr(theirs, "envs")
    if hasattr(theirs, "envs"):
        for lanes in (ours, theirs):
            lanes.set_attr("note", [1, 2])
            assert lanes.get_attr("note") == (1, 2)
    ours.close(), theirs.close()


@pytest.mark.filterwarnings("ignore:.*out of date")
@pytest.mark.parametrize("id", [*BUILT_IN, "me/Counter-v0"])
@pytest.mark.parametrize(
    "how",
    [{"wrappers": [gym.wrappers.RecordEpisodeStatistics]}, {"vector_kwargs": {"autoreset_mode": "SameStep"}}],
    ids=str,
)
def test_every_id_takes_wrappers_and_vector_kwargs(id, how):
    gym.register("me/Counter-v0", Counter)
    with gym.make_vec(id, 2, **how) as lanes:
        assert isinstance(lanes, gym.vector.SyncVectorEnv)
        for wrapper in how.get("wrappers", ()):
            assert all(isinstance(env, wrapper) for env in lanes.envs)
        if "vector_kwargs" in how:
            assert lanes.metadata["autoreset_mode"] is gym.vector.AutoresetMode.SAME_STEP


def test_the_lanes_of_any_built_in_id_step_together_if_asked():
    with gym.make_vec("Pendulum-v1", 2, vectorization_mode="vector_entry_point") as lanes:
        assert not hasattr(lanes, "envs")


@pytest.mark.parametrize("library", [gym, gymnasium], ids=["ours", "theirs"])
def test_a_spec_makes_with_all_that_make_takes(library):
    env = library.spec("Pendulum-v1").make(
        max_episode_steps=3, disable_env_checker=True, render_mode="rgb_array", g=9.0
    )
    assert (env.spec.max_episode_steps, env.spec.disable_env_checker) == (3, True)
    assert (env.render_mode, env.unwrapped.g) == ("rgb_array", 9.0)
    assert library.spec("Pendulum-v1").make(disable_env_checker=False).spec.disable_env_checker is False


@pytest.mark.parametrize("library", [gym, gymnasium], ids=["ours", "theirs"])
@pytest.mark.parametrize(
    "id", ["CartPole-v1", "MountainCar-v0", "Acrobot-v1", "FrozenLake-v1", "Taxi-v4", "Blackjack-v1"]
)
@pytest.mark.parametrize("kind", [np.int64, np.int32])
def test_flags_are_pythons_whatever_integer_the_action_is(library, id, kind):
    env = library.make(id)
    env.reset(seed=0)
    for _ in range(3):
        _, _, terminated, truncated, _ = env.step(kind(0))
        assert (type(terminated), type(truncated)) == (bool, bool)
        json.dumps([terminated, truncated])
        if terminated:
            env.reset(seed=1)


@pytest.mark.parametrize(
    "id", ["CartPole-v1", "MountainCar-v0", "FrozenLake-v1", "Taxi-v4", "CliffWalking-v1", "Blackjack-v1"]
)
@pytest.mark.parametrize("action", [99, -1])
def test_an_action_out_of_range_is_refused_without_a_guard_too(id, action):
    for library in (gym, gymnasium):
        bare = library.make(id).unwrapped
        bare.reset(seed=0)
        with pytest.raises((AssertionError, KeyError)):
            bare.step(action)


@pytest.mark.parametrize("library", [gym, gymnasium], ids=["ours", "theirs"])
def test_a_window_for_an_environment_without_render_mode_is_an_error_of_the_libraries(library):
    class Bare(library.Env):
        metadata = {"render_modes": ["rgb_array"]}

        def __init__(self):
            self.observation_space = self.action_space = library.spaces.Discrete(2)

    library.register("me/Bare-v0", Bare)
    with pytest.raises(library.error.Error), pytest.warns(UserWarning, match="human"):
        library.make("me/Bare-v0", render_mode="human")
    library.registry.pop("me/Bare-v0")


@pytest.mark.parametrize("library", [gym, gymnasium], ids=["ours", "theirs"])
def test_errors_of_lanes_are_what_programs_catch_in_gymnasium(library):
    with pytest.raises(RuntimeError):
        library.vector.SyncVectorEnv([lambda: library.make("CartPole-v1"), lambda: library.make("MountainCar-v0")])
    lanes = library.vector.SyncVectorEnv([lambda: library.make("CartPole-v1")] * 2)
    lanes.reset()
    for actions in ([0], [0, 1, 0]):
        with pytest.raises(ValueError):
            lanes.step(actions)
