"""Whether this process has descriptors left for another session. A server without any can't even say no."""

from __future__ import annotations

import os

_KEPT = 32  # for connections that ask, and are answered
_FOR_A_START = 12  # while a worker starts; when it runs it has five


def has_descriptors(starting: int) -> bool:
    """Whether another worker may be started beside ``starting`` others."""
    import resource  # here: this module is read on every system

    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return True
    try:
        lowest_free = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    os.close(lowest_free)
    return lowest_free + _FOR_A_START * (starting + 1) + _KEPT <= most
