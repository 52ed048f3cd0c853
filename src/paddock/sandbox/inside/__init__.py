"""What runs in the worker before anything of the environment does: it puts the wall up around itself.

Nothing below may import more than a little of the standard library. The trusted process uses the names here alone.
"""

from __future__ import annotations

import os

# The exit code of a worker that has no wall, by which the launcher tells it from others.
NO_WALL = 125
# What a worker writes once its wall is up, before anything else runs. After that it can't claim that there is no wall.
WALL_UP = b"W"
NO_WALL_TEXT = "paddock: the wall could not be put up: "


class LockFailed(Exception):
    """A part of the wall did not go up as it should. Code that catches this must not go on without that part.

    The text says which part, and why the kernel refused it.
    """


def report_failure(error: Exception) -> None:
    """Write to stderr, which only the launcher reads, why there is no wall."""
    reason = str(error) if isinstance(error, LockFailed) else f"{type(error).__name__}: {error}"
    os.write(2, f"{NO_WALL_TEXT}{reason}\n".encode(errors="backslashreplace"))
