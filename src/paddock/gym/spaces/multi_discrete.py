"""``gymnasium.spaces.multi_discrete``."""

from paddock.spaces.multi_discrete import MultiDiscrete

__all__ = ["MultiDiscrete"]
