"""``gymnasium.envs.classic_control``. Its ``utils`` are Gymnasium's own."""

from importlib import import_module
from typing import Any

from paddock.gym.envs.classic_control.acrobot import AcrobotEnv
from paddock.gym.envs.classic_control.cartpole import CartPoleEnv
from paddock.gym.envs.classic_control.continuous_mountain_car import Continuous_MountainCarEnv
from paddock.gym.envs.classic_control.mountain_car import MountainCarEnv
from paddock.gym.envs.classic_control.pendulum import PendulumEnv

__all__ = ["AcrobotEnv", "CartPoleEnv", "Continuous_MountainCarEnv", "MountainCarEnv", "PendulumEnv"]


def __getattr__(name: str) -> Any:
    if name == "utils":
        return import_module(f"{__name__}.utils")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
