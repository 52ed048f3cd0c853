"""``gymnasium.envs.classic_control.acrobot``."""

from paddock.envs.classic_control.acrobot import AcrobotEnv
from paddock.gym.envs import borrow

__all__ = ["AcrobotEnv"]

__getattr__ = borrow(__name__)
