"""``gymnasium.envs.classic_control.mountain_car``."""

from paddock.envs.classic_control.mountain_car import MountainCarEnv

__all__ = ["MountainCarEnv"]
