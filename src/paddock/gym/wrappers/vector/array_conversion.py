"""``gymnasium.wrappers.vector.array_conversion``."""

from paddock.wrappers.vector import ArrayConversion

__all__ = ["ArrayConversion"]
