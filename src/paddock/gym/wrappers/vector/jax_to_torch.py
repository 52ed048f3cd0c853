"""``gymnasium.wrappers.vector.jax_to_torch``."""

from paddock.wrappers.vector import JaxToTorch

__all__ = ["JaxToTorch"]
