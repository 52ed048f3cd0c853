"""The environments that come with paddock. Classes load when first used; the catalog alone needs no NumPy."""

from __future__ import annotations

import importlib
from typing import Any

MODULES = {
    "CartPole": "paddock.envs.classic_control.cartpole",
    "MountainCar": "paddock.envs.classic_control.mountain_car",
    "Continuous_MountainCar": "paddock.envs.classic_control.continuous_mountain_car",
    "Pendulum": "paddock.envs.classic_control.pendulum",
    "Acrobot": "paddock.envs.classic_control.acrobot",
    "FrozenLake": "paddock.envs.toy_text.frozen_lake",
    "CliffWalking": "paddock.envs.toy_text.cliffwalking",
    "Taxi": "paddock.envs.toy_text.taxi",
    "Blackjack": "paddock.envs.toy_text.blackjack",
}
_HOMES = {f"{name}{form}": home for name, home in MODULES.items() for form in ("Env", "VectorEnv")}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'paddock.envs' has no attribute {name!r}")
