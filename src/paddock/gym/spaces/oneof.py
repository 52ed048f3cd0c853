"""``gymnasium.spaces.oneof``."""

from paddock.spaces.oneof import OneOf

__all__ = ["OneOf"]
