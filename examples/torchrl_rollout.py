"""Collect with TorchRL from one compiled batch of lanes, and improve a policy by it (REINFORCE). See docs/trainers.md.

pip install torchrl numba
python examples/torchrl_rollout.py --batches 40
"""

import argparse

import torch
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.envs import RewardSum, TransformedEnv
from torchrl.envs.utils import check_env_specs
from torchrl.modules import MLP, ProbabilisticActor
from torchrl.objectives.value.functional import reward2go

from paddock.adapters.torchrl import batched_env


def main():
    parser = argparse.ArgumentParser(description="REINFORCE with TorchRL on an environment of paddock.")
    parser.add_argument("--target", default="CartPole-v1", help="an id, a folder or a URL; its actions are Discrete")
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--steps", type=int, default=128, help="of each lane in a batch")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    env = TransformedEnv(batched_env(arguments.target, arguments.num_envs, seed=0), RewardSum())
    check_env_specs(env)

    sizes = env.observation_spec["observation"].shape[-1], env.action_spec.space.n
    logits = TensorDictModule(MLP(sizes[0], sizes[1], num_cells=[64, 64]), in_keys=["observation"], out_keys=["logits"])
    policy = ProbabilisticActor(logits, in_keys=["logits"], distribution_class=torch.distributions.Categorical)
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)

    frames = arguments.num_envs * arguments.steps
    collector = Collector(
        env,
        policy,
        frames_per_batch=frames,
        total_frames=frames * arguments.batches,
        auto_register_policy_transforms=False,  # this policy needs none
    )
    for number, batch in enumerate(collector):  # batch: [lanes, steps]
        done = batch["next", "done"]
        returns = reward2go(batch["next", "reward"], done, gamma=0.99).squeeze(-1)
        advantage = (returns - returns.mean()) / returns.std()
        chances = policy.get_dist(batch).log_prob(batch["action"])
        optimizer.zero_grad()
        (-chances * advantage).mean().backward()
        optimizer.step()
        ended = batch["next", "episode_reward"][done]
        print(f"batch {number}: mean return {ended.mean():.1f} over {len(ended)} episodes")
    collector.shutdown()


if __name__ == "__main__":
    main()
