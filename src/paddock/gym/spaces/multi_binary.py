"""``gymnasium.spaces.multi_binary``."""

from paddock.spaces.multi_binary import MultiBinary

__all__ = ["MultiBinary"]
