"""``gymnasium.vector.sync_vector_env``."""

from paddock.vector.loop import SyncVectorEnv

__all__ = ["SyncVectorEnv"]
