"""``gymnasium.vector``."""

from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.gym.vector import sync_vector_env, utils, vector_env
from paddock.vector.loop import SyncVectorEnv

__all__ = ["AutoresetMode", "SyncVectorEnv", "VectorEnv", "sync_vector_env", "utils", "vector_env"]


def __getattr__(name: str) -> object:
    raise AttributeError(
        f"paddock.gym.vector has no {name!r}. What exists so far: {', '.join(__all__)}; see docs/differences.md."
    )
