"""``gymnasium.envs.classic_control.continuous_mountain_car``."""

from paddock.envs.classic_control.continuous_mountain_car import Continuous_MountainCarEnv

__all__ = ["Continuous_MountainCarEnv"]
