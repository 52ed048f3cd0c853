"""``gymnasium.wrappers.numpy_to_torch``."""

from paddock.wrappers.array_conversion import NumpyToTorch, numpy_to_torch, torch_to_numpy
from paddock.wrappers.array_libraries import Device

__all__ = ["Device", "NumpyToTorch", "numpy_to_torch", "torch_to_numpy"]
