"""Gymnasium's logger: coloured Python warnings. `min_level` applies only to what is logged through this module."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Final

_NAMES = ("gray", "red", "green", "yellow", "blue", "magenta", "cyan", "white", "crimson")
# ANSI's codes, except `crimson`, which no terminal knows: it is Gymnasium's.
color2num: Final[Mapping[str, int]] = {name: code for code, name in enumerate(_NAMES, start=30)}
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


def colorize(string: str, color: str, bold: bool = False, highlight: bool = False) -> str:
    """The text between the escape codes of a colour, which ``highlight`` puts behind the letters."""
    code = color2num[color] + (10 if highlight else 0)
    return f"\x1b[{code}{';1' if bold else ''}m{string}\x1b[0m"
