"""Warnings that name the caller's line. Imports nothing of ours, so that the registry can warn without NumPy."""

from __future__ import annotations

import sys
import warnings


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, naming the line outside paddock that led here: the line that a reader of the warning can change."""
    level = 1
    frame = sys._getframe(0)
    while frame.f_back is not None and _is_ours(str(frame.f_globals.get("__name__"))):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == "paddock" or module.startswith("paddock.")
