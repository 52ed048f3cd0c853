"""Whether kernels can be compiled here. Importing Numba costs a quarter of a second, so this only looks for it."""

from __future__ import annotations

import os
import sys


def is_worker() -> bool:
    """Whether this is a worker process, ours or one of multiprocessing's.

    There a step waits for a wake-up of a tenth of a millisecond: half a second for quicker dynamics does not pay.
    """
    processes = sys.modules.get("multiprocessing.process")
    forked = processes is not None and processes.parent_process() is not None
    return forked or "PADDOCK_WORKER" in os.environ


def keeps_code() -> bool:
    """Whether machine code outlives this process: PADDOCK_CACHE=none says no, as behind a wall.

    Then compiling takes seconds every time, and is for many lanes only.
    """
    return os.environ.get("PADDOCK_CACHE") != "none"


def numba_installed() -> bool:
    """Whether Numba can be imported."""
    from importlib.util import find_spec

    return find_spec("numba") is not None
