"""``gymnasium.wrappers.vector.jax_to_numpy``."""

from paddock.wrappers.vector import JaxToNumpy

__all__ = ["JaxToNumpy"]
