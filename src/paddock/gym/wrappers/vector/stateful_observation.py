"""``gymnasium.wrappers.vector.stateful_observation``."""

from paddock.wrappers.vector import NormalizeObservation

__all__ = ["NormalizeObservation"]
