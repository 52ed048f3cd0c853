"""What a docstring in Google's style says of a function and of its arguments. Only indentation tells where a part ends.

Types that stand there, as in ``number (int): ...``, are ignored: the signature has them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import NamedTuple

_ARGUMENTS = frozenset({"args", "arguments", "parameters", "params"})
_SECTIONS = _ARGUMENTS | {"returns", "return", "raises", "yields", "example", "examples", "note", "notes"}
_HEAD = re.compile(r"(\w+)\s*:\s*$")
_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


class Described(NamedTuple):
    """``text`` is all that stands before the first section."""

    text: str
    arguments: dict[str, str]


def read_docstring(docstring: str | None) -> Described:
    """The parts that a model needs; no docstring says nothing.

    >>> read_docstring('''Guess.
    ...
    ...     Args:
    ...         number: between 1
    ...             and 10.
    ...     ''')
    Described(text='Guess.', arguments={'number': 'between 1 and 10.'})
    """
    text: list[str] = []
    arguments: dict[str, str] = {}
    for head, lines in _sections(inspect.cleandoc(docstring or "").splitlines()):
        if head in _ARGUMENTS:
            arguments.update(_entries(lines))
        elif not head:
            text = lines
    return Described("\n".join(text).strip(), arguments)


def _sections(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Each section's name in small letters, with its lines; what stands before the first has an empty name."""
    head, found = "", list[str]()
    for line in lines:
        match = _HEAD.match(line)
        if match is not None and match[1].lower() in _SECTIONS:
            yield head, found
            head, found = match[1].lower(), []
        else:
            found.append(line)
    yield head, found


def _entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Names with their texts. The first line says how deep names stand; deeper lines go on with the text."""
    name, words, depth = "", list[str](), None
    for line in filter(str.strip, lines):
        indent = len(line) - len(line.lstrip())
        depth = indent if depth is None else depth
        match = _ENTRY.match(line.strip()) if indent <= depth else None
        if match is None:
            words.append(line.strip())
            continue
        if name:
            yield name, " ".join(filter(None, words))
        name, words = match[1], [match[2]]
    if name:
        yield name, " ".join(filter(None, words))
