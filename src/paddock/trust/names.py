"""Names that a reader takes for another name: the same letters to the eye, or one slip of a finger away."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

NAMESPACE = "[a-z0-9][a-z0-9_-]{0,49}"  # a pattern: of the owner's name, and of each of their packages
RESERVED = ("paddock", "gymnasium", "openenv")  # namespaces that belong to nobody else
_LOOKS = {"0": "o", "1": "l", "i": "l", "|": "l", "3": "e", "5": "s", "8": "b"}
_SHORTEST = 4  # among shorter names one letter is a difference


def skeleton(name: str) -> str:
    """Return what is left of a name when letters that look alike are one letter."""
    plain = unicodedata.normalize("NFKD", name).casefold()
    plain = re.sub(r"[\W_]", "", plain).replace("rn", "m").replace("vv", "w").replace("cl", "d")
    return "".join(_LOOKS.get(one, one) for one in plain)


def find_lookalike(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that this one, which is another, could be taken for."""
    for other in known:
        if other != name and (skeleton(other) == skeleton(name) or _is_one_slip(name, other)):
            return other
    return None


def _is_one_slip(one: str, other: str) -> bool:
    """Whether one letter more, less, changed or swapped with the next makes one name the other."""
    short, long = sorted((one, other), key=len)
    if len(long) < _SHORTEST or len(long) - len(short) > 1:
        return False
    at = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    rest, more = short[at:], long[at:]
    if len(short) < len(long):
        return rest == more[1:]
    return rest[1:] == more[1:] or (rest[:2] == more[1::-1] and rest[2:] == more[2:])
