"""Text that can't drive a terminal. All of a stranger's text passes here: a log that is shown later is one too."""

from __future__ import annotations

import re

# Strings for the terminal (OSC, DCS, SOS, PM, APC) end at the next control character, so a scan is never repeated.
_STRING = "(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x9c|\x1b\\\\)"
_CSI = "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"
_ESCAPE = "\x1b[ -/]*[0-~]"
# What reorders a line (marks, embeddings, overrides, isolates) or ends it where nobody sees that; half characters.
_UNSEEN = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROL = f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_UNSEEN}]"  # not newline and tab
_SEQUENCE = re.compile(f"{_STRING}|{_CSI}|{_ESCAPE}|{_CONTROL}")
_COLOUR = re.compile("\x1b\\[[0-9;:]{0,64}m")
# What a space may never declare as its characters; carriage return, form feed and vertical tab are Python's printable.
_DRIVING = re.compile(f"[\x00-\x08\x0e-\x1f\x7f-\x9f{_UNSEEN}]")


def plain(text: str, *, colours: bool = False) -> str:
    r"""``text`` without control characters and escape sequences; with ``colours`` those that only colour stay.

    >>> plain("\x1b[2Ja\tb\x07")
    'a\tb'
    """
    if text.isprintable():
        return text
    return _SEQUENCE.sub(_keep_colour if colours else "", text)


def drives_terminal(characters: str) -> str | None:
    """The first of these characters that a terminal takes as a command, or None."""
    found = _DRIVING.search(characters)
    return None if found is None else found[0]


def brief(text: str, limit: int) -> str:
    """``text`` made plain, and cut after ``limit`` characters."""
    shown = plain(text[: 4 * limit])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _keep_colour(found: re.Match[str]) -> str:
    return found[0] if _COLOUR.fullmatch(found[0]) else ""
