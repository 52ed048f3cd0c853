"""Problem: one thing wrong with an environment. Finding and judging are apart: the guard warns, check_env fails.

``warn_user`` is for all of paddock. Nothing here needs NumPy: the registry warns without it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from paddock.errors import PaddockError

_LONGEST_VALUE = 200


@dataclass(frozen=True)
class Problem:
    """What a check yields.

    rule: the name of a row in ``paddock.testing.RULES``.
    error: what to raise when the environment can't be used like this; None when a warning is enough.
    """

    rule: str
    message: str
    error: type[PaddockError] | None = None
    category: type[Warning] = UserWarning
    cause: BaseException | None = None


def raise_or_warn(problems: Iterable[Problem]) -> None:
    """Warn of each problem in turn; raise the first that has an error."""
    for problem in problems:
        if problem.error is not None:
            raise problem.error(problem.message) from problem.cause
        warn_user(problem.message, problem.category)


def brief(value: Any) -> str:
    """The value's repr, cut where it gets long. For values of environments, whose repr may fail too."""
    try:
        text = repr(value)
    except Exception as error:
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def kind(value: object) -> str:
    """The name of its type with an article: "an int"."""
    name = type(value).__name__
    return f"{'an' if name.lower().startswith(tuple('aeiou')) else 'a'} {name}"


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and name the line outside paddock that led here: the line that the reader of the warning can change."""
    level = 1
    frame = sys._getframe(0)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "paddock":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
