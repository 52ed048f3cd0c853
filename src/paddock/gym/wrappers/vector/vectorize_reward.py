"""``gymnasium.wrappers.vector.vectorize_reward``."""

from paddock.wrappers.vector import ClipReward, TransformReward, VectorizeTransformReward

__all__ = ["ClipReward", "TransformReward", "VectorizeTransformReward"]
