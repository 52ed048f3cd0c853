"""Environments written once: plain scalar Python functions that run as they are, and compiled over n lanes.

See ``docs/kernels.md``. Numba is used if it is installed (``pip install numba``) and never required. Names load when
first used: ``make`` asks here whether Numba is installed, and must not wait for the rest.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Kernel": "kernel",
    "KernelEnv": "env",
    "KernelVectorEnv": "vector",
    "LaneRng": "rng",
    "cos32": "numeric",
    "f32": "numeric",
    "power": "numeric",
    "power32": "numeric",
    "sin32": "numeric",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'paddock.kernels' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"paddock.kernels.{_HOMES[name]}"), name)
    return value


def numba_installed() -> bool:
    """Whether kernels can be compiled here. Numba is only looked for: importing it takes a quarter of a second."""
    return find_spec("numba") is not None


if TYPE_CHECKING:
    from paddock.kernels.env import KernelEnv as KernelEnv
    from paddock.kernels.kernel import Kernel as Kernel
    from paddock.kernels.numeric import cos32 as cos32
    from paddock.kernels.numeric import f32 as f32
    from paddock.kernels.numeric import power as power
    from paddock.kernels.numeric import power32 as power32
    from paddock.kernels.numeric import sin32 as sin32
    from paddock.kernels.rng import LaneRng as LaneRng
    from paddock.kernels.vector import KernelVectorEnv as KernelVectorEnv
