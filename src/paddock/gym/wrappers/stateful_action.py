"""``gymnasium.wrappers.stateful_action``."""

from paddock.wrappers import RepeatAction, StickyAction

__all__ = ["RepeatAction", "StickyAction"]
