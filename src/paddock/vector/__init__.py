"""Vector environments: n lanes behind one step."""

from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.vector.loop import SyncVectorEnv

__all__ = ["AutoresetMode", "SyncVectorEnv", "VectorEnv"]
