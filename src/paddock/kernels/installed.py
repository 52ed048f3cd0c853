"""Whether kernels can be compiled here. Importing Numba costs a quarter of a second, so this only looks for it."""

from __future__ import annotations


def numba_installed() -> bool:
    """Whether Numba can be imported."""
    from importlib.util import find_spec

    return find_spec("numba") is not None
