"""``gymnasium.vector``. What needs processes is loaded when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from paddock.aliases import add_aliases
from paddock.core.vector_env import ArrayType, AutoresetMode, VectorEnv
from paddock.core.vector_wrapper import (
    VectorActionWrapper,
    VectorObservationWrapper,
    VectorRewardWrapper,
    VectorWrapper,
)
from paddock.gym.vector import utils
from paddock.vector.loop import SyncVectorEnv

if TYPE_CHECKING:
    from paddock.vector.processes import AsyncState, AsyncVectorEnv

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

ALIASES = {
    "async_vector_env": {"paddock.vector.processes": "AsyncState AsyncVectorEnv"},
    "sync_vector_env": {"paddock.vector.loop": "SyncVectorEnv"},
    "vector_env": {
        "paddock.gym.vector": "ArrayType AutoresetMode VectorActionWrapper VectorEnv VectorObservationWrapper "
        "VectorRewardWrapper VectorWrapper"
    },
}
add_aliases(__name__, ALIASES, at_once=("sync_vector_env", "vector_env"))

_WITH_PROCESSES = ("AsyncState", "AsyncVectorEnv", "async_vector_env")


def __getattr__(name: str) -> object:
    if name not in _WITH_PROCESSES:
        raise AttributeError(f"paddock.gym.vector has no {name!r}. It has: {', '.join(__all__)}.")
    module = import_module("paddock.gym.vector.async_vector_env")
    return module if name == "async_vector_env" else getattr(module, name)
