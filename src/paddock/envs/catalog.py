"""The ids that come with paddock, as data. Importing this module puts them, protected, into the registry."""

from __future__ import annotations

from typing import Any

from paddock.core.registry import registry
from paddock.core.spec import EnvSpec
from paddock.envs import MODULES


def _built_in(id: str, name: str, **fields: Any) -> EnvSpec:
    home = f"{MODULES[name]}:{name}"
    return EnvSpec(id, f"{home}Env", vector_entry_point=f"{home}VectorEnv", **fields)


def _agentic(id: str, module: str, **fields: Any) -> EnvSpec:
    return EnvSpec(id, f"paddock.agentic.envs.{module}", **fields)


BUILT_IN = [
    _built_in("CartPole-v0", "CartPole", max_episode_steps=200, reward_threshold=195.0),
    _built_in("CartPole-v1", "CartPole", max_episode_steps=500, reward_threshold=475.0),
    _built_in("MountainCar-v0", "MountainCar", max_episode_steps=200, reward_threshold=-110.0),
    _built_in("MountainCarContinuous-v0", "Continuous_MountainCar", max_episode_steps=999, reward_threshold=90.0),
    _built_in("Pendulum-v1", "Pendulum", max_episode_steps=200),
    _built_in("Acrobot-v1", "Acrobot", max_episode_steps=500, reward_threshold=-100.0),
    _built_in("FrozenLake-v1", "FrozenLake", kwargs={"map_name": "4x4"}, max_episode_steps=100, reward_threshold=0.70),
    _built_in(
        "FrozenLake8x8-v1", "FrozenLake", kwargs={"map_name": "8x8"}, max_episode_steps=200, reward_threshold=0.85
    ),
    _built_in("CliffWalking-v1", "CliffWalking"),
    _built_in("CliffWalkingSlippery-v1", "CliffWalking", kwargs={"is_slippery": True}),
    _built_in("Taxi-v4", "Taxi", max_episode_steps=200, reward_threshold=8),
    _built_in("Blackjack-v1", "Blackjack", kwargs={"sab": True, "natural": False}),
    # Gymnasium's JAX environments: the same worlds, so the same kernels. See docs/differences.md for what differs.
    _built_in("phys2d/CartPole-v0", "CartPole", max_episode_steps=200, reward_threshold=195.0),
    _built_in("phys2d/CartPole-v1", "CartPole", max_episode_steps=500, reward_threshold=475.0),
    _built_in("phys2d/Pendulum-v0", "Pendulum", max_episode_steps=200),
    _built_in("tabular/Blackjack-v0", "Blackjack", kwargs={"sab": True, "natural": False}),
    _built_in("tabular/CliffWalking-v0", "CliffWalking"),
    # For language models. Their limits are on tool calls, of which an agent that goes astray would never have enough.
    _agentic("paddock/Echo", "echo:Echo", kwargs={"turns": 1}),
    _agentic("paddock/Wordle", "wordle:Wordle", max_episode_steps=30),
    # What a program prints may depend on the time, or on chance.
    _agentic("paddock/PythonCode", "python_code:PythonCode", max_episode_steps=20, nondeterministic=True),
]

# What those of them may do behind a wall that need more than code gets by default: a function that returns a Policy.
PERMISSIONS = {"paddock/PythonCode": "paddock.agentic.envs.coding.workspace:policy"}

registry.protect(BUILT_IN)
