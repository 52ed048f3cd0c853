"""``gymnasium.wrappers.vector.numpy_to_torch``."""

from paddock.wrappers.vector import NumpyToTorch

__all__ = ["NumpyToTorch"]
