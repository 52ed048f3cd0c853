"""``gymnasium.envs.classic_control``."""

from paddock.gym.envs.classic_control.acrobot import AcrobotEnv
from paddock.gym.envs.classic_control.cartpole import CartPoleEnv
from paddock.gym.envs.classic_control.continuous_mountain_car import Continuous_MountainCarEnv
from paddock.gym.envs.classic_control.mountain_car import MountainCarEnv
from paddock.gym.envs.classic_control.pendulum import PendulumEnv

__all__ = ["AcrobotEnv", "CartPoleEnv", "Continuous_MountainCarEnv", "MountainCarEnv", "PendulumEnv"]
