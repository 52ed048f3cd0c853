"""The ids that come with paddock, as data. Importing this module puts them, protected, into the registry."""

from __future__ import annotations

from paddock.core.registry import registry
from paddock.core.spec import EnvSpec

_CARTPOLE = "paddock.envs.classic_control.cartpole:CartPoleEnv"

BUILT_IN = [
    EnvSpec("CartPole-v0", _CARTPOLE, max_episode_steps=200, reward_threshold=195.0),
    EnvSpec("CartPole-v1", _CARTPOLE, max_episode_steps=500, reward_threshold=475.0),
]

registry.protect(BUILT_IN)
