"""The environments that come with paddock. Classes load when first used; the catalog alone needs no NumPy."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "CartPoleEnv": "paddock.envs.classic_control.cartpole",
    "CartPoleVectorEnv": "paddock.envs.classic_control.cartpole",
    "MountainCarEnv": "paddock.envs.classic_control.mountain_car",
    "MountainCarVectorEnv": "paddock.envs.classic_control.mountain_car",
    "Continuous_MountainCarEnv": "paddock.envs.classic_control.continuous_mountain_car",
    "Continuous_MountainCarVectorEnv": "paddock.envs.classic_control.continuous_mountain_car",
    "PendulumEnv": "paddock.envs.classic_control.pendulum",
    "PendulumVectorEnv": "paddock.envs.classic_control.pendulum",
    "AcrobotEnv": "paddock.envs.classic_control.acrobot",
    "AcrobotVectorEnv": "paddock.envs.classic_control.acrobot",
    "FrozenLakeEnv": "paddock.envs.toy_text.frozen_lake",
    "FrozenLakeVectorEnv": "paddock.envs.toy_text.frozen_lake",
    "CliffWalkingEnv": "paddock.envs.toy_text.cliffwalking",
    "CliffWalkingVectorEnv": "paddock.envs.toy_text.cliffwalking",
    "TaxiEnv": "paddock.envs.toy_text.taxi",
    "TaxiVectorEnv": "paddock.envs.toy_text.taxi",
    "BlackjackEnv": "paddock.envs.toy_text.blackjack",
    "BlackjackVectorEnv": "paddock.envs.toy_text.blackjack",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'paddock.envs' has no attribute {name!r}")
