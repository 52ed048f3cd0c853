"""Train PPO on CartPole-v1 in one file, over paddock's compiled lanes and over Gymnasium's. See docs/trainers.md.

    pip install numba torch gymnasium
    python examples/ppo_cartpole.py                      # paddock: `import paddock.gym as gym`
    python examples/ppo_cartpole.py --envs gymnasium     # the same code after `import gymnasium as gym`
    python examples/ppo_cartpole.py --envs both

Training ends when the last 100 episodes have the mean return that --goal asks for, and the time it took is printed with
the share of `envs.step` in it; all the rest, the policy and its gradients, costs the same on both sides. The two draw
other first states, so one training may be lucky: compare the sums of several.
"""

import argparse
import importlib
import time
from collections import deque
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn.functional import log_softmax

LIBRARIES = {"paddock": "paddock.gym", "gymnasium": "gymnasium"}


@dataclass(frozen=True)
class Settings:
    lanes: int = 8
    steps: int = 256  # of each lane, between updates
    epochs: int = 4
    minibatches: int = 4
    rate: float = 2.5e-3
    gamma: float = 0.98
    gae_lambda: float = 0.9
    clip: float = 0.2
    max_steps: int = 600_000  # of all lanes together: then it is given up
    annealed_over: int = 200_000  # steps after which rate and clip are a tenth


@dataclass
class Outcome:
    """Of a training. Of several: the lowest mean return, and sums."""

    mean_return: float = 0.0
    steps: int = 0
    seconds: float = 0.0
    stepping: float = 0.0

    def __add__(self, other):
        lowest = min(self.mean_return or other.mean_return, other.mean_return)
        return Outcome(lowest, self.steps + other.steps, self.seconds + other.seconds, self.stepping + other.stepping)


class Agent(nn.Module):
    def __init__(self, observations, actions):
        super().__init__()
        self.actor = mlp(observations, actions, gain=0.01)
        self.critic = mlp(observations, 1, gain=1.0)

    def forward(self, seen):
        """Log-probabilities of the actions, and the value."""
        return log_softmax(self.actor(seen), -1), self.critic(seen).squeeze(-1)


def mlp(inputs, outputs, *, gain):
    sizes, gains = [inputs, 64, 64, outputs], [2**0.5, 2**0.5, gain]
    layers = []
    for before, after, scale in zip(sizes, sizes[1:], gains, strict=False):
        layer = nn.Linear(before, after)
        nn.init.orthogonal_(layer.weight, scale)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class Rollout:
    """What every lane saw and did between two updates: NumPy's arrays, which tensors share when it is full."""

    def __init__(self, steps, lanes, observations):
        self.seen = np.zeros((steps + 1, lanes, observations), np.float32)
        self.actions = np.zeros((steps, lanes), np.int64)
        self.rewards = np.zeros((steps, lanes), np.float32)
        self.terminated, self.over = np.zeros((steps, lanes), bool), np.zeros((steps + 1, lanes), bool)

    def lessons(self, agent, gamma, gae_lambda):
        """Of all steps in a row: what was seen, done, its log-probability, its advantage and the value to learn."""
        with torch.no_grad():
            seen, actions = torch.from_numpy(self.seen), torch.from_numpy(self.actions)
            logps, values = agent(seen)
            logps = logps[:-1].gather(-1, actions[..., None])[..., 0]
            advantages = torch.from_numpy(self.advantages(values.numpy(), gamma, gae_lambda))
        # A lane that ended ignores its next action and starts a new episode: that step teaches nothing.
        real = torch.from_numpy(~self.over[:-1])
        return [part[real] for part in (seen[:-1], actions, logps, advantages, advantages + values[:-1])]

    def advantages(self, values, gamma, gae_lambda):
        """Generalised advantage estimates. An episode that was cut off goes on in the value of its last observation."""
        found = self.rewards + gamma * values[1:] * ~self.terminated - values[:-1]
        for step in reversed(range(len(found) - 1)):
            found[step] += gamma * gae_lambda * ~self.over[step + 1] * found[step + 1]
        return found


def train(gym, settings, *, goal, seed):
    """PPO over `gym.make_vec`, whichever library `gym` is."""
    torch.manual_seed(seed)
    began = time.perf_counter()
    envs = gym.wrappers.vector.RecordEpisodeStatistics(gym.make_vec("CartPole-v1", num_envs=settings.lanes))
    agent = Agent(envs.single_observation_space.shape[0], envs.single_action_space.n)
    optimizer = torch.optim.Adam(agent.parameters(), fused=True)
    rollout = Rollout(settings.steps, settings.lanes, envs.single_observation_space.shape[0])
    recent, outcome = deque(maxlen=100), Outcome()
    rollout.seen[-1], _ = envs.reset(seed=seed)
    while outcome.steps < settings.max_steps and not reached(recent, goal):
        collect(envs, agent, rollout, recent, outcome)
        left = max(0.1, 1 - outcome.steps / settings.annealed_over)
        optimizer.param_groups[0]["lr"] = settings.rate * left
        improve(agent, optimizer, rollout, settings, clip=settings.clip * left)
    envs.close()
    outcome.seconds = time.perf_counter() - began
    outcome.mean_return = float(np.mean(recent))
    return outcome


def reached(recent, goal):
    return len(recent) == recent.maxlen and np.mean(recent) >= goal


@torch.no_grad()
def collect(envs, agent, rollout, recent, outcome):
    """Fill the rollout, from where the last one ended."""
    rollout.seen[0], rollout.over[0] = rollout.seen[-1], rollout.over[-1]
    for step in range(len(rollout.actions)):
        logits = agent.actor(torch.from_numpy(rollout.seen[step]))
        actions = (logits - torch.empty_like(logits).exponential_().log()).argmax(-1).numpy()  # the Gumbel trick

        before = time.perf_counter()
        rollout.seen[step + 1], rewards, terminations, truncations, infos = envs.step(actions)
        outcome.stepping += time.perf_counter() - before

        rollout.actions[step], rollout.rewards[step], rollout.terminated[step] = actions, rewards, terminations
        rollout.over[step + 1] = terminations | truncations
        if "episode" in infos:
            recent.extend(infos["episode"]["r"][infos["_episode"]].tolist())
    outcome.steps += rollout.actions.size


def improve(agent, optimizer, rollout, settings, *, clip):
    seen, actions, old_logps, advantages, targets = rollout.lessons(agent, settings.gamma, settings.gae_lambda)
    for _ in range(settings.epochs):
        for rows in torch.randperm(len(seen)).chunk(settings.minibatches):
            logps, values = agent(seen[rows])
            ratio = (logps.gather(-1, actions[rows, None])[:, 0] - old_logps[rows]).exp()
            gain = advantages[rows]
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            policy_loss = -torch.min(ratio * gain, ratio.clamp(1 - clip, 1 + clip) * gain).mean()
            loss = policy_loss + 0.5 * (values - targets[rows]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


def main():
    parser = argparse.ArgumentParser(description="PPO on CartPole-v1.")
    parser.add_argument("--envs", choices=[*LIBRARIES, "both"], default="paddock")
    parser.add_argument("--goal", type=float, default=475.0, help="mean return of the last 100 episodes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trainings", type=int, help="how many, with seeds from --seed on; 1, and 5 of both")
    arguments = parser.parse_args()

    torch.set_num_threads(1)  # matrices this small are slower on several
    trainings = arguments.trainings or (5 if arguments.envs == "both" else 1)
    names = list(LIBRARIES) if arguments.envs == "both" else [arguments.envs]
    totals = {name: Outcome() for name in names}
    # In turns, so that a slow moment of the machine hits both alike.
    for seed in range(arguments.seed, arguments.seed + trainings):
        for name in names:
            gym = importlib.import_module(LIBRARIES[name])
            outcome = train(gym, Settings(), goal=arguments.goal, seed=seed)
            report(f"{name}, seed {seed}", outcome)
            totals[name] = totals[name] + outcome
    if trainings > 1:
        for name, total in totals.items():
            report(f"{name}, all", total)


def report(what, outcome):
    reached = f"mean return {outcome.mean_return:5.1f} after {outcome.steps:7,} steps and {outcome.seconds:5.1f} s"
    print(f"{what:18} {reached}, {outcome.stepping / outcome.seconds:5.1%} of them in envs.step")


if __name__ == "__main__":
    main()
