"""Code goes from parent to worker here, and only here: by cloudpickle, in tier ``process``. Nothing comes back so."""

from __future__ import annotations

import pickle
from typing import Any

from paddock.errors import DependencyNotInstalled


def dumps(value: Any) -> bytes:
    """``value`` by cloudpickle: functions and classes of ``__main__`` by value, others by their import path.

    Without cloudpickle, what can be imported in the worker still crosses.
    """
    try:
        import cloudpickle
    except ImportError as error:
        return _importable(value, error)
    return cloudpickle.dumps(value)  # type: ignore[no-any-return]


def loads(data: bytes) -> Any:
    """What the parent of this worker sent. Never call it with bytes from anyone else."""
    return pickle.loads(data)  # noqa: S301 - from the process that started this one


def _importable(value: Any, missing: ImportError) -> bytes:
    try:
        data = pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        data = b"__main__"
    if b"__main__" in data:  # the worker has another __main__
        raise DependencyNotInstalled(
            "Lambdas, local functions and classes of the main script reach a worker process by cloudpickle, which is "
            'not installed. Put them into a module, or: pip install "paddock[process]"'
        ) from missing
    return data
