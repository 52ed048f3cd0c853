"""``gymnasium.vector``."""

from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.gym.vector import utils
from paddock.vector.loop import SyncVectorEnv

__all__ = ["AutoresetMode", "SyncVectorEnv", "VectorEnv", "utils"]
