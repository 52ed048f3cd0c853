"""How a guess is marked: green in its place, yellow elsewhere in the word, grey not in it.

What one would get wrong: each letter of the answer is spent once. The second E of GEESE is grey if the answer has one E
only and the first took it.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal, TypeAlias

Mark: TypeAlias = Literal["green", "yellow", "grey"]
_SIGNS: dict[Mark, str] = {"green": "G", "yellow": "Y", "grey": "-"}


def marks(guess: str, answer: str) -> list[Mark]:
    """A mark for each letter of the guess; both have the same length.

    >>> marks("geese", "crane")
    ['grey', 'grey', 'grey', 'grey', 'green']
    """
    found: list[Mark] = ["green" if one == other else "grey" for one, other in zip(guess, answer, strict=True)]
    left = Counter(other for one, other in zip(guess, answer, strict=True) if one != other)
    for at, letter in enumerate(guess):
        if found[at] != "green" and left[letter]:
            left[letter] -= 1
            found[at] = "yellow"
    return found


def shown(found: list[Mark]) -> str:
    """As text, one sign a letter: ``G``, ``Y`` or ``-``."""
    return "".join(_SIGNS[one] for one in found)
