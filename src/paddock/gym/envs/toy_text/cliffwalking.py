"""``gymnasium.envs.toy_text.cliffwalking``."""

from paddock.envs.toy_text.cliffwalking import CliffWalkingEnv

__all__ = ["CliffWalkingEnv"]
