"""``gymnasium.spaces.dict``."""

from paddock.spaces.dict import Dict

__all__ = ["Dict"]
