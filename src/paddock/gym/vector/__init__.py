"""``gymnasium.vector``. What needs processes is loaded when it is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.core.vector_wrapper import (
    VectorActionWrapper,
    VectorObservationWrapper,
    VectorRewardWrapper,
    VectorWrapper,
)
from paddock.gym.vector import sync_vector_env, utils, vector_env
from paddock.vector.loop import SyncVectorEnv

if TYPE_CHECKING:
    from paddock.gym.vector import async_vector_env
    from paddock.gym.vector.async_vector_env import AsyncState, AsyncVectorEnv

__all__ = [
    "AsyncState",
    "AsyncVectorEnv",
    "AutoresetMode",
    "SyncVectorEnv",
    "VectorActionWrapper",
    "VectorEnv",
    "VectorObservationWrapper",
    "VectorRewardWrapper",
    "VectorWrapper",
    "utils",
]

_WITH_PROCESSES = ("AsyncState", "AsyncVectorEnv", "async_vector_env")


def __getattr__(name: str) -> object:
    if name not in _WITH_PROCESSES:
        raise AttributeError(f"paddock.gym.vector has no {name!r}. It has: {', '.join(__all__)}.")
    module = import_module("paddock.gym.vector.async_vector_env")
    return module if name == "async_vector_env" else getattr(module, name)
