"""``gymnasium.wrappers.jax_to_numpy``."""

from paddock.wrappers.array_conversion import JaxToNumpy, jax_to_numpy, numpy_to_jax

__all__ = ["JaxToNumpy", "jax_to_numpy", "numpy_to_jax"]
