"""Colours for terminals. The codes are ANSI's, except `crimson`, which no terminal knows: it is Gymnasium's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_NAMES = ("gray", "red", "green", "yellow", "blue", "magenta", "cyan", "white", "crimson")
color2num: Final[Mapping[str, int]] = {name: code for code, name in enumerate(_NAMES, start=30)}


def colorize(string: str, color: str, bold: bool = False, highlight: bool = False) -> str:
    """The text between the escape codes of a colour, which ``highlight`` puts behind the letters."""
    code = color2num[color] + (10 if highlight else 0)
    return f"\x1b[{code}{';1' if bold else ''}m{string}\x1b[0m"
