"""``gymnasium.wrappers.vector.stateful_reward``."""

from paddock.wrappers.vector import NormalizeReward

__all__ = ["NormalizeReward"]
