"""``gymnasium.envs.toy_text.cliffwalking``."""

from paddock.envs.toy_text.cliffwalking import CliffWalkingEnv
from paddock.gym.envs import borrow

__all__ = ["CliffWalkingEnv"]

__getattr__ = borrow(__name__)
