"""Gymnasium's logger: coloured Python warnings. Only what is logged through here looks at `min_level`."""

from __future__ import annotations

import warnings

from paddock.gym.utils.colorize import colorize

WARN = 30
ERROR = 40

min_level = 30


def warn(msg: str, *args: object, category: type[Warning] | None = None, stacklevel: int = 1) -> None:
    """Warn with ``msg % args``, unless ``min_level`` is above WARN."""
    if min_level <= WARN:
        warnings.warn(colorize(f"WARN: {msg % args}", "yellow"), category=category, stacklevel=stacklevel + 1)


def deprecation(msg: str, *args: object) -> None:
    """Warn that something is deprecated."""
    warn(msg, *args, category=DeprecationWarning, stacklevel=2)


def error(msg: str, *args: object) -> None:
    """Warn in red, unless ``min_level`` is above ERROR."""
    if min_level <= ERROR:
        warnings.warn(colorize(f"ERROR: {msg % args}", "red"), stacklevel=3)
