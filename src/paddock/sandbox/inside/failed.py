"""LockFailed: a part of the wall did not go up as it was asked for. Who catches it must not go on without that part."""

from __future__ import annotations

import os

# How a worker that has no wall ends, so that the launcher can tell it from whatever else ends.
NO_WALL = 125
# What a worker whose wall is up says before anything else runs. Whoever has said it can't claim that there is no wall.
WALL_UP = b"W"
NO_WALL_TEXT = "paddock: the wall could not be put up: "


class LockFailed(Exception):
    """The text says which part, and why the kernel refused it."""


def tell(error: Exception) -> None:
    """Say on stderr, which only the launcher reads, why there is no wall."""
    reason = str(error) if isinstance(error, LockFailed) else f"{type(error).__name__}: {error}"
    os.write(2, f"{NO_WALL_TEXT}{reason}\n".encode(errors="backslashreplace"))
