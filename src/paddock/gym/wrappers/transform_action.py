"""``gymnasium.wrappers.transform_action``."""

from paddock.wrappers import ClipAction, DiscretizeAction, RescaleAction, TransformAction

__all__ = ["ClipAction", "DiscretizeAction", "RescaleAction", "TransformAction"]
