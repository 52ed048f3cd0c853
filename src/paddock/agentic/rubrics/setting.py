"""Numbers that a rubric is set up with. Text that looks like a number is a mistake here, not a number."""

from __future__ import annotations

from typing import Any

from paddock.agentic.rubrics.score import NoScore, finite
from paddock.errors import InvalidRubric


def number(name: str, given: Any, *, least: float | None = None, most: float | None = None) -> float:
    """A finite number within the bounds."""
    try:
        value = finite(given)
    except NoScore:
        raise InvalidRubric(f"{name}: {given!r} is no finite number.") from None
    if (least is not None and value < least) or (most is not None and value > most):
        raise InvalidRubric(f"{name}: {given!r} is not in [{least}, {most}].")
    return value
