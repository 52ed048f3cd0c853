"""Code goes from parent to worker here, and only here: by cloudpickle, in tier ``process``. Replies are not pickled."""

from __future__ import annotations

import pickle
from typing import Any


def dumps(value: Any) -> bytes:
    """``value`` by cloudpickle: functions and classes of ``__main__`` by value, others by their import path."""
    import cloudpickle  # on first use: an import of paddock must stay light

    return cloudpickle.dumps(value)  # type: ignore[no-any-return]


def loads(data: bytes) -> Any:
    """What the parent of this worker sent. Never call it with bytes from anyone else."""
    return pickle.loads(data)  # noqa: S301 - from the process that started this one
