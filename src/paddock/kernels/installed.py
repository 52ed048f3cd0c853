"""Whether kernels can be compiled here. Importing Numba costs a quarter of a second, so this only looks for it."""

from __future__ import annotations

from importlib.util import find_spec


def numba_installed() -> bool:
    """Whether Numba can be imported."""
    return find_spec("numba") is not None
