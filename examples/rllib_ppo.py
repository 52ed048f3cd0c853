"""Train PPO of RLlib on CartPole-v1, its environments one compiled batch of lanes. See docs/trainers.md.

pip install "ray[rllib]" torch numba
python examples/rllib_ppo.py --iterations 30
"""

import argparse

import ray
from ray.rllib.algorithms.ppo import PPOConfig

from paddock.adapters.rllib import register


def main():
    parser = argparse.ArgumentParser(description="PPO of RLlib on an environment of paddock.")
    parser.add_argument("--target", default="CartPole-v1", help="an id, a folder or a URL")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--num-envs", type=int, default=16, help="of each env runner")
    parser.add_argument("--env-runners", type=int, default=0, help="processes that collect; 0: this one does")
    arguments = parser.parse_args()

    # For one machine: no dashboard, and no port that others reach.
    ray.init(num_cpus=1 + arguments.env_runners, include_dashboard=False, _node_ip_address="127.0.0.1")
    config = (
        PPOConfig()
        .environment(register(arguments.target))
        .env_runners(
            num_env_runners=arguments.env_runners,
            num_envs_per_env_runner=arguments.num_envs,
            gym_env_vectorize_mode="vector_entry_point",  # lanes that one call steps; "sync" loops over single ones
        )
        .training(train_batch_size=2048, minibatch_size=256, num_epochs=4, lr=1e-3)
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    try:
        for number in range(arguments.iterations):
            told = algorithm.train()["env_runners"]
            print(f"iteration {number}: mean return {told['episode_return_mean']:.1f}")
    finally:
        algorithm.stop()
        ray.shutdown()


if __name__ == "__main__":
    main()
