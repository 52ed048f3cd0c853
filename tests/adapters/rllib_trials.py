"""Run by test_rllib.py where Ray is: one iteration of PPO, single environments and lanes, here and elsewhere."""

import runpy
import sys

import pytest
import ray
from gymnasium.vector import SyncVectorEnv
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import ENV_CREATOR, _global_registry

import paddock
from paddock.adapters.gymnasium_env import GymnasiumVectorEnv
from paddock.adapters.rllib import register
from tests.adapters.trainer_pages import run_section
from tests.peers import ROOT


@pytest.fixture(scope="module")
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    yield
    ray.shutdown()


def one_iteration(config):
    algorithm = config.training(train_batch_size=256, minibatch_size=128, num_epochs=1).build_algo()
    try:
        return algorithm.train()["env_runners"], algorithm.env_runner.env
    finally:
        algorithm.stop()


@pytest.mark.parametrize("mode", ["sync", "vector_entry_point"])
def test_one_iteration_of_ppo(cluster, mode):
    runners = {"num_env_runners": 0, "num_envs_per_env_runner": 4, "gym_env_vectorize_mode": mode}
    config = PPOConfig().environment(register("CartPole-v1")).env_runners(**runners)
    told, envs = one_iteration(config)
    assert isinstance(envs.unwrapped, GymnasiumVectorEnv if mode == "vector_entry_point" else SyncVectorEnv)
    assert told["num_env_steps_sampled"] >= 256
    assert 8 < told["episode_return_mean"] < 200
    assert told["episode_return_mean"] == pytest.approx(told["episode_len_mean"])


def test_one_iteration_with_floats_in_another_process(cluster):
    name = register("Pendulum-v1", name="mine/Pendulum", max_episode_steps=20)
    runners = {"num_env_runners": 1, "num_envs_per_env_runner": 2, "gym_env_vectorize_mode": "vector_entry_point"}
    config = PPOConfig().environment(name, env_config={"max_episode_steps": 10}).env_runners(**runners)
    told, nothing = one_iteration(config)
    assert nothing is None  # in this process
    assert told["episode_len_mean"] == 10


def test_the_example_trains(capsys, monkeypatch):
    ray.shutdown()
    monkeypatch.setattr(sys, "argv", ["rllib_ppo.py", "--iterations", "1"])
    runpy.run_path(str(ROOT / "examples" / "rllib_ppo.py"), run_name="__main__")
    assert "iteration 0: mean return " in capsys.readouterr().out
    assert not ray.is_initialized()


def test_the_page_is_true():
    ray.shutdown()
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    run_section("RLlib")  # it shuts Ray down
    assert not ray.is_initialized()


def test_nothing_of_ray_is_needed_to_register():
    name = register("CartPole-v1", name="before/CartPole")
    assert not ray.is_initialized()
    made = _global_registry.get(ENV_CREATOR, name)({"num_envs": 2})
    assert made.num_envs == 2
    assert isinstance(made.env, paddock.VectorEnv)
