"""``gymnasium.vector``."""

from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.gym.vector import sync_vector_env, utils, vector_env
from paddock.vector.loop import SyncVectorEnv

__all__ = ["AutoresetMode", "SyncVectorEnv", "VectorEnv", "sync_vector_env", "utils", "vector_env"]
