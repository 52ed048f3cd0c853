"""Regular expressions whose matching can't take long, and text that matches them.

Only a row of characters and classes with repeats, no groups and no alternatives, and few repeats that can vary: Python
tries those in every combination. Whatever else a schema has as a pattern is left to the class that it came from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from paddock.spaces.records.walk import Draw

# The time is at most (length of the text) ** VARYING_LIMIT.
VARYING_LIMIT = 2
PATTERN_LIMIT = 1000
TEXT_LIMIT = 10_000
_LONGER = 8  # how many repeats more than needed a sample has at most

_ATOM = r"\[\^?(?:\\.|[^\]\\\[])+\]|\\[dws.\\/\-+*?(){}\[\]^$|]|[^\\^$.|?*+()\[\]{}]|\."
_ITEM = re.compile(rf"({_ATOM})(\?|\*|\+|\{{\d{{1,4}}(?:,\d{{0,4}})?\}})?")
_DIALECTS = ("--", "&&", "||", "~~")  # within brackets: sets to some, characters to others
_CANDIDATES = [chr(code) for code in range(32, 127)]


@dataclass(frozen=True)
class _Item:
    atom: str
    least: int
    most: int | None

    @cached_property
    def characters(self) -> list[str]:
        return [char for char in _CANDIDATES if re.fullmatch(self.atom, char)]


class Pattern:
    """A pattern that is safe to match."""

    def __init__(self, text: str, items: list[_Item]) -> None:
        self.text, self._items = text, items
        self._matcher = re.compile(text)

    def matches(self, text: str) -> bool:
        """Whether it is found in ``text``; a very long text is not looked at."""
        return len(text) > TEXT_LIMIT or self._matcher.search(text) is not None

    def sample(self, draw: Draw) -> str | None:
        """Text that matches, or None where no ASCII character does."""
        found = []
        for item in self._items:
            most = item.least + _LONGER if item.most is None else min(item.most, item.least + _LONGER)
            count = item.least + draw.below(most - item.least + 1)
            if count and not item.characters:
                return None
            draw.enter(0, count)
            found += [item.characters[draw.below(len(item.characters))] for _ in range(count)]
        return "".join(found)


def safe_pattern(text: str) -> Pattern | None:
    """The pattern, or None where matching it could take long or is not the same everywhere."""
    body = text.removeprefix("^")
    anchored = body != text
    if body.endswith("$") and not body.endswith("\\$"):
        body = body[:-1]
    items, place = [], 0
    while place < len(body) and len(text) <= PATTERN_LIMIT:
        match = _ITEM.match(body, place)
        if match is None or any(sign in match[1] for sign in _DIALECTS):
            return None
        items.append(_Item(match[1], *_repeats(match[2])))
        place = match.end()
    varying = sum(item.least != item.most for item in items)
    if place < len(body) or varying + (not anchored) > VARYING_LIMIT:
        return None
    try:
        return Pattern(text, items)
    except re.error:
        return None


def _repeats(text: str | None) -> tuple[int, int | None]:
    if text is None:
        return 1, 1
    if text in "?*+":
        return {"?": (0, 1), "*": (0, None), "+": (1, None)}[text]
    least, comma, most = text[1:-1].partition(",")
    if not comma:
        return int(least), int(least)
    return int(least), int(most) if most else None
