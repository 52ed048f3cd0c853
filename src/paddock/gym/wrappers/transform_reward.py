"""``gymnasium.wrappers.transform_reward``."""

from paddock.wrappers import ClipReward, TransformReward

__all__ = ["ClipReward", "TransformReward"]
