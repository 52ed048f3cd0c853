"""``gymnasium.spaces.space``."""

from paddock.spaces.space import Space

__all__ = ["Space"]
