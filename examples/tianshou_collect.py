"""Train PPO of Tianshou on CartPole-v1: its Collector steps one compiled batch of lanes. See docs/trainers.md.

pip install tianshou numba
python examples/tianshou_collect.py --epochs 10
"""

import argparse

import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

from paddock.adapters.tianshou import vector_env


def main():
    parser = argparse.ArgumentParser(description="PPO of Tianshou on an environment of paddock.")
    parser.add_argument("--target", default="CartPole-v1", help="an id, a folder or a URL; its actions are Discrete")
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=5, help="of 4096 steps each")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    training = vector_env(arguments.target, arguments.num_envs, seed=0)
    testing = vector_env(arguments.target, 8, seed=1000)
    algorithm = ppo(training.observation_space[0], training.action_space[0])
    collected = Collector(algorithm, training, VectorReplayBuffer(4096, arguments.num_envs))
    result = algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=collected,
            test_collector=Collector(algorithm, testing),
            max_epochs=arguments.epochs,
            epoch_num_steps=4096,
            collection_step_num_env_steps=1024,
            update_step_num_repetitions=4,
            batch_size=256,
            test_step_num_episodes=8,
            show_progress=False,
        )
    )
    print(f"best mean return {result.best_reward:.1f}")


def ppo(observation_space, action_space):
    """Two nets of 64 by 64, one body for both."""
    body = Net(state_shape=observation_space.shape, hidden_sizes=(64, 64))
    actor = DiscreteActor(preprocess_net=body, action_shape=action_space.n, softmax_output=False)
    policy = DiscreteActorPolicy(actor=actor, action_space=action_space, deterministic_eval=True)
    return PPO(policy=policy, critic=DiscreteCritic(preprocess_net=body), optim=AdamOptimizerFactory(lr=1e-3))


if __name__ == "__main__":
    main()
