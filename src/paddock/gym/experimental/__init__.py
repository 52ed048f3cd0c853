"""``gymnasium.experimental``."""

from paddock.gym.experimental import functional

__all__ = ["functional"]
