"""Text that can't control a terminal. All of a stranger's text passes here: a log may be shown on one later."""

from __future__ import annotations

import re

# Strings for the terminal (OSC, DCS, SOS, PM, APC) end at the next control character, so a scan is never repeated.
_STRING = "(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x9c|\x1b\\\\)"
_CSI = "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"
_ESCAPE = "\x1b[ -/]*[0-~]"
# What reorders a line (marks, embeddings, overrides, isolates) or ends it invisibly; half characters.
_UNSEEN = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROL = f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_UNSEEN}]"  # not newline and tab
_SEQUENCE = re.compile(f"{_STRING}|{_CSI}|{_ESCAPE}|{_CONTROL}")
_COLOUR = re.compile("\x1b\\[[0-9;:]{0,64}m")
# What a space may never declare as its characters; carriage return, form feed and vertical tab are Python's printable.
_DRIVING = re.compile(f"[\x00-\x08\x0e-\x1f\x7f-\x9f{_UNSEEN}]")


def strip_escapes(text: str, *, colours: bool = False) -> str:
    r"""``text`` without control characters and escape sequences; with ``colours`` those that only colour stay.

    >>> strip_escapes("\x1b[2Ja\tb\x07")
    'a\tb'
    """
    if text.isprintable():
        return text
    if not colours:
        return _SEQUENCE.sub("", text)
    return _SEQUENCE.sub(lambda found: found[0] if _COLOUR.fullmatch(found[0]) else "", text)


def drives_terminal(characters: str) -> str | None:
    """The first of these characters that a terminal takes as a command, or None."""
    found = _DRIVING.search(characters)
    return None if found is None else found[0]


def shorten(text: str, limit: int) -> str:
    """``text`` without control characters, cut after ``limit`` characters."""
    clean = strip_escapes(text[: 4 * limit])
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
