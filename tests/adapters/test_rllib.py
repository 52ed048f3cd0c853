"""RLlib takes what `register` registers: here with a stand-in for Ray, and trained where Ray is."""

import pickle
import secrets
import sys
import tempfile
import types
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import paddock
from paddock.adapters import rllib
from paddock.errors import WrongClass
from tests.peers import ROOT, pytest_with_peer
from tests.spaces.twins import same


@pytest.mark.peers
@pytest.mark.full
def test_rllib_trains(monkeypatch):
    """Starting Ray takes longer than all that is done with it."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))  # else it writes one into the home
    with tempfile.TemporaryDirectory(prefix="ray") as folder:  # not tmp_path: too long for its sockets
        monkeypatch.setenv("RAY_TMPDIR", folder)
        told = pytest_with_peer("rllib", ROOT / "tests/adapters/rllib_trials.py", cwd=folder, timeout=900)
    assert "passed" in told


@pytest.fixture
def registered(monkeypatch):
    """What was registered, by name, with a module that has the one function that is called of Ray."""
    found = {}
    tune = types.ModuleType("ray.tune")
    tune.register_env = found.__setitem__
    monkeypatch.setitem(sys.modules, "ray", types.ModuleType("ray"))
    monkeypatch.setitem(sys.modules, "ray.tune", tune)
    monkeypatch.setattr("paddock.adapters.find_spec", lambda name: object())
    return found


def test_names_are_in_paddocks_namespace_unless_given(registered):
    spec = paddock.make("Pendulum-v1").spec
    names = [
        rllib.register("CartPole-v1"),
        rllib.register("paddock/Echo"),
        rllib.register("CartPole-v1", name="mine"),
        rllib.register(spec),
        rllib.register(Path("folder/env.py")),
    ]
    assert names == list(registered)
    assert names == ["paddock/CartPole-v1", "paddock/Echo", "mine", "paddock/Pendulum-v1", "paddock/folder/env.py"]


def test_what_is_registered_makes_a_gymnasium_environment(registered):
    maker = pickle.loads(pickle.dumps(registered[rllib.register("CartPole-v1", max_episode_steps=3)]))
    env, plain = maker({}), paddock.make("CartPole-v1", max_episode_steps=3)
    assert isinstance(env, gymnasium.Env)
    assert same(env.reset(seed=4), plain.reset(seed=4))
    assert [same(env.step(1), plain.step(1)) for _ in range(3)] == [True] * 3
    assert env.env.spec.max_episode_steps == 3


def test_env_config_is_further_keywords_of_make(registered):
    maker = registered[rllib.register("CartPole-v1", max_episode_steps=3)]
    assert maker({"max_episode_steps": 7}).env.spec.max_episode_steps == 7


def test_rllib_asks_for_lanes_by_their_number(registered):
    maker = registered[rllib.register("CartPole-v1")]
    lanes, plain = maker({"num_envs": 3}), paddock.make("CartPole-v1", num_envs=3)
    assert isinstance(lanes, gymnasium.vector.VectorEnv)
    assert same(lanes.reset(seed=4), plain.reset(seed=4))
    assert same(lanes.step(np.ones(3, int)), plain.step(np.ones(3, int)))


def test_lanes_that_nobody_asked_for_are_refused(registered):
    maker = registered[rllib.register("CartPole-v1", num_envs=2)]
    with pytest.raises(WrongClass, match="CartPole-v1 made a"):
        maker({})


def test_an_environment_that_was_made_is_refused_with_what_to_pass(registered):
    with pytest.raises(WrongClass, match=r"got \w+\. For an environment that you made: register\(env\.spec\)"):
        rllib.register(paddock.make("CartPole-v1"))
    assert registered == {}
