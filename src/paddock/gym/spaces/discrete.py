"""``gymnasium.spaces.discrete``."""

from paddock.spaces.discrete import Discrete

__all__ = ["Discrete"]
