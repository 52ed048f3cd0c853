"""``gymnasium.envs.classic_control.acrobot``."""

from paddock.envs.classic_control.acrobot import AcrobotEnv

__all__ = ["AcrobotEnv"]
