"""``gymnasium.wrappers.stateful_reward``."""

from paddock.wrappers import NormalizeReward

__all__ = ["NormalizeReward"]
