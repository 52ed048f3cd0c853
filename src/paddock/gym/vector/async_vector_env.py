"""``gymnasium.vector.async_vector_env``."""

from paddock.vector.asynchronous import AsyncState, AsyncVectorEnv

__all__ = ["AsyncState", "AsyncVectorEnv"]
