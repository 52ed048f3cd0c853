"""``gymnasium.vector.utils``. What needs ``multiprocessing`` is loaded when it is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from paddock.gym.vector.utils import misc, space_utils
from paddock.gym.vector.utils.misc import CloudpickleWrapper, clear_mpi_env_vars
from paddock.spaces.batch import batch_differing_spaces, batch_space, concatenate, create_empty_array, iterate

if TYPE_CHECKING:
    from paddock.gym.vector.utils import shared_memory
    from paddock.spaces.shared_memory import create_shared_memory, read_from_shared_memory, write_to_shared_memory

__all__ = [
    "CloudpickleWrapper",
    "batch_differing_spaces",
    "batch_space",
    "clear_mpi_env_vars",
    "concatenate",
    "create_empty_array",
    "create_shared_memory",
    "iterate",
    "read_from_shared_memory",
    "write_to_shared_memory",
]

_SHARED_MEMORY = ("create_shared_memory", "read_from_shared_memory", "write_to_shared_memory", "shared_memory")


def __getattr__(name: str) -> object:
    if name not in _SHARED_MEMORY:
        raise AttributeError(f"paddock.gym.vector.utils has no {name!r}. It has: {', '.join(__all__)}.")
    module = import_module("paddock.gym.vector.utils.shared_memory")
    return module if name == "shared_memory" else getattr(module, name)
