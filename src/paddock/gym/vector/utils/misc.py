"""``gymnasium.vector.utils.misc``: env factories as bytes. Loading them runs code: only a parent's own child does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic

from paddock.core.env import Env
from paddock.hosting.factories import dumps, loads

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    EnvT = TypeVar("EnvT", bound=Env[Any, Any], covariant=True, default=Env[Any, Any])
else:
    from typing import TypeVar

    EnvT = TypeVar("EnvT", bound=Env, covariant=True)

__all__ = ["CloudpickleWrapper", "clear_mpi_env_vars"]

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
