"""``gymnasium.vector.utils``. What needs ``multiprocessing`` is loaded when first used.

A CloudpickleWrapper is loaded by running code: only a parent's own child does it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic

from paddock.aliases import add_aliases
from paddock.core.env import Env
from paddock.hosting.factories import dumps, loads
from paddock.spaces.batch import batch_differing_spaces, batch_space, concatenate, create_empty_array, iterate

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from paddock.spaces.shared_memory import create_shared_memory, read_from_shared_memory, write_to_shared_memory

    EnvT = TypeVar("EnvT", bound=Env[Any, Any], covariant=True, default=Env[Any, Any])
else:
    from typing import TypeVar

    EnvT = TypeVar("EnvT", bound=Env, covariant=True)

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

_MPI_PREFIXES = ("OMPI_", "PMI_")


class CloudpickleWrapper(Generic[EnvT]):
    """A factory that can be pickled though it is a lambda or a closure."""

    def __init__(self, fn: Callable[[], EnvT]) -> None:
        self.fn = fn

    def __getstate__(self) -> bytes:
        return dumps(self.fn)

    def __setstate__(self, ob: bytes) -> None:
        self.fn = loads(ob)

    def __call__(self) -> EnvT:
        return self.fn()


@contextmanager
def clear_mpi_env_vars() -> Iterator[None]:
    """Without MPI's variables for a while: a process started with them takes itself for one of MPI's, and hangs."""
    removed = {name: os.environ[name] for name in list(os.environ) if name.startswith(_MPI_PREFIXES)}
    try:
        for name in removed:
            os.environ.pop(name, None)
        yield
    finally:
        os.environ.update(removed)


ALIASES = {
    "misc": {"paddock.gym.vector.utils": "CloudpickleWrapper EnvT clear_mpi_env_vars"},
    "shared_memory": {
        "paddock.spaces.shared_memory": "create_shared_memory read_from_shared_memory write_to_shared_memory"
    },
    "space_utils": {
        "paddock.spaces.batch": "batch_differing_spaces batch_space concatenate create_empty_array iterate"
    },
}
add_aliases(__name__, ALIASES, at_once=("misc", "space_utils"))

_SHARED_MEMORY = ("create_shared_memory", "read_from_shared_memory", "write_to_shared_memory", "shared_memory")


def __getattr__(name: str) -> object:
    if name not in _SHARED_MEMORY:
        raise AttributeError(f"paddock.gym.vector.utils has no {name!r}. It has: {', '.join(__all__)}.")
    module = import_module("paddock.gym.vector.utils.shared_memory")
    return module if name == "shared_memory" else getattr(module, name)
