"""``gymnasium.envs.classic_control``. Its ``utils`` are Gymnasium's own."""

from importlib import import_module
from typing import Any

from paddock.aliases import add_aliases
from paddock.envs.classic_control.acrobot import AcrobotEnv
from paddock.envs.classic_control.cartpole import CartPoleEnv
from paddock.envs.classic_control.continuous_mountain_car import Continuous_MountainCarEnv
from paddock.envs.classic_control.mountain_car import MountainCarEnv
from paddock.envs.classic_control.pendulum import PendulumEnv
from paddock.gym.envs import borrow

__all__ = ["AcrobotEnv", "CartPoleEnv", "Continuous_MountainCarEnv", "MountainCarEnv", "PendulumEnv"]

ALIASES = {
    "acrobot": {"paddock.envs.classic_control.acrobot": "AcrobotEnv"},
    "cartpole": {"paddock.envs.classic_control.cartpole": "CartPoleEnv CartPoleVectorEnv"},
    "continuous_mountain_car": {"paddock.envs.classic_control.continuous_mountain_car": "Continuous_MountainCarEnv"},
    "mountain_car": {"paddock.envs.classic_control.mountain_car": "MountainCarEnv"},
    "pendulum": {"paddock.envs.classic_control.pendulum": "PendulumEnv"},
}
add_aliases(__name__, ALIASES, at_once=ALIASES, fallback=borrow)


def __getattr__(name: str) -> Any:
    if name == "utils":
        return import_module(f"{__name__}.utils")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
