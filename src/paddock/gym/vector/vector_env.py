"""``gymnasium.vector.vector_env``."""

from paddock.core.vector_env import ArrayType, AutoresetMode, VectorEnv

__all__ = ["ArrayType", "AutoresetMode", "VectorEnv"]
