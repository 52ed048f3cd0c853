"""``gymnasium.wrappers.vector.vectorize_action``."""

from paddock.wrappers.vector import ClipAction, RescaleAction, TransformAction, VectorizeTransformAction

__all__ = ["ClipAction", "RescaleAction", "TransformAction", "VectorizeTransformAction"]
