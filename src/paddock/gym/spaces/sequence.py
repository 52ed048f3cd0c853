"""``gymnasium.spaces.sequence``."""

from paddock.spaces.sequence import Sequence

__all__ = ["Sequence"]
