"""``gymnasium.spaces.text``."""

from paddock.spaces.text import Text, alphanumeric

__all__ = ["Text", "alphanumeric"]
