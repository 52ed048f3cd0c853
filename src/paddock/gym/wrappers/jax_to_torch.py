"""``gymnasium.wrappers.jax_to_torch``."""

from paddock.wrappers.array_conversion import JaxToTorch, jax_to_torch, torch_to_jax
from paddock.wrappers.array_libraries import Device

__all__ = ["Device", "JaxToTorch", "jax_to_torch", "torch_to_jax"]
