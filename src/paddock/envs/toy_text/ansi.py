"""Colours in text that a terminal shows: the codes that ``render_mode="ansi"`` uses."""

from __future__ import annotations

ON_RED, ON_GREEN, ON_YELLOW, MAGENTA, BOLD_BLUE = "41", "42", "43", "35", "34;1"


def painted(text: str, code: str) -> str:
    """The text between the escape codes of a colour."""
    return f"\x1b[{code}m{text}\x1b[0m"
