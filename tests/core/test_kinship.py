"""Our classes are Gymnasium's as soon as that is imported, and none the worse for it."""

import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

import paddock
import paddock.gym as gym
from paddock.sources.gymnasium import from_gymnasium
from tests.toys import Counter

SPACES = [
    gym.spaces.Box(0, 1, (2,)),
    gym.spaces.Discrete(3),
    gym.spaces.MultiBinary(3),
    gym.spaces.MultiDiscrete([2, 3]),
    gym.spaces.Text(4),
    gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.Box(0, 1)]),
    gym.spaces.Dict(a=gym.spaces.Discrete(2), b=gym.spaces.Box(0, 1)),
    gym.spaces.Sequence(gym.spaces.Discrete(2)),
    gym.spaces.Graph(gym.spaces.Box(0, 1), None),
    gym.spaces.OneOf([gym.spaces.Discrete(2), gym.spaces.Box(0, 1)]),
]


def from_theirs(ours):
    """Public names and special methods for which a class of ours now has Gymnasium's."""
    homes = {name: layer.__module__ for layer in reversed(ours.__mro__) for name in vars(layer)}
    plain = {
        "__weakref__",
        "__dict__",
        "__orig_bases__",
        "__parameters__",
        "__annotations__",
        "__hash__",
        "__slotnames__",
    }
    theirs = {name for name, home in homes.items() if home.startswith("gymnasium.")}
    return {name for name in theirs - plain if name.startswith("__") or not name.startswith("_")}


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_a_space_is_gymnasiums_of_the_same_name(space):
    name = type(space).__name__
    assert isinstance(space, getattr(gymnasium.spaces, name))
    assert pickle.loads(pickle.dumps(space)) == space
    assert hash(space) == hash(pickle.loads(pickle.dumps(space)))
    assert from_theirs(type(space)) == set()
    if name in ("Box", "Discrete", "MultiBinary", "MultiDiscrete", "Tuple", "Dict"):
        value = space.sample()
        ours, theirs = gym.spaces.flatten(space, value), gymnasium.spaces.flatten(space, value)
        np.testing.assert_array_equal(ours, theirs)


def test_environments_and_wrappers_are_gymnasiums():
    env = gym.make("CartPole-v1")
    assert isinstance(env, gymnasium.Env)
    assert isinstance(env, gymnasium.Wrapper)
    assert isinstance(env.unwrapped, gymnasium.Env)
    assert not isinstance(env.unwrapped, gymnasium.Wrapper)
    assert isinstance(Counter(), gymnasium.Env)
    assert from_theirs(gym.Env) == from_theirs(gym.Wrapper) == set()
    assert isinstance(gym.wrappers.ClipReward(Counter(), 0), gymnasium.RewardWrapper)
    assert not isinstance(gym.make_vec("CartPole-v1", 2), gymnasium.vector.VectorEnv)


def test_a_wrapper_of_gymnasiums_takes_our_environment():
    ours = gymnasium.wrappers.FlattenObservation(gymnasium.wrappers.RecordEpisodeStatistics(gym.make("Blackjack-v1")))
    theirs = gymnasium.wrappers.FlattenObservation(
        gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("Blackjack-v1"))
    )
    for seed in range(20):
        np.testing.assert_array_equal(ours.reset(seed=seed)[0], theirs.reset(seed=seed)[0])
        one, other = ours.step(1), theirs.step(1)
        np.testing.assert_array_equal(one[0], other[0])
        assert one[1:4] == other[1:4]
        assert one[4].keys() == other[4].keys()
    assert [entry.name for entry in ours.spec.additional_wrappers] == ["RecordEpisodeStatistics", "FlattenObservation"]


def test_the_adapters_tell_ours_from_gymnasiums():
    env = paddock.make("CartPole-v1")
    there = paddock.to_gymnasium(env)
    assert type(there.observation_space) is gymnasium.spaces.Box
    assert there.paddock_env is env
    assert paddock.to_gymnasium(there) is there
    assert from_gymnasium(env) is env
    assert from_gymnasium(there) is env


@pytest.mark.process
@pytest.mark.parametrize("first", ["paddock.gym", "gymnasium"])
@pytest.mark.parametrize("used", ["env = paddock.gym.make('CartPole-v1')", "class Own(paddock.Env): pass\nenv = Own()"])
def test_whichever_is_imported_first(first, used):
    code = (
        f"import {first}\nimport paddock.gym, sys\nassert ('gymnasium' in sys.modules) == ({first!r} == 'gymnasium')\n"
        f"{used}\nspace = paddock.gym.spaces.Discrete(2)\nimport gymnasium\n"
        "print(isinstance(env, gymnasium.Env), isinstance(space, gymnasium.spaces.Discrete))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "True"], done.stderr


@pytest.mark.process
def test_a_gymnasium_that_can_not_be_imported_says_so_as_ever(tmp_path):
    (tmp_path / "gymnasium.py").write_text("raise ImportError('broken')")
    code = (
        "import paddock.gym as gym\ntry: import gymnasium\nexcept ImportError as e: print(e)\ngym.make('CartPole-v1')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.stdout, done.returncode) == ("broken\n", 0), done.stderr


@pytest.mark.process
def test_another_name_for_paddock_changes_nothing():
    code = (
        "import sys, paddock.gym as gym\nsys.modules['gymnasium'] = gym\nbefore = gym.Env.__bases__\n"
        "from paddock.core.env import watch_for_gymnasium\nimport gymnasium\n"
        "sys.modules['gymnasium.spaces'] = gym.spaces\nwatch_for_gymnasium()\nprint(before == gymnasium.Env.__bases__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.process
@pytest.mark.parametrize("moment", ["core", "spaces", "envs", "envs.registration", "vector", "wrappers"])
def test_paddock_may_be_imported_in_the_middle_of_gymnasiums_import(moment):
    """As by a plugin of Gymnasium's, or by another thread."""
    code = f"""
import sys
class Plugin:
    def find_spec(self, name, path=None, target=None):
        if name == "gymnasium.{moment}":
            import paddock.core.env, paddock.spaces
sys.meta_path.insert(0, Plugin())
import gymnasium, paddock
names = ["Env", "Wrapper", "spaces.Box", "spaces.Dict"]
print([eval("issubclass(paddock." + name + ", gymnasium." + name + ")") for name in names])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[True, True, True, True]\n", done.stderr


@pytest.mark.process
@pytest.mark.parametrize("with_spaces", [False, True])
@pytest.mark.parametrize("stand_in", ["unittest.mock.MagicMock()", "types.SimpleNamespace(make=None, spaces=None)"])
def test_a_stand_in_for_gymnasium_changes_nothing(stand_in, with_spaces):
    code = (
        f"import sys, types, unittest.mock\nfake = sys.modules['gymnasium'] = {stand_in}\n"
        f"if {with_spaces}: sys.modules['gymnasium.spaces'] = fake.spaces\n"
        "import paddock\nhomes = {one.__module__ for one in paddock.Env.__mro__}\n"
        "print(homes == {'paddock.core.env', 'typing', 'builtins'})\n"
        "paddock.make('CartPole-v1').reset()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
