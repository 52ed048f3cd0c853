"""`gym.registry` and `gym.spec`: paddock's ids, and Gymnasium's where that is installed."""

import subprocess
import sys

import gymnasium
import pytest

import paddock
import paddock.gym as gym
from paddock.errors import DependencyNotInstalled, NamespaceNotFound, RegistryConflict
from paddock.sources.families import is_paddocks
from tests.toys import Counter

pytestmark = pytest.mark.usefixtures("fresh_registry")


@pytest.fixture
def mine():
    """An id that a script has registered in gymnasium."""

    class Mine(gymnasium.Env):
        observation_space = gymnasium.spaces.Discrete(3)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            return 1, 0.0, False, False, {}

    gymnasium.register("mine/G-v0", Mine, max_episode_steps=4)
    yield "mine/G-v0"
    del gymnasium.registry["mine/G-v0"]


def test_ids_of_gymnasiums_families_are_registered():
    for id in ("LunarLander-v3", "Ant-v5", "CarRacing-v3"):
        theirs = gymnasium.spec(id)
        for ours in (gym.spec(id), gym.registry[id], gym.registry.get(id)):
            assert (ours.id, ours.max_episode_steps, ours.kwargs) == (id, theirs.max_episode_steps, theirs.kwargs)
            assert ours is gym.spec(id)
        assert id in gym.registry
        assert id in set(gym.registry)
        assert id in gym.pprint_registry(disable_print=True)
        assert id not in paddock.registry
    theirs = {id for id, one in gymnasium.registry.items() if not is_paddocks(one)}
    assert theirs <= set(gym.registry)
    assert len(gym.registry) == len(list(gym.registry)) == len(gym.registry.copy())


def test_a_field_set_on_the_spec_of_another_library_takes_effect(mine, monkeypatch):
    monkeypatch.setattr(gym.spec(mine), "max_episode_steps", 2)
    env = gym.make(mine)
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(2)] == [False, True]
    monkeypatch.setattr(gymnasium.spec(mine), "max_episode_steps", 7)
    assert gym.spec(mine).max_episode_steps == gym.make(mine).spec.max_episode_steps == 7


def test_what_a_script_registered_in_gymnasium_is_found(mine):
    for make in (gym.make, paddock.make):
        env = make(mine)
        assert env.spec.id == mine
        assert env.spec.max_episode_steps == 4
        assert env.observation_space == gym.spaces.Discrete(3)
        assert make("mine/G").spec.id == mine
    assert mine in gym.registry
    assert gym.make_vec(mine, 2).reset(seed=0)[0].tolist() == [0, 0]
    with pytest.raises(NamespaceNotFound):
        gym.make("yours/G-v0")


def test_the_registry_is_written_as_before(mine):
    gym.register("me/Counter-v0", Counter)
    assert gym.registry["me/Counter-v0"] is paddock.registry["me/Counter-v0"]
    gym.registry["me/Counter-v1"] = gym.envs.registration.EnvSpec("me/Counter-v1", Counter)
    assert gym.registry.pop("me/Counter-v1").id == "me/Counter-v1"
    assert gym.registry.pop("me/Counter-v1", None) is None
    for id in ("CartPole-v1", mine):
        with pytest.raises(RegistryConflict):
            del gym.registry[id]
    gym.registry.clear()
    assert "me/Counter-v0" not in gym.registry
    assert "CartPole-v1" in gym.registry
    with pytest.raises(KeyError):
        _ = gym.registry["me/Counter-v0"]


@pytest.mark.process
def test_asking_for_an_id_of_ones_own_imports_no_gymnasium():
    code = (
        "import sys, paddock.gym as gym; print('mine/G-v0' in gym.registry, gym.registry.get(3),"
        "'gymnasium' in sys.modules,"
        "'LunarLander-v3' in gym.registry, 'gymnasium' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "None", "False", "True", "True"]


def test_without_gymnasium_the_registry_has_paddocks_ids_and_spec_names_the_packages(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    assert set(gym.registry) == set(paddock.registry)
    assert "LunarLander-v3" not in gym.registry
    with pytest.raises(gym.error.NameNotFound, match="pip install gymnasium box2d"):
        gym.spec("LunarLander-v3")
    with pytest.raises(DependencyNotInstalled, match="pip install gymnasium box2d"):
        gym.make("LunarLander-v3")


def test_another_name_for_paddock_is_not_taken_for_gymnasium(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", gym)
    assert set(gym.registry) == set(paddock.registry)
    with pytest.raises(gym.error.NameNotFound):
        gym.spec("LunarLander-v3")
