"""What the nodes of a schema share: the trouble they report, and the state of one reading or one drawing.

A path is put together only when something is wrong: each container adds its part while the error passes through.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

import numpy as np

from paddock.errors import InvalidSpace

# Branches of unions that may fail in one reading: a stranger's schema could make them double at every level. A second.
TRY_LIMIT = 1 << 17
# Nodes that one sample may have, and how deep it may go.
DRAW_LIMIT = 1 << 16
DRAW_DEPTH = 64
# Below this depth lists stay short and optional fields are left out, so that recursive types come to an end.
SHALLOW = 6

_NAME = re.compile(r"[^\W\d]\w{0,60}")


class Mismatch(Exception):
    """Data that a node does not take; ``parts`` lead from it outward."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.parts: list[str | int] = []

    @property
    def path(self) -> str:
        """Where it is: ``moves[2].to``."""
        return join(reversed(self.parts))


class Trail(str):
    """A piece of a path that is written already: ``.a[1]``, or nothing."""


def join(parts: Any) -> str:
    """Names and indices as one path."""
    text = ""
    for part in parts:
        if isinstance(part, Trail):
            text += part if text else part.removeprefix(".")
        elif isinstance(part, str) and _NAME.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{part}]" if isinstance(part, int) else f"[{part[:40]!r}]"
    return text


def shown(value: Any) -> str:
    """A short piece of what was given; its own ``repr`` is not asked unless it is a plain value."""
    if type(value) in (bool, float, type(None)):
        return repr(value)
    if type(value) is int:
        return str(value) if value.bit_length() < 64 else "a huge int"
    if type(value) is str:
        return repr(value) if len(value) <= 40 else f"{value[:40]!r}…"
    name = type(value).__name__[:60]
    return f"an {name}" if name[:1] in "aeiou" else f"a {name}"


def refuse(expected: str, data: Any) -> Mismatch:
    """The usual complaint."""
    return Mismatch(f"expected {expected}, got {shown(data)}")


class Walk:
    """One reading. ``plain``: give the JSON form of members of spaces, not the members themselves.

    ``kept`` are members that pydantic was not to turn into lists: data refers to them by number.
    """

    __slots__ = ("kept", "plain", "tries_left")

    def __init__(self, *, plain: bool, kept: list[Any] | None = None) -> None:
        self.plain, self.kept, self.tries_left = plain, kept, TRY_LIMIT

    def count_failure(self) -> None:
        """Count a branch of a union that did not take the data."""
        self.tries_left -= 1
        if self.tries_left < 0:
            raise Mismatch(f"could be read in more than {TRY_LIMIT} ways, and none fits")


class Draw:
    """One sample in the making."""

    __slots__ = ("left", "random")

    def __init__(self, random: np.random.Generator) -> None:
        self.random, self.left = random, DRAW_LIMIT

    def enter(self, depth: int, count: int = 1) -> None:
        """Count nodes, and refuse what would not come to an end."""
        self.left -= count
        if self.left < 0 or depth > DRAW_DEPTH:
            raise InvalidSpace(
                f"a sample would have more than {DRAW_LIMIT} parts or {DRAW_DEPTH} levels, so none is drawn"
            )

    def below(self, end: int) -> int:
        """An integer from 0 to ``end - 1``, however large that is."""
        if end < 1 << 62:
            return int(self.random.integers(end))
        return int.from_bytes(self.random.bytes(end.bit_length() // 8 + 9), "little") % end


class Node(Protocol):
    """A part of a schema."""

    def read(self, data: Any, walk: Walk) -> Any:
        """``data`` checked, with members for what describes members of spaces; or Mismatch."""
        ...

    def sample(self, draw: Draw, depth: int) -> Any:
        """Random data that `read` takes, as far as a schema can say."""
        ...
