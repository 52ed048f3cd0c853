"""``gymnasium.envs.classic_control.pendulum``."""

from paddock.envs.classic_control.pendulum import PendulumEnv
from paddock.gym.envs import borrow

__all__ = ["PendulumEnv"]

__getattr__ = borrow(__name__)
