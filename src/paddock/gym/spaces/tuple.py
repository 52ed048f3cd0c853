"""``gymnasium.spaces.tuple``."""

from paddock.spaces.tuple import Tuple

__all__ = ["Tuple"]
